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


def test_batches_hold_rows_of_similar_length_in_random_order():
    lengths = np.random.default_rng(0).integers(5, 100, 4000)
    order = bucketing.training_order(lengths, 32, seed=3)
    epoch, following = (list(itertools.islice(order, 125)) for _ in range(2))
    assert not np.array_equal(epoch[0], following[0])
    spread = np.mean([np.ptp(lengths[batch]) for batch in epoch])
    assert spread < 15  # of 95; unsorted batches have about 90
    longest = np.array([lengths[batch].max() for batch in epoch], float)
    neighbours = np.corrcoef(longest[:-1], longest[1:])[0, 1]
    assert abs(neighbours) < 0.3


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
    in_order = lengths[list(itertools.chain(*batches))].tolist()
    assert in_order == sorted(in_order, reverse=True)
    for rows, following in itertools.zip_longest(batches, batches[1:]):
        padded = len(rows) * int(lengths[rows].max())
        assert padded <= tokens or len(rows) == 1
        assert following is None or (len(rows) + 1) * lengths[rows].max() > tokens


@given(st.integers(0, 600), st.integers(1, 600))
def test_padded_lengths(longest, limit):
    found = bucketing.padded_length(longest, limit)
    assert min(longest, limit) <= found <= limit
    assert found < longest + 16
    assert found % 16 == 0 or found == limit
