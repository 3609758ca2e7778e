"""Values of requests as the arrays that signatures take."""

from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.common.errors import InputError

_INT32 = np.iinfo(np.int32)
DEEPEST = 8  # no input has so many axes


def as_array(name: str, value: Any) -> np.ndarray:
    """Strings as an object array of bytes, integers as int32.

    Args:
      name: of the input, for errors.
      value: a batch: str, bytes or integers, nested in lists as deep as the input has axes,
        or an array or tensor of them.

    Raises:
      InputError: it is none of these, ragged, or an integer is beyond int32.
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
        encoded = [_encode(name, item) for item in array.ravel()]
        found = np.empty(len(encoded), object)
        found[:] = encoded
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
    if depth == DEEPEST:
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
        raise InputError(f"{name}: has half of a surrogate pair, which is no text.") from error
