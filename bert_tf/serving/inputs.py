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
    try:
        array = np.array(value, object)
    except ValueError as error:  # nested to unequal depths
        raise _ragged(name) from error
    if array.ndim > MAX_DEPTH:
        raise InputError(f"{name}: is nested too deeply.")
    items = array.ravel().tolist()
    if any(isinstance(item, list | tuple) for item in items):
        raise _ragged(name)
    if all(isinstance(item, str | bytes) for item in items):
        found = np.empty(array.size, object)
        found[:] = [_encode(name, item) for item in items]
        return found.reshape(array.shape)
    if not all(isinstance(x, int | np.integer) and not isinstance(x, bool) for x in items):
        raise InputError(f"{name}: must be all strings or all integers.")
    return _int32(name, array)


def _int32(name: str, array: np.ndarray) -> np.ndarray:
    low, high = int(array.min()), int(array.max())
    if low < _INT32.min or high > _INT32.max:
        raise InputError(f"{name}: {max(low, high, key=abs)} is beyond int32.")
    return array.astype(np.int32)


def _ragged(name: str) -> InputError:
    return InputError(f"{name}: rows of unequal lengths; fill them up.")


def _encode(name: str, text: str | bytes) -> bytes:
    try:
        return text if isinstance(text, bytes) else text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name}: has half of a surrogate pair, which UTF-8 cannot.") from error


def pack_plain(
    plain: PlainTexts, tokenizer: Tokenizer, inputs: Mapping[str, np.ndarray]
) -> Batch | None:
    """The sequences of a request, made without TensorFlow by the same rules as the graph.

    The inputs are object [batch] of bytes. None if the graph has to make the sequences, or to
    report an error.
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
        rows.append(packing.pack_ids(tokenizer, segments[0], second, plain.max_seq_length))
    shape = (len(rows), max(len(ids) for ids, _ in rows))
    batch = Batch(np.full(shape, tokenizer.pad_id, np.int32), *np.zeros([2, *shape], np.int32))
    for row, (ids, types) in enumerate(rows):
        batch.ids[row, : len(ids)] = ids
        batch.mask[row, : len(ids)] = 1
        batch.types[row, : len(ids)] = types
    return batch


def _plain_ids(plain: PlainTexts, tokenizer: Tokenizer, text: bytes) -> list[int] | None:
    if not (text.isascii() and plain.prefix.isascii()):
        return None
    return tokenizer.plain_ids(plain.prefix + text.decode("ascii"))
