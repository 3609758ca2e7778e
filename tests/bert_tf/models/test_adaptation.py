"""LoRA and int8 kernels, in every way to compute and to keep a model."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import BertEncoder
from bert_tf.models import fused_ops
from bert_tf.models.layers import Dense, TransformerBlock
from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from bert_tf.tasks.model import HeadShape, TaskModel
from pipelines.common.errors import InputError
from tests.bert_tf.helpers import CONFIG, make_batch
from tests.bert_tf.models import user_models

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
LABELS = np.array([0, 1, 0, 1])


def _encoder(**options):
    return user_models.randomize(BertEncoder(CONFIG, name="encoder", **options))


def _small_classifier():
    """A functional model with one layer and no dropout, and its encoder."""
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(
        CONFIG, num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    encoder = user_models.randomize(BertEncoder(config, name="encoder"))
    return user_models.classifier(encoder), encoder


def _fit(model, epochs, **options):
    """Compiles, unless it is, and fits four examples; returns the losses."""
    if not model.compiled:
        model.compile(keras.optimizers.Adam(0.01), LOSS, **options)
    data = {name: value.numpy() for name, value in user_models.batch().items()}
    return model.fit(data, LABELS, epochs=epochs, verbose=0).history["loss"]


def _is_low_rank(variable):
    return variable.name in ("lora_kernel_a", "lora_kernel_b")


def _values(model):
    return {variable.path: variable.numpy() for variable in model.variables}


def _each_way(encoder):
    """The pooled output in all ways to compute it."""
    batch = user_models.batch()
    yield "plain", encoder(batch)["pooled_output"]
    yield "without padding", encoder(batch, drop_padding=True)["pooled_output"]
    with fused_ops.compile_fused():
        yield "fused", encoder(batch)["pooled_output"]
    with fused_ops.inference():
        yield "inference", encoder(batch)["pooled_output"]
        yield "of the first token", encoder.pooled(batch)
        yield "in a graph", tf.function(lambda: encoder(batch)["pooled_output"])()
    compiled = tf.function(lambda: encoder(batch)["pooled_output"], jit_compile=True)
    yield "compiled", compiled()


def test_updates_begin_at_zero_and_alone_are_trained():
    encoder = _encoder()
    before = encoder(user_models.batch())["sequence_output"]
    encoder.enable_lora(2)
    np.testing.assert_array_equal(encoder(user_models.batch())["sequence_output"], before)
    assert len(encoder.trainable_variables) == 2 * 2 * CONFIG.num_hidden_layers
    assert all(map(_is_low_rank, encoder.trainable_variables))
    assert {tuple(v.shape) for v in encoder.trainable_variables} == {(16, 2), (2, 48), (2, 16)}


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.more)])
def test_training_changes_the_updates_alone(jit_compile):
    model, encoder = _small_classifier()
    encoder.enable_lora(2, layers="qkv|intermediate")
    before = _values(encoder)
    losses = _fit(model, 8, jit_compile=jit_compile)
    assert losses[-1] < losses[0]
    after = _values(encoder)
    changed = {path for path in before if (before[path] != after[path]).any()}
    assert changed == {v.path for v in encoder.variables if _is_low_rank(v)}
    assert {path.split("/")[-2] for path in changed} == {"qkv", "intermediate"}


@pytest.mark.more_cases
def test_each_way_to_compute_has_the_updates():
    plain, adapted = _encoder(), _encoder()
    adapted.enable_lora(3, alpha=2, layers="")
    without = plain(user_models.batch())["pooled_output"]
    user_models.randomize(adapted, 5)
    merged = BertEncoder(CONFIG, name="encoder")
    for variable in merged.variables:
        variable.assign(adapted.arrays()[variable.path])
    wanted = merged(user_models.batch())["pooled_output"]
    assert np.abs(wanted - without).max() > 0.05
    for way, found in _each_way(adapted):
        np.testing.assert_allclose(found, wanted, atol=2e-4, err_msg=way)


def test_merged_kernels_are_those_of_the_formula():
    layer = Dense(6, 4)
    layer.build((None, 6))
    layer.enable_lora(2, lora_alpha=3)
    user_models.randomize(layer)
    product = layer.lora_kernel_a.numpy() @ layer.lora_kernel_b.numpy()
    np.testing.assert_allclose(layer.kernel, layer._kernel.numpy() + 1.5 * product, atol=1e-6)
    x = np.random.default_rng(0).normal(size=(5, 6)).astype("f4")
    np.testing.assert_allclose(layer(x), x @ layer.kernel + layer.bias.numpy(), atol=1e-5)


def test_small_updates_count_in_bfloat16():
    layer = Dense(64, 64, dtype="mixed_bfloat16")
    layer.build((None, 64))
    layer._kernel.assign(np.eye(64))
    layer.enable_lora(1)
    # Beside a one, bfloat16 has nothing below 2^-8.
    layer.lora_kernel_a.assign(np.full((64, 1), 2**-5))
    layer.lora_kernel_b.assign(np.full((1, 64), 2**-5))
    x = tf.cast(tf.ones([1, 64]) / 8, tf.bfloat16)
    np.testing.assert_allclose(tf.cast(layer(x), tf.float32), 1 / 8 + 64 / 8 * 2**-10, rtol=0.01)


def test_what_is_saved_is_merged_and_can_be_trained_on(tmp_path):
    model, encoder = _small_classifier()
    encoder.enable_lora(2)
    _fit(model, 3)
    model.save(f"{tmp_path}/model.keras")
    loaded = keras.saving.load_model(f"{tmp_path}/model.keras")
    np.testing.assert_allclose(loaded(user_models.batch()), model(user_models.batch()), atol=1e-5)
    inner = loaded.get_layer("encoder")
    assert all(map(_is_low_rank, inner.trainable_variables))
    qkv = inner.blocks[0].attention.qkv
    np.testing.assert_allclose(qkv._kernel, encoder.blocks[0].attention.qkv.kernel, atol=1e-6)
    assert not qkv.lora_kernel_b.numpy().any()
    assert loaded.optimizer.iterations == 3
    losses = _fit(loaded, 5)
    assert qkv.lora_kernel_b.numpy().all()
    assert losses[-1] < losses[0]


def test_low_rank_updates_that_cannot_be_are_told():
    encoder = _encoder()
    with pytest.raises(
        InputError, match=r"no linear map has a path that matches 'nothing'; the paths are bloc"
    ):
        encoder.enable_lora(2, layers="nothing")
    for rank in (0, 1.5, True):
        with pytest.raises(InputError, match="rank is .*; it must be a whole number of 1 or more"):
            encoder.enable_lora(rank)
    for alpha in (0, "1", float("nan")):
        with pytest.raises(InputError, match="alpha is .*; it must be a number above 0, or None"):
            encoder.enable_lora(2, alpha=alpha)
    with pytest.raises(InputError, match=r"layers: '\(' is not a regular expression"):
        encoder.enable_lora(2, layers="(")
    encoder.enable_lora(2, layers="block_0/attention/qkv")
    with pytest.raises(InputError, match="block_0/attention/qkv: LoRA is already enabled"):
        encoder.enable_lora(2)


def test_frozen_layers_get_updates_that_are_trained():
    encoder = _encoder()
    encoder.trainable = False
    encoder.enable_lora(1)
    assert len(encoder.trainable_variables) == 8


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_int8_kernels_change_outputs_slightly(dtype):
    encoder = _encoder(dtype=dtype)
    exact = tf.cast(encoder(user_models.batch())["sequence_output"], tf.float32)
    encoder.quantize("int8")
    kernels = [v for v in encoder.variables if v.name == "kernel"]
    assert len(kernels) == 4 * CONFIG.num_hidden_layers + 1
    assert {v.dtype for v in kernels} == {"int8"}
    found = tf.cast(encoder(user_models.batch())["sequence_output"], tf.float32)
    assert encoder(user_models.batch())["sequence_output"].dtype == encoder.compute_dtype
    error = np.abs(found - exact)
    assert 0 < error.mean() < 0.02
    assert error.max() < 0.15


@pytest.mark.more
def test_each_way_to_compute_has_the_int8_kernels():
    encoder = _encoder()
    encoder.quantize("int8")
    wanted = encoder(user_models.batch())["pooled_output"]
    for way, found in _each_way(encoder):
        np.testing.assert_allclose(found, wanted, atol=2e-2, err_msg=way)
    for part in encoder.blocks:
        part.feed_forward.output_dense._kernel.assign(
            -part.feed_forward.output_dense._kernel.numpy()
        )
    other = encoder(user_models.batch())["pooled_output"]
    assert np.abs(other - wanted).max() > 0.1
    for way, found in _each_way(encoder):
        np.testing.assert_allclose(found, other, atol=2e-2, err_msg=way)


def test_int8_products_are_those_of_keras():
    ours, keras_layer = Dense(16, 8), keras.layers.Dense(8)
    for layer in (ours, keras_layer):
        layer.build((None, 16))
    user_models.randomize(ours)
    keras_layer.set_weights(ours.get_weights())
    x = tf.random.stateless_normal([5, 16], [1, 2])
    for rank in (None, 2):
        if rank:
            for layer in (ours, keras_layer):
                layer.enable_lora(rank, lora_alpha=5)
                layer.lora_kernel_a.assign(np.full((16, 2), 0.2))
                layer.lora_kernel_b.assign(np.full((2, 8), 0.3))
        else:
            for layer in (ours, keras_layer):
                layer.quantize("int8")
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            found, wanted = ours(x), keras_layer(x)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        np.testing.assert_allclose(tape.gradient(found, x), tape.gradient(wanted, x), atol=1e-5)


@pytest.mark.more
def test_int8_models_are_trained_by_low_rank_updates(tmp_path):
    model, encoder = _small_classifier()
    encoder.quantize("int8")
    encoder.enable_lora(2)
    assert all(map(_is_low_rank, encoder.trainable_variables))
    losses = _fit(model, 8)
    assert losses[-1] < losses[0]
    model.save(f"{tmp_path}/model.keras")
    loaded = keras.saving.load_model(f"{tmp_path}/model.keras")
    assert loaded.get_layer("encoder").blocks[0].attention.qkv.quantized
    # What was merged is rounded to int8 again.
    np.testing.assert_allclose(loaded(user_models.batch()), model(user_models.batch()), atol=0.1)


def test_quantization_is_filtered_and_configured(tmp_path):
    model = user_models.classifier(_encoder())
    config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    model.quantize(config=config, filters="qkv")
    encoder = model.get_layer("encoder")
    kinds = {v.path.split("/")[-2]: v.dtype for v in encoder.variables if v.name == "kernel"}
    assert kinds == {
        "qkv": "int8", "output": "float32", "intermediate": "float32", "pooler": "float32"
    }  # fmt: skip
    assert encoder.blocks[0].attention.qkv.inputs_quantizer is None
    model.save(f"{tmp_path}/model.keras")
    loaded = keras.saving.load_model(f"{tmp_path}/model.keras")
    np.testing.assert_array_equal(loaded(user_models.batch()), model(user_models.batch()))


def test_encoders_are_made_with_int8_kernels():
    encoder = BertEncoder(CONFIG, dtype="int8_from_mixed_bfloat16")
    assert encoder.blocks[0].attention.qkv._kernel.dtype == "int8"
    outputs = encoder(user_models.batch())
    assert outputs["sequence_output"].dtype == tf.bfloat16
    again = BertEncoder.from_config(encoder.get_config())
    again.set_weights(encoder.get_weights())
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_array_equal(again(user_models.batch())[name], outputs[name])


def test_a_layer_of_layers_is_quantized_and_kept():
    block = TransformerBlock(CONFIG)
    block.build((None, 16))
    user_models.randomize(block)
    block.quantize("int8")
    block.attention.qkv.enable_lora(2)
    again = TransformerBlock.from_config(block.get_config())
    again.set_weights(block.get_weights())
    x, mask = tf.random.stateless_normal([40, 16], [1, 2]), tf.zeros([4, 1, 1, 10])
    for found, wanted in zip(again(x, mask), block(x, mask), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_other_kinds_of_quantization_are_told():
    with pytest.raises(InputError, match="cannot be quantized to 'int4'; use 'int8'"):
        _encoder().quantize("int4")


def test_heads_and_objectives_are_adapted_too():
    batch = make_batch()
    tasks = TaskModel(CONFIG, [HeadShape("mrpc", 2), HeadShape("ner", 3, True)])
    for model in (
        user_models.randomize(tasks),
        user_models.randomize(MaskedLMNextSentence(CONFIG)),
    ):
        exact = model(batch)
        model.quantize("int8")
        for name, value in model(batch).items():
            error = np.abs(value - exact[name])
            assert 0 < error.mean() < 0.05, name
        model.encoder.enable_lora(2)
        again = type(model).from_config(model.get_config())
        again.set_weights(model.get_weights())
        for name, value in model(batch).items():
            np.testing.assert_array_equal(again(batch)[name], value)


def test_arguments_without_effect_are_told():
    with pytest.raises(TypeError, match="Dense takes no activation, seed"):
        Dense(4, 4, seed=1, activation="relu")
