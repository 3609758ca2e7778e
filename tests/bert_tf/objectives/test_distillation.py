"""DistilBERT's loss, the masks that it needs, and where a student starts."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.objectives import distillation, frequency_masking
from bert_tf.objectives.distillation import Distillation
from bert_tf.objectives.frequency_masking import FrequencyMasking
from bert_tf.objectives.masked_lm import MaskedLM
from bert_tf.pretraining.distillation import layer_map
from pipelines.common.errors import InputError
from tests.bert_tf.helpers import CONFIG, make_batch


def test_the_divergence_is_that_of_softened_predictions():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(size=(2, 3, 7)).astype(np.float32)
    found = distillation.divergence(tf.constant(ours), tf.constant(theirs), 2.0).numpy()
    p, q = (np.exp(x / 2) / np.exp(x / 2).sum(1, keepdims=True) for x in (theirs, ours))
    np.testing.assert_allclose(found, 4 * (p * np.log(p / q)).sum(1), rtol=1e-4)


@pytest.mark.parametrize("width", [CONFIG.hidden_size, 48])
def test_the_triple_loss(width):
    tf.keras.utils.set_random_seed(1)
    teacher = MaskedLM(dataclasses.replace(CONFIG, hidden_size=width, num_attention_heads=2))
    model = Distillation(CONFIG, None, teacher)
    batch = make_batch()
    loss, counts = model.batch_loss(batch, model.totals(batch), training=False)
    sequences = [
        net.encoder(batch)["sequence_output"].numpy()[batch["input_mask"].numpy() > 0]
        for net in (model, teacher)
    ]
    logits = [
        net.token_logits(tf.constant(x)) for net, x in zip((model, teacher), sequences, strict=True)
    ]
    taught = distillation.divergence(*logits, 2.0).numpy().mean()
    masked = float(counts["masked_lm_loss"] / counts["masked_lm_total"])
    expected = 5 * taught + 2 * masked
    if width == CONFIG.hidden_size:
        unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in sequences]
        expected += 1 - (unit[0] * unit[1]).sum(1).mean()
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    metrics = model.metrics_of({name: float(value) for name, value in counts.items()})
    assert metrics["loss"] == pytest.approx(expected, rel=1e-4)
    assert ("cosine_loss" in metrics) == (width == CONFIG.hidden_size)


def test_the_teacher_is_no_part_of_the_model():
    teacher = MaskedLM(CONFIG)
    model = Distillation(CONFIG, None, teacher)
    known = {id(variable) for variable in teacher.variables}
    assert not [v.path for v in model.variables if id(v) in known]


def test_a_student_that_is_its_teacher_has_nothing_to_learn_from_it():
    teacher = MaskedLM(CONFIG)
    model = Distillation(CONFIG, None, teacher)
    for mine, theirs in zip(model.variables, teacher.variables, strict=True):
        mine.assign(theirs)
    batch = make_batch()
    _, counts = model.batch_loss(batch, model.totals(batch), training=False)
    found = model.metrics_of({name: float(value) for name, value in counts.items()})
    assert found["teacher_accuracy"] == 1
    assert found["teacher_loss"] == pytest.approx(0, abs=1e-5)
    assert found["cosine_loss"] == pytest.approx(0, abs=1e-5)


def test_rare_tokens_are_masked_more_often():
    counts = np.array([1, 1, 1, 1, 1, 10_000, 1_000, 100, 10, 0])
    rates = np.array(frequency_masking.rates(counts))
    np.testing.assert_allclose(rates[5:], [1e4**-0.7, 1e3**-0.7, 100**-0.7, 10**-0.7, 1])
    masking = FrequencyMasking((0, 2, 3, 4), 4, 10, {12: 1}, share=0.01, rates=tuple(rates))
    ids = tf.constant([[2, 5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 3]] * 20_000)
    found = masking({"input_word_ids": ids, "input_mask": tf.ones_like(ids)}, tf.constant(7))
    drawn = np.bincount(found["masked_lm_ids"].numpy()[:, 0], minlength=10)[5:]
    np.testing.assert_allclose(drawn / drawn.sum(), rates[5:] / rates[5:].sum(), atol=0.01)


def test_tokens_are_counted_without_padding():
    batch = {
        "input_word_ids": np.array([[2, 5, 5, 3, 0]]),
        "input_mask": np.array([[1, 1, 1, 1, 0]]),
    }
    assert frequency_masking.count([batch, batch], 7).tolist() == [0, 0, 2, 2, 0, 4, 0]


def test_layers_are_spread_as_in_distilbert():
    assert layer_map(None, 6, 12) == [0, 2, 4, 7, 9, 11]
    assert layer_map(None, 3, 3) == [0, 1, 2] and layer_map(None, 1, 2) == [0]
    assert layer_map((1, 0), 2, 2) == [1, 0]
    with pytest.raises(InputError, match="give 2 numbers, one for each layer of the student, from"):
        layer_map((0, 2), 2, 2)
