"""The encoder against its formulas in plain NumPy."""

import dataclasses
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import BertConfig, BertEncoder
from bert_tf.objectives.masked_lm_next_sentence import MaskedLMNextSentence
from tests.bert_tf.helpers import CONFIG, make_batch


def _randomize(model, seed=0):
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        variable.assign(rng.normal(0, 0.3, variable.shape) + (1 if "gamma" in variable.path else 0))


def _norm(x, layer):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    standard = (x - mean) / np.sqrt(variance + 1e-12)
    return standard * layer.gamma.numpy() + layer.beta.numpy()


def _dense(x, layer):
    return x @ layer.kernel.numpy().astype(np.float64) + layer.bias.numpy()


def _gelu(x, exact):
    if exact:
        return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _reference(encoder, batch, causal=False):
    """Section 3.1 of Vaswani et al. and section 3 of Devlin et al., written out."""
    config = encoder.config
    ids, mask, types = (
        batch[name].numpy() for name in ("input_word_ids", "input_mask", "input_type_ids")
    )
    tables = encoder.embeddings
    length, heads = ids.shape[1], config.num_attention_heads
    x = (
        tables.word.numpy()[ids]
        + tables.position.numpy()[:length]
        + tables.token_type.numpy()[types]
    ).astype(np.float64)
    x = _norm(x, tables.norm)
    allowed = np.broadcast_to(mask[:, None, None, :] > 0, (len(ids), heads, length, length))
    if causal:
        allowed = allowed & np.tril(np.ones((length, length), bool))
    for block in encoder.blocks:
        q, k, v = (
            part.reshape(len(ids), length, heads, -1).transpose(0, 2, 1, 3)
            for part in np.split(_dense(x, block.attention.qkv), 3, -1)
        )
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
        context = _softmax(np.where(allowed, scores, -1e9)) @ v
        context = context.transpose(0, 2, 1, 3).reshape(x.shape)
        x = _norm(x + _dense(context, block.attention.output_dense), block.attention_norm)
        inner = _gelu(_dense(x, block.feed_forward.intermediate), config.hidden_act == "gelu_erf")
        x = _norm(x + _dense(inner, block.feed_forward.output_dense), block.output_norm)
    return x, np.tanh(_dense(x[:, 0], encoder.pooler))


@pytest.mark.parametrize(("activation", "causal"), [("gelu", False), ("gelu_erf", True)])
def test_outputs_are_those_of_the_formulas(activation, causal):
    config = BertConfig.from_dict(CONFIG.to_dict() | {"hidden_act": activation})
    encoder = BertEncoder(dataclasses.replace(config, causal=causal))
    _randomize(encoder)
    batch = make_batch()
    outputs = encoder(batch)
    sequence, pooled = _reference(encoder, batch, causal)
    real = batch["input_mask"].numpy() > 0
    np.testing.assert_allclose(outputs["sequence_output"].numpy()[real], sequence[real], atol=2e-5)
    np.testing.assert_allclose(outputs["pooled_output"], pooled, atol=2e-5)
    assert len(outputs["encoder_outputs"]) == config.num_hidden_layers
    assert outputs["attention_probs"][0].shape == (4, 2, 10, 10)
    np.testing.assert_allclose(tf.reduce_sum(outputs["attention_probs"][1], -1), 1, atol=1e-5)


def test_padding_changes_nothing():
    encoder = BertEncoder(CONFIG)
    batch = {name: value[:1, :6] for name, value in make_batch().items() if "input" in name}
    longer = {name: tf.pad(value, [[0, 0], [0, 5]]) for name, value in batch.items()}
    short, long = encoder(batch), encoder(longer)
    np.testing.assert_allclose(short["sequence_output"], long["sequence_output"][:, :6], atol=1e-5)


def test_left_to_right_sees_nothing_that_follows():
    encoder = BertEncoder(dataclasses.replace(CONFIG, causal=True))
    batch = make_batch()
    batch["input_mask"] = tf.ones_like(batch["input_mask"])
    other = dict(batch)
    other["input_word_ids"] = tf.concat(
        [batch["input_word_ids"][:, :5], batch["input_word_ids"][:, 5:] * 0 + 7], 1
    )
    a, b = encoder(batch)["sequence_output"], encoder(other)["sequence_output"]
    np.testing.assert_allclose(a[:, :5], b[:, :5], atol=1e-6)
    assert np.abs(a[:, 5:] - b[:, 5:]).max() > 1e-3


def test_dropout_follows_its_seed_and_training():
    encoder = BertEncoder(CONFIG)
    batch = make_batch()

    def run(**options):
        return encoder(batch, **options)["sequence_output"].numpy()

    one = run(training=True, dropout_seed=tf.constant(1))
    assert (one == run(training=True, dropout_seed=tf.constant(1))).all()
    assert (one != run(training=True, dropout_seed=tf.constant(2))).any()
    assert (run() == run()).all()
    assert (run(training=True) != run(training=True)).any()


def test_mixed_precision_keeps_float32_variables_and_is_near():
    exact = BertEncoder(CONFIG)
    mixed = BertEncoder(CONFIG, dtype="mixed_bfloat16")
    mixed.set_weights(exact.get_weights())
    assert {variable.dtype for variable in mixed.variables} == {"float32"}
    batch = make_batch()
    outputs = mixed(batch)["sequence_output"]
    assert outputs.dtype == tf.bfloat16
    np.testing.assert_allclose(
        tf.cast(outputs, tf.float32), exact(batch)["sequence_output"], atol=0.08
    )


@pytest.mark.parametrize("cls", [BertEncoder, MaskedLMNextSentence])
def test_get_config_round_trip(cls):
    model = cls(CONFIG, dtype="mixed_bfloat16", name="mine")
    again = cls.from_config(model.get_config())
    assert again.config == CONFIG
    assert again.name == "mine"
    assert again.dtype_policy.name == "mixed_bfloat16"
    assert [v.path for v in again.variables] == [v.path for v in model.variables]


def test_layers_round_trip():
    for block in BertEncoder(CONFIG).blocks[:1]:
        for layer in (block, block.attention, block.feed_forward, block.output_norm):
            again = type(layer).from_config(layer.get_config())
            assert again.get_config() == layer.get_config()


def test_initial_weights_are_a_truncated_normal():
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(BertConfig.named("tiny", vocab_size=5000))
    table = encoder.embeddings.word.numpy()
    assert np.abs(table).max() <= 0.04
    # Cut at two deviations, a normal keeps 0.88 of its own deviation.
    assert table.std() == pytest.approx(0.02 * 0.88, rel=0.02)
    assert not encoder.pooler.bias.numpy().any()


def test_too_long_sequences_are_an_error():
    with pytest.raises(ValueError, match="13 tokens exceed max_position_embeddings 12"):
        BertEncoder(CONFIG)({name: tf.ones([1, 13], tf.int32) for name in (
            "input_word_ids", "input_mask", "input_type_ids")})  # fmt: skip
