"""Serializes features as tf.train.Example messages.

The bytes equal tf.train.Example.SerializeToString(deterministic=True). They are written by compiled
loops, because the protocol-buffer library would take most of the writer's time.
"""

import itertools
from collections.abc import Mapping

import numpy as np

from pipelines.common.compiled import compiled

_INT64_LIST, _FLOAT_LIST = 0x1A, 0x12
_LENGTH_DELIMITED_1, _LENGTH_DELIMITED_2 = 0x0A, 0x12
_HEADER_BYTES = 32
_LONGEST_VARINT = 5  # bytes of a number of 31 bits


def encode(features: Mapping[str, np.ndarray]) -> list[bytes]:
    """Serializes a block of examples, one TFRecord payload each.

    Args:
      features: arrays [rows, size] by name; int32 without negative numbers, or float32.
    """
    names = sorted(features)
    arrays = [features[name] for name in names]
    is_float = np.array([array.dtype == np.float32 for array in arrays])
    # All values side by side; a float is represented by the integer with its bits.
    values = np.concatenate([np.ascontiguousarray(array).view(np.int32) for array in arrays], 1)
    keys = [np.frombuffer(name.encode(), np.uint8) for name in names]
    buffer, ends = _encode(
        values,
        _bounds([array.shape[1] for array in arrays]),
        is_float,
        np.concatenate(keys),
        _bounds(list(map(len, keys))),
    )
    bounds = [0, *ends.tolist()]
    data = buffer[: bounds[-1]].tobytes()
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


def _bounds(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@compiled
def _varint_size(value):
    """Returns the bytes of a number of at most 31 bits."""
    return 1 + (value >= 1 << 7) + (value >= 1 << 14) + (value >= 1 << 21) + (value >= 1 << 28)


@compiled
def _put_varint(buffer, at, value):
    """Writes a number, and overwrites the bytes after it up to the longest.

    Sizes of the ids of a text cannot be predicted, so there are no branches; an index without a
    sign is not checked for one.
    """
    size, place = _varint_size(value), np.uint64(at)
    for index in range(_LONGEST_VARINT):
        is_continued = index + 1 < size
        buffer[place + np.uint64(index)] = value >> 7 * index & 0x7F | is_continued << 7
    return at + size


@compiled
def _put_header(buffer, at, key, kind, payload):
    """Writes the headers of the map entry, key, Feature and list before the packed values."""
    in_list = 1 + _varint_size(payload) + payload
    in_feature = 1 + _varint_size(in_list) + in_list
    in_entry = 2 + len(key) + 1 + _varint_size(in_feature) + in_feature
    buffer[at] = _LENGTH_DELIMITED_1
    at = _put_varint(buffer, at + 1, in_entry)
    buffer[at] = _LENGTH_DELIMITED_1
    buffer[at + 1] = len(key)
    at += 2
    at = _put_bytes(buffer, at, key)
    buffer[at] = _LENGTH_DELIMITED_2
    at = _put_varint(buffer, at + 1, in_feature)
    buffer[at] = kind
    at = _put_varint(buffer, at + 1, in_list)
    buffer[at] = _LENGTH_DELIMITED_1
    return _put_varint(buffer, at + 1, payload)


@compiled
def _put_bytes(buffer, at, values):
    """Writes numbers of one byte each."""
    part = buffer[at : at + len(values)]
    for index in range(len(values)):  # faster than an assignment of the slice
        part[index] = values[index]
    return at + len(values)


@compiled
def _put_ints(buffer, at, key, values):
    payload = 0
    for value in values:
        payload += _varint_size(value)
    at = _put_header(buffer, at, key, _INT64_LIST, payload)
    if payload == len(values):
        return _put_bytes(buffer, at, values)
    for value in values:
        at = _put_varint(buffer, at, value)
    return at


@compiled
def _put_floats(buffer, at, key, values):
    at = _put_header(buffer, at, key, _FLOAT_LIST, 4 * len(values))
    for value in values:
        for shift in range(0, 32, 8):
            buffer[at] = (value >> shift) & 0xFF
            at += 1
    return at


@compiled
def _encode(values, value_bounds, is_float, keys, key_bounds):
    rows, features = len(values), len(is_float)
    # A number takes at most five bytes; each feature has headers and a key.
    bound = _LONGEST_VARINT * (values.shape[1] + 1) + features * _HEADER_BYTES + len(keys)
    buffer = np.empty(rows * bound, np.uint8)
    message = np.empty(bound, np.uint8)
    ends = np.empty(rows, np.int64)
    total = 0
    for row in range(rows):
        at = 0
        for feature in range(features):
            key = keys[key_bounds[feature] : key_bounds[feature + 1]]
            part = values[row, value_bounds[feature] : value_bounds[feature + 1]]
            if is_float[feature]:
                at = _put_floats(message, at, key, part)
            else:
                at = _put_ints(message, at, key, part)
        buffer[total] = _LENGTH_DELIMITED_1
        total = _put_varint(buffer, total + 1, at)
        total = _put_bytes(buffer, total, message[:at])
        ends[row] = total
    return buffer, ends
