"""The masked-LM procedure: layouts and statistics; bounds are in test_masking_properties."""

import numpy as np
import pytest

from pipelines.pretraining import masking
from pipelines.pretraining.makers import SentenceSpans, segments
from pipelines.pretraining.makers.base import TokenizedDocuments
from pipelines.pretraining.settings import ExampleSettings, Objective
from pipelines.tokenizers import registry
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary

SPECIAL = masking.SpecialIds(start=2, separator=3, mask=4, pad=0, separators=1, vocab_size=1000)
LENGTH, PREDICTIONS = 128, 20


def sequences(count=4000, seed=0, low=3, high=126):
    rng = np.random.default_rng(seed)
    total = rng.integers(low, high, count)
    a = np.array([rng.integers(1, n) for n in total])
    plan = np.stack([np.zeros_like(a), a, a, total - a, rng.integers(0, 2, count)], 1)
    ids = np.random.default_rng(1).integers(5, 1000, 128).astype(np.int32)
    return ids, plan, segments.fill(ids, plan, LENGTH, SPECIAL)


def mask(data, seed=0, begins_word=None, **settings):
    if begins_word is None:
        begins_word = np.ones(1000, bool)
    copy = masking.SequenceBlock(data.word_ids.copy(), *data[1:])
    rng = np.random.Generator(np.random.Philox(seed))
    settings = ExampleSettings(
        max_seq_length=LENGTH, max_predictions_per_seq=PREDICTIONS, **settings
    )
    return copy, masking.mask(copy, SPECIAL, begins_word, settings, rng)


@pytest.mark.parametrize("shares", [(0.8, 0.1), (1.0, 0.0), (0.0, 1.0), (0.3, 0.2)])
def test_masks_random_and_kept_tokens_have_their_shares(shares):
    _, _, data = sequences(8000)
    masked, found = mask(data, mask_fraction=shares[0], random_fraction=shares[1])
    total = found.counts.sum()
    kept = 1 - sum(shares)
    assert found.outcomes.sum() == total
    assert found.outcomes / total == pytest.approx([*shares, kept], abs=0.006)
    seen = np.take_along_axis(masked.word_ids, found.positions, 1)
    valid = np.arange(PREDICTIONS) < found.counts[:, np.newaxis]
    assert (seen[valid] == SPECIAL.mask).mean() == pytest.approx(shares[0], abs=0.006)
    assert (seen[valid] == found.ids[valid]).mean() == pytest.approx(kept, abs=0.007)


def test_tokens_between_segments_and_inner_separators_are_never_chosen():
    """Two separators between segments, and separators between documents."""
    special = SPECIAL._replace(separators=2, pad=1)
    ids = np.arange(5, 133, dtype=np.int32)
    plan = np.tile([0, 30, 30, 30, 0], (2000, 1))
    data = segments.fill(ids, plan, LENGTH, special)
    assert data.word_ids[0, 29:36].tolist() == [33, 34, 3, 3, 35, 36, 37]
    assert data.word_ids[0, 63:65].tolist() == [3, 1] and data.a_lengths[0] == 33
    for whole_word in (False, True):
        _, found = mask(data, whole_word_mask=whole_word, begins_word=np.zeros(1000, bool))
        assert not np.isin(found.ids[:, : found.counts.max()], [2, 3, 1]).any()


def test_random_tokens_are_uniform_over_the_vocabulary():
    _, _, data = sequences(8000)
    masked, found = mask(data)
    seen = np.take_along_axis(masked.word_ids, found.positions, 1)
    valid = np.arange(PREDICTIONS) < found.counts[:, np.newaxis]
    replaced = seen[valid & (seen != SPECIAL.mask) & (seen != found.ids)]
    counts = np.histogram(replaced, bins=10, range=(0, 1000))[0]
    assert counts.std() / counts.mean() < 0.08


def test_every_position_is_chosen_equally_often():
    plan = np.tile([0, 60, 60, 60, 0], (6000, 1))
    ids = np.arange(5, 130, dtype=np.int32)
    _, found = mask(segments.fill(ids, plan, LENGTH, SPECIAL))
    counts = np.bincount(found.positions[:, : found.counts[0]].ravel(), minlength=123)
    inside = np.delete(counts[1:122], 60)
    assert inside.min() > 0.85 * inside.mean()
    assert inside.max() < 1.15 * inside.mean()


def runs(chosen):
    """Lengths of runs of neighbouring positions."""
    breaks = np.flatnonzero(np.diff(chosen) != 1)
    return np.diff([0, *(breaks + 1), len(chosen)])


def test_ngrams_have_the_frequencies_of_albert():
    _, _, data = sequences(3000, low=120, high=126)
    _, found = mask(data, max_ngram=3, masked_lm_prob=0.02)  # few, so that runs rarely touch
    expected = np.clip(np.rint(data.lengths * 0.02), 1, PREDICTIONS).astype(int)
    assert (found.counts <= expected).all()
    _, many = mask(data, max_ngram=3)
    lengths = np.concatenate(
        [runs(p[:n]) for p, n in zip(many.positions, many.counts, strict=True)]
    )
    shares = np.bincount(lengths, minlength=4)[1:4] / len(lengths)
    # 6/11, 3/11 and 2/11, apart from runs that touch and those shortened at the end.
    np.testing.assert_allclose(shares, [6 / 11, 3 / 11, 2 / 11], atol=0.08)
    assert shares[0] > shares[1] > shares[2] > 0.08


def test_ngrams_are_of_whole_words():
    begins_word = np.random.default_rng(3).random(1000) < 0.6
    _, _, data = sequences(2000)
    copy, found = mask(data, begins_word=begins_word, whole_word_mask=True, max_ngram=3)
    for row in range(len(data.lengths)):
        chosen = set(found.positions[row, : found.counts[row]].tolist())
        for position in chosen:
            after = position + 1
            ids, last = data.word_ids[row], data.lengths[row] - 1
            if after < last and ids[after] != 3 and not begins_word[ids[after]]:
                assert after in chosen
    assert found.counts.mean() > 0.85 * np.clip(np.rint(data.lengths * 0.15), 1, PREDICTIONS).mean()
    assert (copy.lengths == data.lengths).all()


def test_a_sentence_begins_a_word_whatever_its_first_piece():
    """The first piece of byte-level BPE has no Ġ, as the sentence before is another text."""
    ids = np.arange(5, 69, dtype=np.int32)  # 16 sentences of 4 tokens
    documents = TokenizedDocuments(
        ids, np.arange(0, 65, 4), np.array([0, 16]), np.zeros(1, np.uint64)
    )
    settings = ExampleSettings(
        objective="mlm",  # a string is as good as the member
        max_seq_length=LENGTH,
        max_predictions_per_seq=8,
        short_seq_prob=0.0,
        whole_word_mask=True,
    )
    assert settings.writes_masks and settings.objective is Objective.MLM
    words = (f"a{number}" for number in range(100))
    maker = SentenceSpans(settings, registry.make(WordPieceVocabulary((*SPECIAL_TOKENS, *words))))
    maker._begins_word = np.zeros(105, bool)
    rng = np.random.default_rng(0)
    found, _ = maker.features(documents, maker.plan(documents, rng), rng)
    chosen = found["masked_lm_positions"][found["masked_lm_weights"] > 0] - 1
    assert len(chosen) == 8
    assert chosen.reshape(2, 4).tolist() == [[first + n for n in range(4)] for first in chosen[::4]]
    assert not (chosen[::4] % 4).any()
