"""Pre-training losses and what is counted."""

import math

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.objectives.masked_lm import LeftToRight, MaskedLM, MaskedLMNextSentence
from tests.bert_tf.helpers import CONFIG, make_batch


def metrics(model, counts):
    return model.metrics_of({name: float(value) for name, value in counts.items()})


def _log_softmax(logits):
    return tf.nn.log_softmax(logits).numpy()


def test_loss_is_the_mean_over_masked_tokens_plus_the_mean_over_pairs():
    model = MaskedLMNextSentence(CONFIG)
    batch = make_batch()
    loss, counts = model.batch_loss(batch, model.totals(batch), training=False)
    logits = model(batch)
    weights = batch["masked_lm_weights"].numpy()
    token = np.take_along_axis(
        _log_softmax(logits["masked_lm"]), batch["masked_lm_ids"].numpy()[..., None], -1
    )[..., 0]
    pair = _log_softmax(logits["next_sentence"])[np.arange(4), batch["next_sentence_labels"]]
    expected = -(token * weights).sum() / weights.sum() - pair.mean()
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert float(counts["masked_lm_total"]) == weights.sum()
    assert float(counts["next_sentence_total"]) == 4
    guesses = logits["masked_lm"].numpy().argmax(-1) == batch["masked_lm_ids"].numpy()
    assert float(counts["masked_lm_correct"]) == (guesses * weights).sum()
    assert metrics(model, counts)["loss"] == pytest.approx(expected, rel=1e-5)
    assert metrics(model, counts)["perplexity"] == pytest.approx(
        math.exp(-(token * weights).sum() / weights.sum()), rel=1e-5
    )


def test_without_next_sentence_there_is_no_such_head():
    model = MaskedLM(CONFIG)
    assert not [v for v in model.variables if "next_sentence" in v.path]
    batch = make_batch()
    del batch["next_sentence_labels"]
    _, counts = model.batch_loss(batch, model.totals(batch), training=False)
    found = metrics(model, counts)
    assert "next_sentence_accuracy" not in found
    assert found["loss"] == found["masked_lm_loss"]


def test_left_to_right_predicts_each_next_token():
    model = LeftToRight(CONFIG)
    batch = {k: v for k, v in make_batch().items() if "input" in k}
    loss, counts = model.batch_loss(batch, model.totals(batch), training=False)
    scores = _log_softmax(model(batch)["masked_lm"])
    ids, mask = batch["input_word_ids"].numpy(), batch["input_mask"].numpy()
    token = np.take_along_axis(scores[:, :-1], ids[:, 1:, None], -1)[..., 0]
    expected = -(token * mask[:, 1:]).sum() / mask[:, 1:].sum()
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert float(counts["next_token_total"]) == mask[:, 1:].sum()


def test_the_output_embedding_is_the_input_embedding():
    model = MaskedLMNextSentence(CONFIG)
    batch = make_batch()
    before = model(batch)["masked_lm"].numpy()
    shapes = [tuple(v.shape) for v in model.variables]
    assert shapes.count((CONFIG.vocab_size, CONFIG.hidden_size)) == 1
    with tf.GradientTape() as tape:
        loss, _ = model.batch_loss(batch, model.totals(batch), training=False)
    gradient = tape.gradient(loss, model.encoder.embeddings.word.value)
    unseen = np.setdiff1d(np.arange(50), batch["input_word_ids"])
    assert np.abs(tf.convert_to_tensor(gradient).numpy()[unseen]).min() > 0
    model.encoder.embeddings.word.assign(model.encoder.embeddings.word * 2)
    assert not np.allclose(model(batch)["masked_lm"], before)


def test_a_loss_too_large_for_a_perplexity_is_no_error():
    counts = {"masked_lm_loss": 1e4, "masked_lm_correct": 0.0, "masked_lm_total": 1.0}
    assert MaskedLM(CONFIG).metrics_of(counts)["perplexity"] == math.inf
