"""The JSON of TensorFlow Serving's REST interface: to inputs, and from outputs.

All functions of requests raise RefusalError if the request is invalid.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import tensorflow as tf

from bert_tf.serving.engines import Outputs
from bert_tf.serving.inputs import MAX_DEPTH
from bert_tf.serving.server.faults import Fault, RefusalError

_T = TypeVar("_T")
_CUT_OFF = "Input data was truncated"  # of msgspec, also where a text ends within an escape
# Of a body, wherever they are: an empty list of 3 bytes takes 64 bytes of memory, an object 232.
_MAX_BRACKETS = 1 << 17


def decoded(body: bytes, kind: type[_T]) -> _T:
    """A body of JSON as this type."""
    # Setting a bit maps [ to {, and } to itself. NumPy counts without holding the interpreter.
    brackets = np.count_nonzero(np.frombuffer(body, np.uint8) | 0x20 == ord("{"))
    if brackets > _MAX_BRACKETS:
        raise RefusalError(
            Fault.TOO_LARGE,
            f"The request has {brackets:,} opening brackets (lists, objects, and those in texts); "
            f"at most {_MAX_BRACKETS:,} are allowed: send less at once.",
        )
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error)
        if reason == _CUT_OFF and body.rstrip()[-1:] in (b"}", b"]"):
            reason = "a text has half of a surrogate pair (\\ud800 to \\udfff), or it is cut off"
        raise _invalid(f"The request is invalid: {reason}") from error


def is_by_rows(body: Mapping[str, Any]) -> bool:
    """Whether a request has `instances`, a value for each row, rather than `inputs`."""
    if ("instances" in body) == ("inputs" in body):
        raise _invalid('The request must have either "instances" or "inputs".')
    return "instances" in body


def rows_of(body: Mapping[str, Any]) -> int:
    """The maximum number of rows of a request, before it is checked or converted."""
    inputs = body.get("inputs")
    rows = [body.get("instances"), body.get("examples"), inputs]
    if isinstance(inputs, dict):
        rows += inputs.values()
    return max((len(found) for found in rows if isinstance(found, list)), default=0)


def inputs_of(body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The inputs of a request for `predict`, by name, the batch first.

    A single input of a signature (`names`) needs no name.
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
    """A value with base64 decoded, within `depth` lists."""
    if isinstance(value, list):
        if depth == MAX_DEPTH:
            raise _invalid(f"Lists may be nested {MAX_DEPTH} deep at most.")
        return [_plain(part, depth + 1) for part in value]
    if isinstance(value, dict):
        try:
            ((key, encoded),) = value.items()
            if key == "b64":
                return base64.b64decode(encoded, validate=True)
        except (ValueError, TypeError, binascii.Error):
            pass
        raise _invalid('An object must be {"b64": "..."}, with bytes in base64.')
    return value


def context_size(body: Mapping[str, Any]) -> int:
    """Bytes of the context, which is copied into all examples of a request."""
    context = body.get("context")
    return len(_example(context)) if isinstance(context, dict) else 0


def examples_of(body: Mapping[str, Any]) -> list[bytes]:
    """The serialized tf.Examples of a request for `classify` or `regress`."""
    rows, context = body.get("examples"), body.get("context", {})
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise _invalid('"examples" must be a list of objects, and not empty.')
    if not isinstance(context, dict):
        raise _invalid('"context" must be an object.')
    return [_example({**context, **row}) for row in rows]


def _example(values: Mapping[str, Any]) -> bytes:
    example = tf.train.Example()
    for name, value in values.items():
        parts = _plain(value)
        parts = parts if isinstance(parts, list) else [parts]
        try:
            feature = example.features.feature[name]
            if all(isinstance(part, str | bytes) for part in parts):
                encoded = (part.encode() if isinstance(part, str) else part for part in parts)
                feature.bytes_list.value.extend(encoded)
            elif not all(isinstance(part, int | float) for part in parts):
                raise _invalid(f"{name}: a feature must be of strings, or of numbers.")
            elif any(isinstance(part, bool | float) for part in parts):
                feature.float_list.value.extend(parts)
            else:
                feature.int64_list.value.extend(parts)
        except (ValueError, OverflowError) as error:
            raise _invalid(f"{name}: has a number beyond 64 bits.") from error
    return example.SerializeToString()


def predictions_of(outputs: Outputs, by_rows: bool) -> dict[str, Any]:
    """The answer to a request for `predict`, by rows or by columns as the request."""
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
    """An output as JSON; strings are text, or base64 if the name ends in `_bytes`."""
    if value.dtype != object:
        return value.tolist()

    def encoded(part: Any) -> Any:
        if isinstance(part, list):
            return [encoded(item) for item in part]
        if name.endswith("_bytes"):
            return {"b64": base64.b64encode(part).decode()}
        return part.decode("utf-8", "replace")

    return encoded(value.tolist())


def _invalid(message: str) -> RefusalError:
    return RefusalError(Fault.INVALID, message)
