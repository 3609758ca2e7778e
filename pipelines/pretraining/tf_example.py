"""Writes features as TFRecords of tf.train.Example messages.

The bytes are those of tf.io.TFRecordWriter, given tf.train.Example.SerializeToString(
deterministic=True). They are written by compiled loops, because the protocol-buffer library and a
call for each record would take most of the writer's time.
"""

from collections.abc import Mapping

import numpy as np

from pipelines.common.compiled import compiled

_INT64_LIST, _FLOAT_LIST = 0x1A, 0x12
_LENGTH_DELIMITED_1, _LENGTH_DELIMITED_2 = 0x0A, 0x12
_HEADER_BYTES = 32
_LONGEST_VARINT = 5  # bytes of a number of 31 bits
_LENGTH_BYTES, _CHECKSUM_BYTES = 8, 4  # before a record's data, both; after it, another checksum


def encode(features: Mapping[str, np.ndarray]) -> bytes:
    """Writes a block of examples as TFRecords, one after the other.

    Args:
      features: arrays [rows, size] by name; int32 without negative numbers, or float32.
    """
    names = sorted(features)
    arrays = [features[name] for name in names]
    is_float = np.array([array.dtype == np.float32 for array in arrays])
    # All values side by side; a float is represented by the integer with its bits.
    values = np.concatenate([np.ascontiguousarray(array).view(np.int32) for array in arrays], 1)
    keys = [np.frombuffer(name.encode(), np.uint8) for name in names]
    buffer, size = _encode(
        values,
        _bounds([array.shape[1] for array in arrays]),
        is_float,
        np.concatenate(keys),
        _bounds(list(map(len, keys))),
    )
    return buffer[:size].tobytes()


def _bounds(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _checksum_tables() -> np.ndarray:
    """The CRC-32C of each byte when up to seven zeros follow it, uint32 [8, 256]."""
    table: np.ndarray = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = table >> 1 ^ (table & 1) * np.uint32(0x82F63B78)
    tables = [table]
    while len(tables) < 8:
        tables.append(table[tables[-1] & 0xFF] ^ tables[-1] >> 8)
    return np.stack(tables)


_TABLES = _checksum_tables()


@compiled
def _varint_size(value):
    """Returns the bytes of a number of at most 31 bits."""
    return 1 + (value >= 1 << 7) + (value >= 1 << 14) + (value >= 1 << 21) + (value >= 1 << 28)


@compiled
def _put_varint(buffer, at, value):
    place, left = np.uint64(at), np.uint32(value)  # an index without a sign is not checked for one
    while left >= np.uint32(0x80):
        buffer[place] = left & np.uint32(0x7F) | np.uint32(0x80)
        left >>= np.uint32(7)
        place += np.uint64(1)
    buffer[place] = left
    return np.int64(place) + 1


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
def _put_fixed(buffer, at, value, size):
    """Writes the lowest bytes of a number, the lowest first."""
    for index in range(size):
        buffer[at + index] = value >> 8 * index & 0xFF
    return at + size


@compiled
def _put_floats(buffer, at, key, values):
    at = _put_header(buffer, at, key, _FLOAT_LIST, 4 * len(values))
    for value in values:
        at = _put_fixed(buffer, at, value, 4)
    return at


@compiled
def _checksum(data):
    """The masked CRC-32C of TFRecords, eight bytes at a time ("slicing by 8")."""
    crc, at = np.uint32(0xFFFFFFFF), 0
    while at + 8 <= len(data):
        part = data[at : at + 8]
        found = np.uint32(0)
        for index in range(8):
            byte = np.uint32(part[index])
            if index < 4:
                byte ^= crc >> np.uint32(8 * index) & np.uint32(0xFF)
            found ^= _TABLES[7 - index, byte]
        crc = found
        at += 8
    for byte in data[at:]:
        crc = _TABLES[0, (crc ^ byte) & np.uint32(0xFF)] ^ crc >> np.uint32(8)
    crc ^= np.uint32(0xFFFFFFFF)
    return (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(0xA282EAD8)


@compiled
def _encode(values, value_bounds, is_float, keys, key_bounds):
    rows, features = len(values), len(is_float)
    # A number takes at most five bytes; each feature has headers and a key.
    bound = _LONGEST_VARINT * (values.shape[1] + 1) + features * _HEADER_BYTES + len(keys)
    buffer = np.empty(rows * (bound + _LENGTH_BYTES + 2 * _CHECKSUM_BYTES), np.uint8)
    message = np.empty(bound, np.uint8)
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
        begin = total
        start = begin + _LENGTH_BYTES + _CHECKSUM_BYTES
        buffer[start] = _LENGTH_DELIMITED_1
        end = _put_bytes(buffer, _put_varint(buffer, start + 1, at), message[:at])
        begin = _put_fixed(buffer, begin, end - start, _LENGTH_BYTES)
        _put_fixed(buffer, begin, _checksum(buffer[total:begin]), _CHECKSUM_BYTES)
        total = _put_fixed(buffer, end, _checksum(buffer[start:end]), _CHECKSUM_BYTES)
    return buffer, total
