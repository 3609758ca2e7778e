"""ELMo against its formulas in plain NumPy, and what its directions may know."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import configs, encoders, fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.elmo import ElmoEncoder, word_embeddings
from bert_tf.models.elmo_config import CHARACTERS, ElmoConfig
from pipelines.common.errors import InputError
from tests.bert_tf.helpers import slope_at
from tests.bert_tf.models.elmo_models import (
    BATCH,
    CONFIG,
    IDS,
    MASK,
    VOCABULARY,
    layers_of,
    make_encoder,
    randomize,
    spelled,
)


def _layers(outputs):
    return [outputs["embedding_output"], *outputs["encoder_outputs"]]


def test_characters_are_the_first_bytes_of_words():
    found = word_embeddings.character_table(VOCABULARY)
    assert found.dtype == np.int32 and found.shape == (len(VOCABULARY), CHARACTERS)
    assert found.tolist() == [spelled(word) for word in VOCABULARY.tokens]
    assert found.max() < 1 + word_embeddings._KINDS


def test_all_layers_are_those_of_the_formulas():
    encoder = make_encoder()
    outputs = encoder(BATCH)
    assert outputs["attention_probs"] == []
    for row, there in zip(range(len(IDS)), MASK.sum(1), strict=True):
        expected = layers_of(encoder, IDS[row, :there])
        for layer, values in zip(_layers(outputs), expected, strict=True):
            np.testing.assert_allclose(layer[row, :there], values, atol=2e-6)
        np.testing.assert_allclose(outputs["pooled_output"][row], expected[-1].mean(0), atol=2e-6)
    np.testing.assert_array_equal(outputs["sequence_output"], outputs["encoder_outputs"][-1])
    for name, shape in encoder.compute_output_shape((3, 6)).items():
        found = outputs[name]
        assert (
            [tuple(x.shape) for x in found] == shape
            if isinstance(found, list)
            else (tuple(found.shape) == shape)
        )


def test_each_word_is_computed_once_or_at_each_place():
    encoder = make_encoder()
    once = encoder(BATCH)
    with fused_ops.compile_whole():
        each = tf.function(encoder, jit_compile=True, autograph=False)(BATCH)
    for a, b in zip(_layers(once), _layers(each), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_neither_direction_reads_the_other():
    """Forward values at a token depend on it and those before it, backward ones likewise."""
    encoder = make_encoder()
    before = encoder(BATCH)
    changed = IDS.copy()
    changed[0, 2] = 6
    after = encoder({**BATCH, "input_word_ids": changed})
    width = CONFIG.projection_size
    for index, (a, b) in enumerate(zip(_layers(before), _layers(after), strict=True)):
        moved = (a.numpy() != b.numpy())[0]
        forward, backward = moved[:, :width].any(-1), moved[:, width:].any(-1)
        assert forward[2] and backward[2]
        assert not forward[:2].any() and not backward[3:].any()
        if index:
            assert forward[3:].all() and backward[:2].all()
    np.testing.assert_array_equal(before["sequence_output"][1:], after["sequence_output"][1:])


def test_padding_changes_nothing():
    encoder = make_encoder()
    wide = {name: np.pad(values, [[0, 0], [0, 3]]) for name, values in BATCH.items()}
    alone, padded = encoder(BATCH), encoder(wide)
    np.testing.assert_allclose(padded["pooled_output"], alone["pooled_output"], atol=1e-6)
    there = MASK > 0
    for a, b in zip(_layers(alone), _layers(padded), strict=True):
        np.testing.assert_allclose(b.numpy()[:, :6][there], a.numpy()[there], atol=1e-6)
    ids_alone = encoder(IDS)
    np.testing.assert_array_equal(ids_alone["pooled_output"], alone["pooled_output"])
    np.testing.assert_array_equal(encoder.pooled(BATCH), alone["pooled_output"])


@pytest.mark.slow
def test_gradients_are_those_of_differences():
    config = dataclasses.replace(CONFIG, cell_clip=None, projection_clip=None)
    encoder = make_encoder(config)
    goal = np.random.default_rng(1).standard_normal([*IDS.shape, config.hidden_size])

    def loss():
        outputs = encoder(BATCH)["sequence_output"]
        return tf.reduce_sum(outputs * tf.cast(goal, tf.float32) * MASK[..., None])

    values = [variable.value for variable in encoder.trainable_variables]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(values)
        value = loss()
    gradients = tape.gradient(value, values)
    for variable, gradient in zip(encoder.trainable_variables, gradients, strict=True):
        gradient = tf.convert_to_tensor(gradient).numpy()
        where = np.unravel_index(np.abs(gradient).argmax(), variable.shape)
        assert gradient[where] != 0, variable.path
        slope = slope_at(loss, variable, where, 1e-3)
        assert gradient[where] == pytest.approx(slope, rel=5e-2, abs=2e-2), variable.path


def test_dropout_follows_its_seed():
    encoder = make_encoder(dataclasses.replace(CONFIG, hidden_dropout_prob=0.5))
    plain, first, again, other = (
        encoder(BATCH, training=seed is not None, dropout_seed=seed)["sequence_output"].numpy()
        for seed in (None, 1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first != plain).any()


def test_what_it_says_of_itself_is_so():
    encoder = make_encoder()
    shapes = {variable.path: tuple(variable.shape) for variable in encoder.variables}
    assert ElmoEncoder.unallocated(CONFIG).shapes() == shapes == encoder.shapes()
    (table,) = [v for v in encoder.variables if not v.trainable]
    assert table.path == "encoder/embeddings/word_characters" and table.dtype == "int32"
    parts = encoder.layer_variables()
    assert len(parts) == 1 + CONFIG.num_hidden_layers
    assert {id(v) for part in parts for v in part} == {id(v) for v in encoder.variables}
    symbolic = encoder(keras.Input([6], dtype="int32"))
    assert symbolic["sequence_output"].shape == (None, 6, CONFIG.hidden_size)


def test_bfloat16_is_near():
    encoder = make_encoder()
    found = encoder(BATCH, dtype="bfloat16")["sequence_output"]
    assert found.dtype == tf.bfloat16
    exact = encoder(BATCH)["sequence_output"]
    np.testing.assert_allclose(tf.cast(found, tf.float32), exact, atol=0.05)


def test_without_projection():
    config = dataclasses.replace(CONFIG, cell_size=4, projection_size=4)
    encoder = encoders.make(config)
    randomize(encoder)
    assert not [v for v in encoder.variables if v.path.endswith("block_0/forward/projection")]
    assert encoder(BATCH)["sequence_output"].shape == (3, 6, 8)


def test_sizes():
    original = ElmoConfig.named("elmo-base", vocab_size=5)
    assert original == ElmoConfig(vocab_size=5)
    parameters = ElmoEncoder.unallocated(original).parameters - 5 * CHARACTERS
    assert parameters == 93_600_848  # as published, but for the table
    for name, hidden in (("tiny", 128), ("mini", 256), ("small", 512), ("base", 1024)):
        assert configs.named(f"elmo-{name}").hidden_size == hidden
    assert isinstance(configs.named("tiny"), BertConfig)
    with pytest.raises(InputError, match="use elmo-debug, elmo-tiny"):
        configs.named("elmo-large")


def test_configurations_are_read_as_the_family_they_name(tmp_path):
    path = str(tmp_path / "bert_config.json")
    for config in (CONFIG, BertConfig(causal=True), BertConfig()):
        config.save(path)
        assert configs.load(path) == config
    values = CONFIG.to_dict()
    assert configs.of_dict(values) == CONFIG
    for change, message in (
        ({"filters": [[51, 3]]}, "filters is"),
        ({"filters": []}, "filters is"),
        ({"filters": [3]}, "filters is"),
        ({"projection_size": 0}, "projection_size is 0"),
        ({"vocab_size": 3}, "vocab_size is 3"),
        ({"softmax_size": 2}, "softmax_size is 2"),
        ({"cell_clip": -1}, "cell_clip is -1"),
        ({"residual": 1}, "residual is 1"),
        ({"char_act": "gelu"}, "use one of relu, tanh"),
        ({"hidden_dropout_prob": 1}, "hidden_dropout_prob is 1"),
        ({"hidden_size": 3}, "unknown key 'hidden_size'"),
    ):
        with pytest.raises(InputError, match=message):
            configs.of_dict(values | change)
    with pytest.raises(InputError, match="learn-vocabulary with --kind=word"):
        CONFIG.check_vocabulary("wordpiece", "folder")


def test_no_sequence_has_no_vectors():
    """Devices whose part of a short batch is empty."""
    encoder = make_encoder()
    found = encoder({name: value[:0] for name, value in BATCH.items()})
    assert found["sequence_output"].shape == (0, *encoder(BATCH)["sequence_output"].shape[1:])
