"""The noises of BART: sizes of the published procedure, and what stays."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from pipelines.common.errors import InputError
from pipelines.pretraining import noise
from pipelines.pretraining.masking import SequenceBlock, SpecialIds
from pipelines.pretraining.settings import ExampleSettings, Objective, SequenceKind

START, PAD, END, MASK, TOKENS = 0, 1, 2, 999, 1000
SPECIAL = SpecialIds(START, END, MASK, PAD, 2, TOKENS)
BEGINS_WORD = np.arange(TOKENS) % 2 == 0
LENGTH = 130


def _block(rows=2000, seed=0):
    """Sequences of different tokens, each in its own order, with sentences of about 16 tokens."""
    rng = np.random.default_rng(seed)
    ids = np.full((rows, LENGTH), PAD, np.int32)
    lengths = rng.integers(3, LENGTH + 1, rows).astype(np.int32)
    starts = rng.random((rows, LENGTH)) < 1 / 16
    for row, length in zip(ids, lengths, strict=True):
        row[1 : length - 1] = 3 + rng.permutation(990)[: length - 2]
        row[0], row[length - 1] = START, END
    return SequenceBlock(ids, lengths, lengths), starts


def _noised(kinds, seed=1, **options):
    block, starts = _block()
    settings = ExampleSettings(
        objective=Objective.DENOISING, noise=kinds, **{"random_fraction": 0.0, **options}
    )
    settings.check()
    before = block.word_ids.copy()
    rng = np.random.default_rng(seed)
    found = noise.noise(block, starts, SPECIAL, BEGINS_WORD, settings, rng)
    np.testing.assert_array_equal(block.word_ids, before)
    for row, length in zip(found.word_ids, found.lengths, strict=True):
        assert row[0] == START and row[length - 1] == END and (row[length:] == PAD).all()
        if not settings.random_fraction:
            assert not np.isin(row[1 : length - 1], (START, END, PAD)).any()
    return block, starts, found


def _texts(word_ids, lengths):
    return [row[1 : length - 1].tolist() for row, length in zip(word_ids, lengths, strict=True)]


def _words(tokens, starts):
    """The words of a text, each a list of tokens."""
    words = []
    for index, token in enumerate(tokens):
        if not words or BEGINS_WORD[token] or starts[index]:
            words.append([])
        words[-1].append(token)
    return words


def test_sentences_are_permuted_as_wholes():
    block, starts, found = _noised("permutation")
    moved = 0
    pairs = zip(*(_texts(x.word_ids, x.lengths) for x in (block, found)), starts, strict=True)
    for text, other, begins in pairs:
        bounds = [0, *(i for i in range(1, len(text)) if begins[1 + i]), len(text)]
        sentences = {tuple(text[a:b]) for a, b in itertools.pairwise(bounds)}
        place = {token: index for index, token in enumerate(other)}
        for sentence in sentences - {()}:
            at = place[sentence[0]]
            assert tuple(other[at : at + len(sentence)]) == sentence
        assert sorted(text) == sorted(other)
        moved += text != other
    assert moved > 0.9 * len(starts) * np.mean(block.lengths > 40)


def test_infilling_hides_spans_of_words_with_the_published_sizes():
    """Next to the published procedure, written with NumPy's own distributions."""
    block, starts, found = _noised("infilling")
    rng = np.random.default_rng(7)
    words, hidden, spans = found.counts
    expected_words = expected_hidden = expected_spans = 0
    kept, expected_kept, masks = [], [], 0
    pairs = zip(*(_texts(x.word_ids, x.lengths) for x in (block, found)), starts, strict=True)
    for text, other, begins in pairs:
        of_text = _words(text, begins[1:])
        wanted = math.ceil(0.3 * len(of_text))
        lengths = []
        while sum(lengths) < wanted:
            lengths.append(min(int(rng.poisson(3.0)), wanted - sum(lengths)))
        expected_words += len(of_text)
        expected_hidden += wanted
        expected_spans += len(lengths)
        visible = np.ones(len(of_text), bool)
        real = [length for length in lengths if length]
        for start, length in zip(rng.permutation(len(of_text))[: len(real)], real, strict=True):
            visible[start : start + length] = False
        expected_kept.append(sum(len(w) for w, seen in zip(of_text, visible, strict=True) if seen))
        rest = [token for token in other if token != MASK]
        kept.append(len(rest))
        masks += len(other) - len(rest)
        # Whole words are left, in their order.
        place = {token: index for index, token in enumerate(text)}
        assert [place[token] for token in rest] == sorted(place[token] for token in rest)
        left = set(rest)
        assert all(left >= set(word) or not left & set(word) for word in of_text)
    assert (words, hidden) == (expected_words, expected_hidden)
    assert spans == pytest.approx(expected_spans, rel=0.02)
    assert np.mean(kept) == pytest.approx(np.mean(expected_kept), rel=0.02)
    assert masks <= spans and masks > 0.8 * spans  # a span may cover the beginning of another


def test_a_share_of_the_masks_is_random():
    *_, found = _noised("infilling", random_fraction=0.25)
    original, _ = _block()
    masks = (found.word_ids == MASK).sum()
    assert masks == pytest.approx(0.75 * (_noised("infilling")[2].word_ids == MASK).sum(), rel=0.05)
    assert found.word_ids.shape == original.word_ids.shape


def test_masking_and_deletion_hide_single_tokens():
    for kind in ("masking", "deletion"):
        block, _, found = _noised(kind, noise_fraction=0.2)
        texts, others = (_texts(x.word_ids, x.lengths) for x in (block, found))
        for text, other in zip(texts, others, strict=True):
            hidden = math.ceil(0.2 * len(text))
            if kind == "masking":
                assert other.count(MASK) == hidden
                assert all(o in (MASK, t) for t, o in zip(text, other, strict=True))
            else:
                assert len(other) == len(text) - hidden
                assert [t for t in text if t in set(other)] == other


def test_rotated_texts_begin_with_any_token():
    block, _, found = _noised("rotation")
    texts, others = (_texts(x.word_ids, x.lengths) for x in (block, found))
    shifts = []
    for text, other in zip(texts, others, strict=True):
        at = text.index(other[0])
        assert text[at:] + text[:at] == other
        shifts.append(at / len(text))
    assert np.mean(shifts) == pytest.approx(0.5, abs=0.05)


def test_noise_follows_from_the_seed():
    for kinds in ("permutation,infilling", "rotation,deletion"):
        first, again, other = (_noised(kinds, seed)[2] for seed in (3, 3, 4))
        np.testing.assert_array_equal(first.word_ids, again.word_ids)
        assert (first.word_ids != other.word_ids).any()


def test_insertions_never_exceed_the_length():
    ids = np.full((500, 12), 4, np.int32)
    ids[:, 0], ids[:, -1] = START, END
    lengths = np.full(500, 12, np.int32)
    settings = ExampleSettings(objective=Objective.DENOISING, noise="infilling", mean_span=0.1)
    found = noise.noise(
        SequenceBlock(ids, lengths, lengths), ids == 0, SPECIAL, BEGINS_WORD, settings,
        np.random.default_rng(0),
    )  # fmt: skip
    assert found.lengths.max() == 12 and (found.word_ids[:, -1] != PAD).sum() > 0


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("infilling,deletion", r"--noise=infilling,deletion: has .* and .*; choose one\."),
        ("shuffling", "'shuffling' is unknown; there are permutation, infilling"),
        ("", "'' is unknown"),
    ],
)
def test_noises_that_do_not_go_together(kinds, message):
    with pytest.raises(InputError, match=message):
        ExampleSettings(objective=Objective.DENOISING, noise=kinds).check()


def test_settings_of_another_objective_are_told():
    with pytest.raises(InputError, match="--mean_span goes only with --objective=denoising"):
        ExampleSettings(mean_span=2.0).check()
    with pytest.raises(InputError, match="--short_seq_prob: --sequences=packed fills them all"):
        ExampleSettings(
            objective=Objective.MLM, sequences=SequenceKind.PACKED, short_seq_prob=0.5
        ).check()
    with pytest.raises(InputError, match="--max_ngram does not go with --objective=denoising"):
        ExampleSettings(objective=Objective.DENOISING, max_ngram=3).check()
    with pytest.raises(InputError, match="--mean_span: does not go with --noise=deletion"):
        ExampleSettings(objective=Objective.DENOISING, noise="deletion", mean_span=9.0).check()
    with pytest.raises(InputError, match="--noise_fraction: does not go with --noise=permutation"):
        ExampleSettings(
            objective=Objective.DENOISING, noise="permutation", noise_fraction=0.9
        ).check()


def test_denoising_predicts_all_positions():
    ExampleSettings(objective=Objective.DENOISING, max_seq_length=16).check()


@pytest.mark.parametrize("objective", ["left_to_right", "bidirectional_lm"])
@pytest.mark.parametrize(
    "changes", [{"whole_word_mask": True}, {"masked_lm_prob": 0.5}, {"random_fraction": 0.2}]
)
def test_what_masks_nothing_takes_no_settings_of_masks(objective, changes):
    settings = ExampleSettings(objective=Objective(objective), max_seq_length=16)
    settings.check()  # whatever the number of predictions
    with pytest.raises(InputError, match=f"--objective={objective} masks nothing"):
        dataclasses.replace(settings, **changes).check()
