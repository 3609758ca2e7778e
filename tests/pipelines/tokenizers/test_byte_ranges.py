"""Ranges of bytes, beside Python's slices."""

import random

import tensorflow as tf

from pipelines.tokenizers import byte_ranges

TEXTS = ["aé日本 a𝄞b" * 5, "", "plain text, plain text", "é"]


def _ranges():
    """Ranges between characters, several of each text."""
    draw = random.Random(1)
    found = []
    for _ in range(300):
        row = draw.choice([0, 0, 2, 2, 2, 3, 1])
        bounds = sorted(draw.randrange(len(TEXTS[row]) + 1) for _ in range(2))
        start, end = (len(TEXTS[row][:bound].encode()) for bound in bounds)
        found.append((row, start, end))
    return found


def _arguments(ranges):
    columns = zip(*ranges, strict=True) if ranges else ((), (), ())
    return [tf.constant(TEXTS), *(tf.constant(column, tf.int64) for column in columns)]


def _bytes(row, start, end):
    return TEXTS[row].encode()[start:end]


def count_characters(texts, rows, starts, ends):
    first, last = (byte_ranges.to_characters(texts, rows, each) for each in (starts, ends))
    return last - first


def test_cut_gives_slices():
    ranges = _ranges()
    assert byte_ranges.cut(*_arguments(ranges)).numpy().tolist() == [_bytes(*r) for r in ranges]


def test_characters_are_counted():
    ranges = _ranges()
    found = count_characters(*_arguments(ranges)).numpy().tolist()
    assert found == [len(_bytes(*r).decode()) for r in ranges]


def test_fingerprints_tell_ranges_of_a_text_apart():
    ranges = _ranges()
    found = byte_ranges.fingerprints(*_arguments(ranges)).numpy().tolist()
    keys = [(row, _bytes(row, start, end)) for row, start, end in ranges]
    assert len(set(keys)) < len(keys)  # some are equal
    by_key = {}
    for key, number in zip(keys, found, strict=True):
        assert by_key.setdefault(key, number) == number
    assert len(set(by_key.values())) == len(by_key)


def test_there_may_be_no_range_and_no_text():
    for function in (byte_ranges.cut, count_characters, byte_ranges.fingerprints):
        assert function(*_arguments([])).shape == (0,)
        empty = [tf.zeros([0], tf.string), *[tf.zeros([0], tf.int64)] * 3]
        assert function(*empty).shape == (0,)
