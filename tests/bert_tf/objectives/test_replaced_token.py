"""ELECTRA's objective: samples, labels and losses."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.objectives import replaced_token
from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.replaced_token import ReplacedToken
from tests.tiny import tiny_config

CONFIG = dataclasses.replace(
    tiny_config(50), model_type="electra", embedding_size=16, generator_size=0.5
)
LENGTH = 24


def make_model(config=CONFIG):
    tf.keras.utils.set_random_seed(3)
    masking = DynamicMasking((0, 2, 3, 4), 4, config.vocab_size, {LENGTH: 4})
    return ReplacedToken.for_examples(config, frozenset(), masking)


def make_batch(rows=6):
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, LENGTH + 1, rows)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    ids = rng.integers(5, CONFIG.vocab_size, (rows, LENGTH)) * mask
    values = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": 0 * mask}
    return {name: tf.constant(value, tf.int32) for name, value in values.items()}


def test_samples_have_the_probabilities_of_the_softmax():
    logits = tf.constant([[0.0, 1.0, -1.0, 2.0, -30.0]])
    draws = tf.constant((np.arange(100_000) + 0.5) / 100_000, tf.float32)
    found = replaced_token.sample(tf.repeat(logits, len(draws), 0), draws).numpy()
    shares = np.bincount(found, minlength=5) / len(found)
    np.testing.assert_allclose(shares, tf.nn.softmax(logits)[0], atol=1e-4)


def test_the_last_class_is_the_highest_sample():
    logits = tf.zeros([1, 3])
    assert replaced_token.sample(logits, tf.constant([np.nextafter(1, 0, dtype="f4")])).numpy() == 2


def test_masks_are_electras():
    batch = make_batch(200)
    prepared = make_model().prepare(batch, tf.constant(1))
    chosen = prepared["masked_lm_weights"].numpy() > 0
    positions = prepared["masked_lm_positions"].numpy()
    now = np.take_along_axis(prepared["input_word_ids"].numpy(), positions, 1)[chosen]
    was = prepared["masked_lm_ids"].numpy()[chosen]
    assert 0.8 < (now == 4).mean() < 0.9
    assert (now[now != 4] == was[now != 4]).all()  # none is random


def test_only_tokens_that_differ_are_replaced():
    model, batch = make_model(), make_batch()
    prepared = model.prepare(batch, tf.constant(5))
    seen = {}
    model.encoder.encode_batch, encode = (
        lambda given, *rest: seen.update(ids=given.word_ids.numpy()) or encode(given, *rest),
        model.encoder.encode_batch,
    )
    outputs = model.encode(prepared, training=False, dropout_seed=None)
    original = batch["input_word_ids"].numpy()
    np.testing.assert_array_equal(outputs["replaced"].numpy(), seen["ids"] != original)
    assert outputs["replaced"].numpy().sum() > 3
    assert not (seen["ids"] == 4).any() or (original == 4).any()


def test_the_loss_is_that_of_the_paper():
    model, batch = make_model(), make_batch()
    prepared = model.prepare(batch, tf.constant(5))
    loss, counts = model.batch_loss(prepared, model.totals(prepared), training=False)
    outputs = model.encode(prepared, training=False, dropout_seed=None)
    logits = model._detect(outputs["sequence_output"]).numpy()
    labels, mask = outputs["replaced"].numpy(), batch["input_mask"].numpy()
    probability = 1 / (1 + np.exp(-logits))
    binary = -np.log(np.where(labels, probability, 1 - probability))
    generator = float(counts["masked_lm_loss"] / counts["masked_lm_total"])
    expected = generator + 50 * (binary * mask).sum() / mask.sum()
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    metrics = model.metrics_of({name: float(value) for name, value in counts.items()})
    assert metrics["loss"] == pytest.approx(expected, rel=1e-5)
    share = (labels * mask).sum() / mask.sum()
    assert metrics["replaced_token_majority"] == pytest.approx(1 - share)
    found = ((logits > 0) & labels).sum() / labels.sum()
    assert metrics["replaced_token_found"] == pytest.approx(found)


def test_embeddings_are_shared_and_the_generator_learns_from_masked_lm_alone():
    model = make_model()
    batch = model.prepare(make_batch(), tf.constant(2))
    paths = [variable.path for variable in model.trainable_variables]
    assert not [path for path in paths if path.startswith("generator/embeddings/word")]
    values = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape() as tape:
        outputs = model.encode(batch, training=False, dropout_seed=None)
        loss = model.sums(outputs, batch, None)["replaced_token"].loss
    gradients = dict(zip(paths, tape.gradient(loss, values), strict=True))
    of_generator = [path for path in paths if path.startswith("generator")]
    assert of_generator and not [p for p in of_generator if gradients[p] is not None]
    assert gradients["encoder/embeddings/word_embeddings"] is not None


def test_a_generator_of_our_width_has_no_projection():
    config = dataclasses.replace(CONFIG, embedding_size=None, generator_size=1.0)
    paths = [variable.path for variable in make_model(config).variables]
    assert not [path for path in paths if "projection" in path]
    assert isinstance(config.generator, BertConfig)
