"""The masked-LM procedure: statistics and bounds."""

import numpy as np
import pytest

from pipelines.pretraining import masking, segments

SPECIAL = masking.SpecialIds(cls=2, sep=3, mask=4, vocab_size=1000)
LENGTH, PREDICTIONS = 128, 20


def sequences(count=4000, seed=0, low=3, high=126):
    rng = np.random.default_rng(seed)
    total = rng.integers(low, high, count)
    a = np.array([rng.integers(1, n) for n in total])
    plan = np.stack([np.zeros_like(a), a, a, total - a, rng.integers(0, 2, count)], 1)
    ids = np.random.default_rng(1).integers(5, 1000, 128).astype(np.int32)
    return ids, plan, masking.fill(ids, plan, LENGTH, SPECIAL)


def mask(data, whole_word=False, seed=0, is_suffix=None, prob=0.15, most=PREDICTIONS):
    if is_suffix is None:
        is_suffix = np.zeros(1000, bool)
    copy = masking.Sequences(data.word_ids.copy(), *data[1:])
    rng = np.random.Generator(np.random.Philox(seed))
    return copy, masking.mask(copy, SPECIAL, is_suffix, prob, most, whole_word, rng)


def test_sequences_are_laid_out_as_cls_a_sep_b_sep():
    ids, plan, data = sequences(50)
    for row, (a, a_length, b, b_length, is_random) in enumerate(plan):
        expected = [2, *ids[a : a + a_length], 3, *ids[b : b + b_length], 3]
        assert data.word_ids[row, : len(expected)].tolist() == expected
        assert not data.word_ids[row, len(expected) :].any()
        assert data.lengths[row] == len(expected)
        assert data.a_lengths[row] == a_length + 2
        assert data.is_random[row] == is_random


def test_without_b_there_is_one_segment():
    plan = np.array([[0, 5, 0, 0, 0]])
    data = masking.fill(np.arange(10, 20, dtype=np.int32), plan, 16, SPECIAL)
    assert data.word_ids[0, :8].tolist() == [2, 10, 11, 12, 13, 14, 3, 0]
    assert data.lengths[0] == data.a_lengths[0] == 7


@pytest.mark.parametrize("whole_word", [False, True])
def test_the_number_of_predictions_is_that_of_the_formula(whole_word):
    _, _, data = sequences()
    _, found = mask(data, whole_word)
    expected = np.clip(np.rint(data.lengths * 0.15), 1, PREDICTIONS).astype(int)
    assert (found.counts == expected).all()  # without suffixes every word is one token


def test_eighty_ten_ten():
    _, _, data = sequences(8000)
    masked, found = mask(data)
    total = found.counts.sum()
    shares = found.outcomes / total
    assert found.outcomes.sum() == total
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.005)
    seen = np.take_along_axis(masked.word_ids, found.positions, 1)
    valid = np.arange(PREDICTIONS) < found.counts[:, np.newaxis]
    assert (seen[valid] == SPECIAL.mask).mean() == pytest.approx(0.8, abs=0.005)
    assert (seen[valid] == found.ids[valid]).mean() == pytest.approx(0.1, abs=0.006)


def test_random_tokens_are_uniform_over_the_vocabulary():
    _, _, data = sequences(8000)
    masked, found = mask(data)
    seen = np.take_along_axis(masked.word_ids, found.positions, 1)
    valid = np.arange(PREDICTIONS) < found.counts[:, np.newaxis]
    replaced = seen[valid & (seen != SPECIAL.mask) & (seen != found.ids)]
    counts = np.histogram(replaced, bins=10, range=(0, 1000))[0]
    assert counts.std() / counts.mean() < 0.08


def test_positions_ascend_are_no_special_tokens_and_keep_the_original():
    _, _, data = sequences(500)
    masked, found = mask(data)
    for row in range(500):
        n = found.counts[row]
        positions = found.positions[row, :n]
        assert (np.diff(positions) > 0).all()
        assert not np.isin(data.word_ids[row, positions], [2, 3]).any()
        assert (positions < data.lengths[row]).all()
        assert (found.ids[row, :n] == data.word_ids[row, positions]).all()
        assert not found.positions[row, n:].any()
        untouched = np.setdiff1d(np.arange(LENGTH), positions)
        assert (masked.word_ids[row, untouched] == data.word_ids[row, untouched]).all()


def test_every_position_is_chosen_equally_often():
    plan = np.tile([0, 60, 60, 60, 0], (6000, 1))
    ids = np.arange(5, 130, dtype=np.int32)
    _, found = mask(masking.fill(ids, plan, LENGTH, SPECIAL))
    counts = np.bincount(found.positions[:, : found.counts[0]].ravel(), minlength=123)
    inside = np.delete(counts[1:122], 60)
    assert inside.min() > 0.85 * inside.mean()
    assert inside.max() < 1.15 * inside.mean()


def test_whole_words_are_masked_whole_and_never_overflow():
    _, _, data = sequences(2000)
    is_suffix = np.zeros(1000, bool)
    is_suffix[600:] = True
    _, found = mask(data, whole_word=True, is_suffix=is_suffix)
    limit = np.clip(np.rint(data.lengths * 0.15), 1, PREDICTIONS)
    assert (found.counts <= limit).all()
    for row in range(2000):
        chosen = np.zeros(LENGTH, bool)
        chosen[found.positions[row, : found.counts[row]]] = True
        for position in range(1, data.lengths[row] - 1):
            starts_segment = position in (1, data.a_lengths[row])
            continues = is_suffix[data.word_ids[row, position]] and not starts_segment
            if continues and position != data.a_lengths[row] - 1:
                assert chosen[position] == chosen[position - 1]


def test_other_seeds_give_other_masks():
    _, _, data = sequences(200)
    first, again, other = (mask(data, seed=seed)[0].word_ids for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_sequences_are_longer_than_pairs_by_the_special_tokens():
    assert segments.IS_RANDOM == 4
    _, plan, data = sequences(20)
    assert (data.lengths == plan[:, segments.A_LENGTH] + plan[:, segments.B_LENGTH] + 3).all()
