"""Masks that are drawn on the device: counts, shares, seeds."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.masked_lm import MaskedLM, MaskedLMNextSentence
from tests.bert_tf.helpers import CONFIG, make_batch

PAD, START, SEPARATOR, MASK = range(4)
LENGTH, MOST, VOCABULARY = 64, 8, 1000
MASKING = DynamicMasking((PAD, START, SEPARATOR, MASK), MASK, VOCABULARY, {LENGTH: MOST})


def make_inputs(rows=512, seed=0):
    """Sequences [CLS] ... [SEP] of many lengths, the first one of nothing else."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, LENGTH + 1, rows)
    lengths[0] = 2
    position = np.arange(LENGTH)
    ids = rng.integers(4, VOCABULARY, (rows, LENGTH))
    ids[:, 0] = START
    ids[np.arange(rows), lengths - 1] = SEPARATOR
    mask = position < lengths[:, np.newaxis]
    values = {
        "input_word_ids": ids * mask, "input_mask": mask, "input_type_ids": np.zeros_like(ids),
    }  # fmt: skip
    return {name: tf.constant(value, tf.int32) for name, value in values.items()}


def masked(batch, seed):
    return {name: value.numpy() for name, value in MASKING(batch, tf.constant(seed)).items()}


def test_shares_are_those_asked_for_and_every_place_is_as_likely():
    batch = make_inputs(8192)
    found = masked(batch, 3)
    rows, slots = np.nonzero(found["masked_lm_weights"])
    positions = found["masked_lm_positions"][rows, slots]
    before, after = (
        x[rows, positions] for x in (batch["input_word_ids"].numpy(), found["input_word_ids"])
    )
    hidden, kept = after == MASK, after == before
    tolerance = 4 * np.sqrt(0.25 / len(rows))
    assert hidden.mean() == pytest.approx(0.8, abs=tolerance)
    assert kept.mean() == pytest.approx(0.1, abs=tolerance)
    random = after[~hidden & ~kept]
    # Uniform over the vocabulary: mean and deviation of such numbers.
    assert random.mean() == pytest.approx(VOCABULARY / 2, rel=0.03)
    assert random.std() == pytest.approx(VOCABULARY / np.sqrt(12), rel=0.03)
    full = batch["input_mask"].numpy()[rows].all(1)
    counts = np.bincount(positions[full], minlength=LENGTH)[1:-1]
    expected = counts.sum() / len(counts)
    assert ((counts - expected) ** 2 / expected).sum() < 62 + 5 * np.sqrt(2 * 62)  # chi squared


def test_counts_are_rounded_as_by_the_example_writer():
    """Half a token more, or less: length 190 asks for 28.5."""
    masking = DynamicMasking((), MASK, VOCABULARY, {256: 100})
    mask = tf.sequence_mask(tf.range(1, 257), 256, tf.int32)
    found = masking({"input_word_ids": mask * 9, "input_mask": mask}, tf.constant(0))
    wanted = np.maximum(1, np.rint(np.arange(1, 257) * 0.15))
    np.testing.assert_array_equal(found["masked_lm_weights"].numpy().sum(1), wanted)


def test_xla_draws_the_same():
    batch = make_inputs(32)
    compiled = tf.function(lambda *x: MASKING(*x), jit_compile=True)(batch, tf.constant(7))
    for name, value in masked(batch, 7).items():
        np.testing.assert_array_equal(value, compiled[name].numpy())


@pytest.mark.parametrize("cls", [MaskedLM, MaskedLMNextSentence])
def test_objectives_mask_what_examples_do_not(cls):
    batch = make_batch()
    names = frozenset(batch)
    masking = DynamicMasking((0, 1, 2), 3, CONFIG.vocab_size, {10: 3})
    static = cls.for_examples(CONFIG, names, masking)
    assert static.masking is None
    assert static.prepare(batch, tf.constant(0)) is batch
    left = {name: value for name, value in batch.items() if not name.startswith("masked")}
    dynamic = cls.for_examples(CONFIG, frozenset(left), masking)
    assert dynamic.features <= frozenset(left)
    prepared = dynamic.prepare(left, tf.constant(0))
    assert prepared.keys() == names
    _, counts = dynamic.batch_loss(prepared, dynamic.totals(prepared), training=False)
    assert float(counts["masked_lm_total"]) >= 4
    again = cls.from_config(dynamic.get_config())
    assert again.masking == dynamic.masking
