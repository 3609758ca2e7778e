"""Orders of rows: each row once an epoch, with others of about its length."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipelines.labelled import bucketing
from tests import strategies

_LENGTHS = st.lists(st.integers(1, 600), min_size=1, max_size=300).map(np.array)
_SIZES = st.integers(1, 40)


@given(_LENGTHS, _SIZES, strategies.seeds(), st.integers(0, 30))
def test_each_row_comes_once_an_epoch_wherever_one_starts(lengths, size, seed, start):
    steps = bucketing.steps_per_epoch(len(lengths), size)
    whole = bucketing.training_order(lengths, size, seed)
    batches = [rows.tolist() for rows in itertools.islice(whole, start + 2 * steps)]
    later = bucketing.training_order(lengths, size, seed, start)
    assert [rows.tolist() for rows in itertools.islice(later, 2 * steps)] == batches[start:]
    for epoch in range(0, len(batches) - steps + 1, steps):
        found = batches[epoch : epoch + steps]
        assert sorted(itertools.chain(*found)) == list(range(len(lengths)))
        assert sorted(map(len, found))[1:] == [size] * (steps - 1)
        if len(lengths) <= 32 * size:  # one pool: batches do not overlap in length
            spans = sorted((lengths[rows].min(), lengths[rows].max()) for rows in found)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


@given(_LENGTHS, _SIZES)
def test_evaluation_goes_by_length(lengths, size):
    batches = [rows.tolist() for rows in bucketing.evaluation_order(lengths, size)]
    rows = list(itertools.chain(*batches))
    assert sorted(rows) == list(range(len(lengths)))
    assert lengths[rows].tolist() == sorted(lengths.tolist())
    assert list(map(len, batches[:-1])) == [size] * (len(batches) - 1)
    assert 1 <= len(batches[-1]) <= size


@given(_LENGTHS, st.integers(1, 5000))
def test_batches_keep_to_their_tokens(lengths, tokens):
    batches = [rows.tolist() for rows in bucketing.batches_by_tokens(lengths, tokens)]
    assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
    longest = [int(lengths[rows].max()) for rows in batches]
    assert longest == sorted(longest, reverse=True)
    for rows, following in itertools.zip_longest(batches, batches[1:]):
        padded = len(rows) * int(lengths[rows].max())
        assert padded <= tokens or len(rows) == 1
        assert following is None or (len(rows) + 1) * lengths[rows].max() > tokens


@given(st.integers(0, 600), st.integers(1, 600))
def test_padded_lengths(longest, limit):
    found = bucketing.padded_length(longest, limit)
    assert found == limit or (found % 16 == 0 and longest <= found < longest + 16)
    assert found <= limit and found >= min(longest, limit)
