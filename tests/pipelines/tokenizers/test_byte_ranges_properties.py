"""Ranges of bytes against slices of Python."""

import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from pipelines.tokenizers import byte_ranges
from tests import strategies


def _count_characters(texts, rows, starts, ends):
    first, last = (byte_ranges.to_characters(texts, rows, each) for each in (starts, ends))
    return last - first


@st.composite
def _ranges(draw, texts):
    """Texts, and ranges between characters of them."""
    found = draw(strategies.batches(texts))
    rows, starts, ends = [], [], []
    for row in draw(st.lists(st.integers(0, len(found) - 1), min_size=1, max_size=30)):
        bounds = [0]
        for character in found[row]:
            bounds.append(bounds[-1] + len(character.encode()))
        first = draw(st.integers(0, len(bounds) - 1))
        rows.append(row)
        starts.append(bounds[first])
        ends.append(bounds[draw(st.integers(first, len(bounds) - 1))])
    return found, rows, starts, ends


def _computed(function, case):
    texts, *numbers = case
    return function(tf.constant(texts), *(tf.constant(n, tf.int64) for n in numbers)).numpy()


@given(_ranges(strategies.texts()))
def test_ranges_are_cut_and_counted(case):
    expected = [case[0][r].encode()[a:b].decode() for r, a, b in zip(*case[1:], strict=True)]
    assert [text.decode() for text in _computed(byte_ranges.cut, case)] == expected
    found = _computed(_count_characters, case)
    assert found.tolist() == list(map(len, expected))


@given(_ranges(st.text(st.sampled_from("ab\0é"), min_size=1, max_size=12)))
def test_ranges_have_the_same_number_where_they_have_the_same_bytes(case):
    """Of one text; of few letters, so that many are the same."""
    cut = [case[0][r].encode()[a:b] for r, a, b in zip(*case[1:], strict=True)]
    keys = list(zip(case[1], cut, strict=True))
    numbers = _computed(byte_ranges.fingerprints, case).tolist()
    assert len(set(keys)) == len(set(numbers)) == len(set(zip(keys, numbers, strict=True)))


def test_there_may_be_no_range_and_no_text():
    no_range = [tf.zeros([0], tf.int64)] * 3
    for function in (byte_ranges.cut, _count_characters, byte_ranges.fingerprints):
        for texts in (["plain text", ""], []):
            assert function(tf.constant(texts, tf.string), *no_range).shape == (0,)
