"""Values of requests as arrays, and plain texts as sequences."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.serving.engines import Batch
from bert_tf.tasks.signatures import PlainTexts
from pipelines.common.errors import InputError
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

_INT32 = np.iinfo(np.int32)
MAX_DEPTH = 8  # of nested lists; no input has so many axes


def as_array(name: str, value: Any) -> np.ndarray:
    """Strings as an object array of bytes, integers as int32.

    Args:
      name: of the input, for errors.
      value: a batch: str, bytes or integers, nested in lists as deep as the input has axes,
        or an array or tensor of them.

    Raises:
      InputError: the value has another type, rows of unequal lengths, or an integer beyond int32.
    """
    if isinstance(value, tf.Tensor):
        value = value.numpy()
    if isinstance(value, str | bytes):
        raise InputError(f"{name}: is one text; give a batch, a list of texts.")
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size:
        return _int32(name, value)
    flat = _flatten(name, value)
    if not flat:
        return value if isinstance(value, np.ndarray) else _nested(name, value)
    if all(isinstance(item, str | bytes) for item in flat):
        array = _nested(name, value)
        found = np.empty(array.size, object)
        found[:] = [_encode(name, item) for item in array.ravel()]
        return found.reshape(array.shape)
    if all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in flat):
        return _int32(name, _nested(name, value))
    raise InputError(f"{name}: must be all strings or all integers.")


def _int32(name: str, array: np.ndarray) -> np.ndarray:
    low, high = int(array.min()), int(array.max())
    if low < _INT32.min or high > _INT32.max:
        raise InputError(f"{name}: {max(low, high, key=abs)} is beyond int32.")
    return array.astype(np.int32)


def _flatten(name: str, value: Any, depth: int = 0) -> list[Any]:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if not isinstance(value, list | tuple):
        return [value]
    if depth == MAX_DEPTH:
        raise InputError(f"{name}: is nested too deeply.")
    return [item for part in value for item in _flatten(name, part, depth + 1)]


def _nested(name: str, value: Any) -> np.ndarray:
    try:
        array = np.array(value, object)
    except ValueError:  # nested to unequal depths
        array = None
    if array is None or any(isinstance(item, list | tuple) for item in array.ravel()):
        raise InputError(f"{name}: rows of unequal lengths; fill them up.")
    return array


def _encode(name: str, text: str | bytes) -> bytes:
    try:
        return text if isinstance(text, bytes) else text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name}: has half of a surrogate pair, which UTF-8 cannot.") from error


def pack_plain(
    plain: PlainTexts, tokenizer: Tokenizer, inputs: Mapping[str, np.ndarray]
) -> Batch | None:
    """The sequences of a request, made without TensorFlow by the same rules as the graph.

    Args:
      plain: how the texts become sequences.
      tokenizer: of the model.
      inputs: object [batch] of bytes, by name.

    Returns:
      The sequences; None if the graph has to make them, or to report an error.
    """
    columns = [inputs[name] for name in plain.names]
    if not len(columns[0]) or len({len(column) for column in columns}) > 1:
        return None
    rows = []
    for texts in zip(*columns, strict=True):
        segments = []
        for text in texts:
            ids = _plain_ids(plain, tokenizer, text)
            if ids is None:
                return None
            segments.append(ids)
        second = segments[1] if len(segments) > 1 else None
        rows.append(packing.pack_ids(tokenizer, segments[0], second, plain.max_length))
    shape = (len(rows), max(len(ids) for ids, _ in rows))
    batch = Batch(np.full(shape, tokenizer.pad_id, np.int32), *np.zeros([2, *shape], np.int32))
    for row, (ids, types) in enumerate(rows):
        batch.ids[row, : len(ids)] = ids
        batch.mask[row, : len(ids)] = 1
        batch.types[row, : len(ids)] = types
    return batch


def _plain_ids(plain: PlainTexts, tokenizer: Tokenizer, text: bytes) -> list[int] | None:
    if not text.isascii():
        return None
    decoded = text.decode("ascii")
    if plain.excluded and plain.excluded in decoded:
        return None
    return tokenizer.plain_ids(decoded)
