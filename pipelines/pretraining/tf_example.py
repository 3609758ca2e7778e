"""Sequences as serialized tf.train.Example messages.

The bytes are those of tf.train.Example.SerializeToString(deterministic=True)
with the reference feature names and types. They are written by compiled loops
because the protocol-buffer library, at tens of microseconds a message, would
take most of the writer's time.
"""

import itertools

import numba
import numpy as np

from pipelines.pretraining import masking

_INT64_LIST, _FLOAT_LIST = 0x1A, 0x12
_LENGTH_DELIMITED_1, _LENGTH_DELIMITED_2 = 0x0A, 0x12
_HEADER_BYTES = 32


def _key(name: str) -> np.ndarray:
    return np.frombuffer(name.encode(), np.uint8)


_INPUT_IDS = _key("input_ids")
_INPUT_MASK = _key("input_mask")
_MASKED_LM_IDS = _key("masked_lm_ids")
_MASKED_LM_POSITIONS = _key("masked_lm_positions")
_MASKED_LM_WEIGHTS = _key("masked_lm_weights")
_NEXT_SENTENCE_LABELS = _key("next_sentence_labels")
_SEGMENT_IDS = _key("segment_ids")


def encode(
    sequences: masking.Sequences,
    predictions: masking.Predictions | None,
    next_sentence: bool,
) -> list[bytes]:
    """Serializes a block of sequences, one message each.

    Args:
      sequences: inputs, masked or not.
      predictions: adds the masked_lm_* features; None leaves them out.
      next_sentence: whether to add next_sentence_labels.
    """
    if predictions is None:
        empty = np.zeros((len(sequences.lengths), 0), np.int32)
        predictions = masking.Predictions(empty, empty, np.zeros(len(empty), np.int32), empty)
        has_predictions = False
    else:
        has_predictions = True
    buffer, ends = _encode(*sequences, *predictions[:3], has_predictions, next_sentence)
    bounds = [0, *ends.tolist()]
    data = buffer[: bounds[-1]].tobytes()
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


@numba.njit(cache=True)
def _varint_size(value):
    size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@numba.njit(cache=True)
def _put_varint(buffer, at, value):
    while value >= 0x80:
        buffer[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    buffer[at] = value
    return at + 1


@numba.njit(cache=True)
def _put_header(buffer, at, key, kind, payload):
    """The map entry, key, Feature and list headers before `payload` bytes of packed values."""
    in_list = 1 + _varint_size(payload) + payload
    in_feature = 1 + _varint_size(in_list) + in_list
    in_entry = 2 + len(key) + 1 + _varint_size(in_feature) + in_feature
    buffer[at] = _LENGTH_DELIMITED_1
    at = _put_varint(buffer, at + 1, in_entry)
    buffer[at] = _LENGTH_DELIMITED_1
    buffer[at + 1] = len(key)
    at += 2
    buffer[at : at + len(key)] = key
    at += len(key)
    buffer[at] = _LENGTH_DELIMITED_2
    at = _put_varint(buffer, at + 1, in_feature)
    buffer[at] = kind
    at = _put_varint(buffer, at + 1, in_list)
    buffer[at] = _LENGTH_DELIMITED_1
    return _put_varint(buffer, at + 1, payload)


@numba.njit(cache=True)
def _put_ints(buffer, at, key, values):
    payload = 0
    for value in values:
        payload += _varint_size(value)
    at = _put_header(buffer, at, key, _INT64_LIST, payload)
    for value in values:
        at = _put_varint(buffer, at, value)
    return at


@numba.njit(cache=True)
def _put_step(buffer, at, key, size, low, high):
    """`size` values of one byte: 1 from `low` to `high`, else 0."""
    at = _put_header(buffer, at, key, _INT64_LIST, size)
    buffer[at : at + size] = 0
    buffer[at + low : at + high] = 1
    return at + size


@numba.njit(cache=True)
def _put_weights(buffer, at, key, size, count):
    """`size` float32 values: `count` times 1.0, then 0.0."""
    at = _put_header(buffer, at, key, _FLOAT_LIST, 4 * size)
    buffer[at : at + 4 * size] = 0
    for index in range(count):
        buffer[at + 4 * index + 2] = 0x80
        buffer[at + 4 * index + 3] = 0x3F
    return at + 4 * size


@numba.njit(cache=True)
def _encode(
    word_ids,
    lengths,
    a_lengths,
    is_random,
    positions,
    labels,
    counts,
    has_predictions,
    next_sentence,
):
    rows, size = word_ids.shape
    slots = positions.shape[1]
    # An id takes five bytes at the most; seven features have their headers and keys.
    bound = 5 * size + 2 * size + 14 * slots + 7 * (_HEADER_BYTES + 24)
    buffer = np.empty(rows * bound, np.uint8)
    message = np.empty(bound, np.uint8)
    ends = np.empty(rows, np.int64)
    total = 0
    for row in range(rows):
        at = _put_ints(message, 0, _INPUT_IDS, word_ids[row])
        at = _put_step(message, at, _INPUT_MASK, size, 0, lengths[row])
        if has_predictions:
            at = _put_ints(message, at, _MASKED_LM_IDS, labels[row])
            at = _put_ints(message, at, _MASKED_LM_POSITIONS, positions[row])
            at = _put_weights(message, at, _MASKED_LM_WEIGHTS, slots, counts[row])
        if next_sentence:
            at = _put_ints(message, at, _NEXT_SENTENCE_LABELS, is_random[row : row + 1])
        at = _put_step(message, at, _SEGMENT_IDS, size, a_lengths[row], lengths[row])
        buffer[total] = _LENGTH_DELIMITED_1
        total = _put_varint(buffer, total + 1, at)
        buffer[total : total + at] = message[:at]
        total += at
        ends[row] = total
    return buffer, ends
