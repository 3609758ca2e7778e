"""Values of TensorFlow Serving's REST interface: its JSON, to inputs and from outputs."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.serving.predictor import Outputs
from bert_tf.serving.requests import DEEPEST
from bert_tf.serving.server.faults import Fault, RefusalError


def is_by_rows(body: Mapping[str, Any]) -> bool:
    """Whether a request has `instances`, a value for each row, and no `inputs`.

    Raises:
      RefusalError: it has both, or neither.
    """
    if ("instances" in body) == ("inputs" in body):
        raise _invalid('The request must have either "instances" or "inputs".')
    return "instances" in body


def rows_of(body: Mapping[str, Any]) -> int:
    """The rows of a request, before it is checked or converted: the most that it may mean."""
    rows = [body.get("instances"), body.get("examples"), inputs := body.get("inputs")]
    if isinstance(inputs, dict):
        rows += inputs.values()
    return max((len(found) for found in rows if isinstance(found, list)), default=0)


def inputs_of(body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The inputs of a request for `predict`, by name, the batch first.

    Args:
      body: the request.
      names: of the signature's inputs; the only one may go without its name.

    Raises:
      RefusalError: it is no such request.
    """
    if not is_by_rows(body):
        return _named(body["inputs"], names)
    rows = body["instances"]
    if not isinstance(rows, list) or not rows:
        raise _invalid('"instances" must be a list that is not empty.')
    named = [_named(row, names) for row in rows]
    keys = named[0].keys()
    if any(row.keys() != keys for row in named):
        raise _invalid('All of "instances" must have the same names.')
    return {key: [row[key] for row in named] for key in keys}


def _named(value: Any, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(value, dict) and value.keys() != {"b64"}:
        return {key: _plain(part) for key, part in value.items()}
    if len(names) != 1:
        raise _invalid(f"Inputs must be named: {', '.join(names)}.")
    return {names[0]: _plain(value)}


def _plain(value: Any, depth: int = 0) -> Any:
    """A value, in so many lists, with bytes in place of what is in base64.

    Raises:
      RefusalError: that is damaged, there is another object, or lists are nested too deeply.
    """
    if isinstance(value, list):
        if depth == DEEPEST:
            raise _invalid(f"Lists may be nested {DEEPEST} deep at the most.")
        return [_plain(part, depth + 1) for part in value]
    if isinstance(value, dict):
        try:
            (encoded,) = (value[key] for key in ("b64",) if len(value) == 1)
            return base64.b64decode(encoded, validate=True)
        except (KeyError, ValueError, TypeError, binascii.Error) as error:
            raise _invalid('An object must be {"b64": "..."}, of bytes in base64.') from error
    return value


def context_size(body: Mapping[str, Any]) -> int:
    """The bytes of a context, which all examples of a request get.

    Raises:
      RefusalError: it has values that no example can have.
    """
    context = body.get("context")
    return len(_example(context)) if isinstance(context, dict) else 0


def examples_of(body: Mapping[str, Any]) -> list[bytes]:
    """The serialized tf.Examples of a request for `classify` or `regress`.

    Raises:
      RefusalError: it is no such request.
    """
    rows = body.get("examples")
    context = body.get("context", {})
    if not isinstance(rows, list) or not rows or not isinstance(context, dict):
        raise _invalid('"examples" must be a list of objects, and not empty.')
    if not all(isinstance(row, dict) for row in rows):
        raise _invalid('"examples" must be a list of objects.')
    return [_example({**context, **row}) for row in rows]


def _example(values: Mapping[str, Any]) -> bytes:
    example = tf.train.Example()
    for name, value in values.items():
        parts = _plain(value)
        try:
            _fill(example.features.feature[name], parts if isinstance(parts, list) else [parts])
        except TypeError as error:
            message = f"{name}: a feature must be of strings, or of numbers."
            raise _invalid(message) from error
        except (ValueError, OverflowError) as error:
            raise _invalid(f"{name}: has a number beyond 64 bits.") from error
    return example.SerializeToString()


def _fill(feature: tf.train.Feature, parts: list[Any]) -> None:
    """Puts values into a feature.

    Raises:
      TypeError: they are neither strings nor numbers.
      ValueError, OverflowError: a number is beyond 64 bits.
    """
    if all(isinstance(part, str | bytes) for part in parts):
        encoded = (part.encode() if isinstance(part, str) else part for part in parts)
        feature.bytes_list.value.extend(encoded)
    elif all(isinstance(part, int) and not isinstance(part, bool) for part in parts):
        feature.int64_list.value.extend(parts)
    elif all(isinstance(part, int | float) for part in parts):
        feature.float_list.value.extend(parts)
    else:
        raise TypeError


def predictions_of(outputs: Outputs, by_rows: bool) -> dict[str, Any]:
    """The answer to a request for `predict`, in the form that it was asked in."""
    columns = {name: json_value(name, value) for name, value in outputs.items()}
    if not by_rows:
        return {"outputs": _unnamed(columns)}
    count = len(next(iter(outputs.values())))
    rows = [{name: column[row] for name, column in columns.items()} for row in range(count)]
    return {"predictions": [_unnamed(row) for row in rows]}


def classes_of(outputs: Outputs) -> dict[str, Any]:
    """The answer to a request for `classify`."""
    rows = zip(outputs["classes"].tolist(), outputs["scores"].tolist(), strict=True)
    return {
        "results": [
            [[label.decode("utf-8", "replace"), score] for label, score in zip(*row, strict=True)]
            for row in rows
        ]
    }


def numbers_of(outputs: Outputs) -> dict[str, Any]:
    """The answer to a request for `regress`."""
    return {"results": outputs["outputs"].reshape(-1).tolist()}


def _unnamed(values: dict[str, Any]) -> Any:
    """The only value, or all by name."""
    return next(iter(values.values())) if len(values) == 1 else values


def json_value(name: str, value: np.ndarray) -> Any:
    """An output as JSON; strings are text, those of names that end in `_bytes` in base64."""
    if value.dtype != object:
        return value.tolist()
    if name.endswith("_bytes"):
        return _mapped(value.tolist(), lambda x: {"b64": base64.b64encode(x).decode()})
    return _mapped(value.tolist(), lambda x: x.decode("utf-8", "replace"))


def _mapped(value: Any, function: Callable[[bytes], Any]) -> Any:
    if isinstance(value, list):
        return [_mapped(part, function) for part in value]
    return function(value)


def _invalid(message: str) -> RefusalError:
    return RefusalError(Fault.INVALID, message)
