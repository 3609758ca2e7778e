"""Buckets and the cache of features."""

import itertools

import numpy as np
import pytest

from pipelines.labelled import bucketing


def test_each_epoch_has_every_row_once_in_another_order():
    lengths = np.random.default_rng(0).integers(5, 100, 1000)
    order = bucketing.training_order(lengths, 32, seed=3)
    steps = bucketing.steps_per_epoch(1000, 32)
    epochs = [list(itertools.islice(order, steps)) for _ in range(2)]
    for epoch in epochs:
        assert sorted(np.concatenate(epoch)) == list(range(1000))
    assert not np.array_equal(epochs[0][0], epochs[1][0])


def test_batches_hold_rows_of_like_length_in_no_order_of_length():
    lengths = np.random.default_rng(0).integers(5, 100, 4000)
    rows = list(itertools.islice(bucketing.training_order(lengths, 32, seed=3), 125))
    spread = np.mean([np.ptp(lengths[batch]) for batch in rows])
    assert spread < 15  # of 95; unsorted batches have about 90
    longest = np.array([lengths[batch].max() for batch in rows], float)
    neighbours = np.corrcoef(longest[:-1], longest[1:])[0, 1]
    assert abs(neighbours) < 0.3


def test_a_batch_is_the_same_wherever_one_starts():
    lengths = np.random.default_rng(0).integers(5, 100, 100)
    whole = list(itertools.islice(bucketing.training_order(lengths, 8, 1), 40))
    for start in (1, 12, 13, 30):
        again = itertools.islice(bucketing.training_order(lengths, 8, 1, start), 40 - start)
        for a, b in zip(whole[start:], again, strict=True):
            np.testing.assert_array_equal(a, b)


def test_evaluation_goes_through_all_rows_once():
    lengths = np.array([5, 3, 9, 1, 7])
    rows = list(bucketing.evaluation_order(lengths, 2))
    assert [batch.tolist() for batch in rows] == [[3, 1], [0, 4], [2]]


def test_lengths_are_padded_to_a_step_but_not_past_the_limit():
    assert [bucketing.padded_length(n, 100) for n in (1, 16, 17, 99, 100)] == [16, 16, 32, 100, 100]


@pytest.mark.parametrize("tokens", [1, 50, 400, 10**6])
def test_batches_by_tokens_hold_all_rows_and_no_more_tokens_than_asked(tokens):
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    batches = list(bucketing.batches_by_tokens(lengths, tokens))
    assert sorted(np.concatenate(batches)) == list(range(1000))
    longest = [int(lengths[rows].max()) for rows in batches]
    assert longest == sorted(longest, reverse=True)
    for rows, length in zip(batches, longest, strict=True):
        assert len(rows) == 1 or len(rows) * length <= tokens
    if tokens == 400:  # next to no padding
        padded = sum(len(rows) * length for rows, length in zip(batches, longest, strict=True))
        assert padded < 1.05 * lengths.sum()
