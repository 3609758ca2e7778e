"""The messages of TensorFlow Serving's gRPC interface: to bounded objects, and to arrays.

All functions raise RefusalError if a message is invalid or too large.
"""

import functools
import math
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError, Message

from bert_tf.serving.inputs import MAX_DEPTH
from bert_tf.serving.server.faults import Fault, RefusalError

_M = TypeVar("_M", bound=Message)
# Of a message, each a field outside of packed lists of numbers: an empty example of 2 bytes takes
# 30 times as much memory.
_MAX_VALUES = 1 << 17
_MIN_BYTES = 2  # of a value: its tag and its length
_MAX_VARINT = 63  # bits before the last byte of a number


def decoded(encoded: bytes, kind: type[_M]) -> _M:
    """A message of this type."""
    try:
        if len(encoded) > _MIN_BYTES * _MAX_VALUES:
            _check_values(encoded, kind.DESCRIPTOR)
        return kind.FromString(encoded)
    except (DecodeError, IndexError) as error:
        raise RefusalError(
            Fault.INVALID, f"The request is not a {kind.DESCRIPTOR.name}."
        ) from error


def _check_values(encoded: bytes, kind: Any) -> None:
    """Counts values without parsing: the parser blocks all threads until it has made them all.

    Args:
      encoded: the message.
      kind: the descriptor of its type.

    Raises:
      DecodeError, IndexError: the message is invalid.
    """
    count, parts = 0, [(0, len(encoded), kind)]  # what is left of each message around
    while parts:
        at, end, kind = parts.pop()
        messages = _message_fields(kind)
        while at < end:
            count += 1
            if count > _MAX_VALUES:
                raise RefusalError(
                    Fault.TOO_LARGE,
                    f"The request has more than {_MAX_VALUES:,} values (examples, features, texts, "
                    "and numbers outside of packed lists): send less at once.",
                )
            tag, at = _varint(encoded, at)
            field, wire_type = tag >> 3, tag & 7
            if wire_type == 0 and field:
                _, at = _varint(encoded, at)
            elif wire_type == 1:
                at += 8
            elif wire_type == 5:
                at += 4
            elif wire_type == 2:
                size, at = _varint(encoded, at)
                if size and (inner := messages.get(field)):
                    parts.append((at + size, end, kind))
                    end, kind, messages = at + size, inner, _message_fields(inner)
                else:
                    at += size
            else:  # of no field, or of a group, which no message of TensorFlow Serving has
                raise DecodeError(f"field {field} of wire type {wire_type}")
        if at > end:
            raise DecodeError("a value is longer than its message")


@functools.cache
def _message_fields(kind: Any) -> dict[int, Any]:
    """The types of all fields that are messages, by number."""
    return {field.number: field.message_type for field in kind.fields if field.message_type}


def _varint(encoded: bytes, at: int) -> tuple[int, int]:
    """A number of variable length at a position, and the position behind it."""
    value = shift = 0
    while (byte := encoded[at]) > 127:
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if shift > _MAX_VARINT:
            raise DecodeError("a number has more than 10 bytes")
    return value | byte << shift, at + 1


def array_of(name: str, value: Any, max_bytes: int) -> np.ndarray:
    """The array of a TensorProto; its last value may stand for all that follow."""
    axes = value.tensor_shape.dim
    if len(axes) > MAX_DEPTH:  # whose product would be a number of millions of digits
        raise RefusalError(
            Fault.INVALID, f"{name}: has {len(axes):,} axes; at most {MAX_DEPTH} are allowed."
        )
    try:
        count = math.prod(axis.size for axis in axes)
        if count * np.dtype(tf.as_dtype(value.dtype).as_numpy_dtype).itemsize > max_bytes:
            raise RefusalError(
                Fault.TOO_LARGE, f"{name}: is too large; a tensor may have {max_bytes:,} bytes."
            )
        return tf.make_ndarray(value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RefusalError(
            Fault.INVALID, f"{name}: is not a numeric or string tensor: {error}"
        ) from error
