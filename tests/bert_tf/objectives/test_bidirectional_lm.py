"""Language models of both directions: their losses by the formula, drawn words, what is counted."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.objectives.bidirectional_lm import BidirectionalLM
from tests.bert_tf.models.elmo_models import BATCH, CONFIG, IDS, MASK, VOCABULARY, randomize

_TENSORS = {name: tf.constant(value) for name, value in BATCH.items()}


def _model(**changes):
    model = BidirectionalLM(dataclasses.replace(CONFIG, **changes))
    randomize(model)
    model.encoder.set_vocabulary(VOCABULARY)
    return model


def _loss(model, batch=_TENSORS, **kwargs):
    return model.batch_loss(batch, model.totals(batch), **{"training": False, **kwargs})


def _metrics(model, counts):
    return model.metrics_of({name: float(value) for name, value in counts.items()})


@pytest.mark.parametrize("softmax_size", [None, 8])
def test_loss_is_the_mean_of_both_directions(softmax_size):
    model = _model(softmax_size=softmax_size)
    loss, counts = _loss(model)
    logits = model(_TENSORS)
    words = softmax_size or CONFIG.vocab_size
    labels = np.where(words > IDS, IDS, 1)
    there = MASK[:, 1:]
    means = {}
    for part, scores, wanted in (
        ("forward_lm", logits["forward_lm"][:, :-1], labels[:, 1:]),
        ("backward_lm", logits["backward_lm"][:, 1:], labels[:, :-1]),
    ):
        assert scores.shape[-1] == words
        chances = tf.nn.log_softmax(scores).numpy()
        each = -np.take_along_axis(chances, wanted[..., None], -1)[..., 0]
        means[part] = (each * there).sum() / there.sum()
        assert float(counts[f"{part}_total"]) == there.sum()
        right = (scores.numpy().argmax(-1) == wanted) * there
        assert float(counts[f"{part}_correct"]) == right.sum()
        assert _metrics(model, counts)[f"{part}_loss"] == pytest.approx(means[part], rel=1e-5)
    expected = sum(means.values()) / 2
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    found = _metrics(model, counts)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(expected), rel=1e-5)
    assert set(model.curves) <= found.keys()


def test_a_direction_does_not_train_the_other():
    model = _model()
    values = {v.path: v.value for v in model.trainable_variables}
    with tf.GradientTape() as tape:
        outputs = model.encoder(_TENSORS)
        rows, asked = model._rows(outputs), model.targets(_TENSORS)
        loss = model._sums(rows["forward_lm"], asked["forward_lm"], None).loss
    gradients = tape.gradient(loss, values)
    for path, gradient in gradients.items():
        reached = gradient is not None and np.abs(tf.convert_to_tensor(gradient)).max() > 0
        assert reached == ("/backward/" not in path), path


def test_the_loss_of_drawn_words_is_that_of_the_formula():
    model = _model(sampled_softmax=6)
    head = model.bidirectional_lm
    rng = np.random.default_rng(0)
    x = rng.standard_normal([5, CONFIG.projection_size]).astype("f4")
    labels = np.array([1, 3, 5, 9, 12], np.int32)
    drawn = head._draw(tf.constant(3)).numpy()
    assert drawn.shape == (6,) and drawn.min() >= 0 and drawn.max() < CONFIG.vocab_size
    losses, right = head.sampled_losses(tf.constant(x), tf.constant(labels), tf.constant(3))
    ranks = np.arange(CONFIG.vocab_size)
    chances = np.log((ranks + 2) / (ranks + 1)) / np.log(CONFIG.vocab_size + 1)
    assert chances.sum() == pytest.approx(1)
    scores = x @ head.kernel.numpy().T + head.bias.numpy() - np.log(6 * chances)
    for row, label in enumerate(labels):
        others = scores[row, [word for word in drawn if word != label]]
        total = np.logaddexp.reduce([scores[row, label], *others])
        assert float(losses[row]) == pytest.approx(total - scores[row, label], rel=1e-4)
        assert bool(right[row]) == (scores[row, label] >= others.max())


def test_words_are_drawn_by_their_chances_and_the_seed():
    model = _model(vocab_size=1000, sampled_softmax=500)
    head = model.bidirectional_lm
    drawn = np.concatenate([head._draw(tf.constant(seed)).numpy() for seed in range(60)])
    np.testing.assert_array_equal(head._draw(tf.constant(7)), drawn[3500:4000])
    counts = np.bincount(drawn, minlength=1000)
    assert counts[0] / len(drawn) == pytest.approx(np.log(2) / np.log(1001), rel=0.05)
    assert counts[10:100].sum() / len(drawn) == pytest.approx(
        np.log(101 / 11) / np.log(1001), rel=0.05
    )
    compiled = tf.function(head._draw, jit_compile=True)(tf.constant(7))
    np.testing.assert_array_equal(compiled, drawn[3500:4000])


def test_words_are_drawn_in_training_only():
    model = _model(sampled_softmax=6, hidden_dropout_prob=0.0)
    whole, _ = _loss(model)
    assert float(whole) == pytest.approx(float(_loss(_model())[0]), rel=1e-6)
    seeds = [tf.constant(seed) for seed in (1, 1, 2)]
    first, again, other = (float(_loss(model, training=True, dropout_seed=s)[0]) for s in seeds)
    assert first == again != other
    assert first != float(whole)
