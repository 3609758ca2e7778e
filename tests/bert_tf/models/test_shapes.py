"""Shapes that are told before anything is computed: summaries, symbolic calls, pictures."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import BertEncoder
from bert_tf.models.heads import MaskedLMHead, TaskHead
from bert_tf.models.layers import (
    Dense,
    Embeddings,
    FeedForward,
    LayerNorm,
    NoPooler,
    Pooler,
    ResidualNorm,
    SelfAttention,
    TransformerBlock,
)
from bert_tf.models.layers.attention import attention_bias
from bert_tf.objectives.bidirectional_lm import BidirectionalLM
from bert_tf.objectives.denoising import Denoising
from bert_tf.objectives.registry import OBJECTIVES
from bert_tf.objectives.replaced_token import ReplacedToken
from bert_tf.tasks.model import HeadShape, TaskModel
from pipelines.common.errors import InputError
from tests.bert_tf.helpers import CONFIG, make_batch
from tests.bert_tf.models import elmo_models, user_models
from tests.bert_tf.models.test_encoder import each_option


def _config_for(objective):
    """A small configuration of the family that an objective trains."""
    if objective is BidirectionalLM:
        return dataclasses.replace(elmo_models.CONFIG, vocab_size=CONFIG.vocab_size)
    if objective is ReplacedToken:
        return dataclasses.replace(CONFIG, model_type="electra", generator_size=0.5)
    if objective is Denoising:
        return dataclasses.replace(
            CONFIG, num_hidden_layers=2, num_decoder_layers=1, vocab_transform=False
        )
    return CONFIG


HEADS = [HeadShape("mrpc", 2, False), HeadShape("ner", 9, True)]
MODELS = {
    "encoder": lambda: BertEncoder(CONFIG),
    "tasks": lambda: TaskModel(CONFIG, HEADS),
    "classifier": user_models.classifier,
    "in_a_row": user_models.in_a_row,
    **{name.name: lambda cls=cls: cls(_config_for(cls)) for name, cls in OBJECTIVES.items()},
}


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def _summary(model, **options):
    lines = []
    model.summary(print_fn=lines.append, **options)
    return "\n".join(lines)


@pytest.mark.parametrize("name", MODELS)
def test_summaries_have_all_shapes(name):
    model = MODELS[name]()
    for text in (_summary(model), _summary(model, expand_nested=True, show_trainable=True)):
        assert "?" not in text
        assert "unbuilt" not in text
        assert f"{model.count_params():,}" in text
        assert "(None, " in text


def _shapes(tensors):
    return keras.tree.map_structure(lambda x: tuple(x.shape), tensors)


def _check_symbolic(encoder, length, real):
    """Checks the symbolic outputs for sequences of a length, None for any."""
    found = encoder(user_models.symbolic_inputs(length))
    assert found.keys() == real.keys()

    def check(symbolic, tensor):
        assert symbolic.dtype == tensor.dtype.name
        known = {4: None, 10: length}
        sizes = list(zip(symbolic.shape, map(int, tensor.shape), strict=True))
        if len(sizes) == 5:  # attention in blocks, of which the length decides all but the heads
            assert all(a == b or (length is None and i != 2) for i, (a, b) in enumerate(sizes) if i)
        else:
            assert all(a == known.get(b, b) for a, b in sizes)

    keras.tree.map_structure(check, dict(found), dict(real))
    assert {x.dtype for x in keras.tree.flatten(found)} == {"bfloat16", "int32"}
    assert found["input_mask"].dtype == "int32"
    told = encoder.compute_output_shape((None, length))
    assert keras.tree.flatten(_shapes(found)) == keras.tree.flatten(told)


@each_option
def test_symbolic_outputs_of_the_encoder_are_those_that_come(options):
    encoder = BertEncoder(dataclasses.replace(CONFIG, **options), dtype="mixed_bfloat16")
    real = encoder(user_models.batch())
    for length in (None, 10):
        _check_symbolic(encoder, length, real)
    assert encoder(user_models.symbolic_inputs(), dtype="float32")["pooled_output"].dtype == (
        "float32"
    )


def test_shapes_are_told_for_inputs_in_all_forms():
    encoder = BertEncoder(CONFIG)
    names = user_models.batch()
    for shape in ((4, 10), dict.fromkeys(names, (4, 10)), [(4, 10)] * 3, ((4, 10),) * 3, [4, 10]):
        told = encoder.compute_output_shape(shape)
        real = encoder(names)
        for name, value in real.items():
            assert keras.tree.flatten(told[name]) == keras.tree.flatten(_shapes(value)), name


X, BIAS, MASK = (40, 16), (16,), (4, 1, 1, 10)
OUTPUTS = {"sequence_output": (4, 10, 16), "pooled_output": (4, 16)}
LAYERS = {
    "dense": (lambda: Dense(16, 8), [X]),
    "norm": (lambda: LayerNorm(16), [X]),
    "residual_norm": (lambda: ResidualNorm(16), [X, BIAS, X]),
    "feed_forward": (lambda: FeedForward(CONFIG), [X]),
    "attention": (lambda: SelfAttention(CONFIG), [X, MASK]),
    "block": (lambda: TransformerBlock(CONFIG), [X, MASK]),
    "pooler": (lambda: Pooler(16), [(4, 16)]),
    "no_pooler": (lambda: NoPooler(16), [(4, 16)]),
    "masked_lm": (lambda: MaskedLMHead(CONFIG), [X, (50, 16)]),
    "head": (lambda: TaskHead(16, 3), [OUTPUTS]),
    "token_head": (lambda: TaskHead(16, 3, True), [OUTPUTS]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_symbolic_outputs_of_each_layer_are_those_that_come(name, tmp_path):
    make, shapes = LAYERS[name]
    layer = make()
    inputs = keras.tree.map_shape_structure(lambda s: keras.Input(batch_shape=s), shapes)
    found = layer(*inputs)
    arrays = keras.tree.map_structure(
        lambda x: np.random.default_rng(0).normal(size=x.shape).astype("f4"), inputs
    )
    real = layer(*arrays)
    assert _shapes(found) == _shapes(real)
    dtypes = zip(keras.tree.flatten(found), keras.tree.flatten(real), strict=True)
    assert all(symbolic.dtype == tensor.dtype.name for symbolic, tensor in dtypes)
    # And so a functional model can have it, and a file.
    model = keras.Model(inputs, found)
    model.save(f"{tmp_path}/model.keras")
    loaded = keras.saving.load_model(f"{tmp_path}/model.keras")(arrays)
    for value, wanted in zip(*map(keras.tree.flatten, (loaded, real)), strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_embeddings_have_a_row_for_each_token():
    layer = Embeddings(CONFIG)
    assert layer(keras.Input((None,), dtype="int32")).shape == (None, 16)
    assert layer(keras.Input(batch_shape=(4, 10), dtype="int32")).shape == (40, 16)
    ids = user_models.batch()["input_word_ids"]
    np.testing.assert_array_equal(layer(ids), layer(ids, tf.zeros_like(ids)))
    assert layer.compute_output_spec(keras.Input((3,), dtype="int32"), dtype="bfloat16").dtype == (
        "bfloat16"
    )


@pytest.mark.parametrize("name", ["dense", "norm", "feed_forward", "attention", "pooler"])
def test_rows_of_another_width_are_told(name):
    layer = LAYERS[name][0]()
    with pytest.raises(InputError, match=r"takes \[rows, 16\], not \[None, 17\]"):
        layer.compute_output_shape((None, 17))


def test_symbolic_outputs_of_our_models_are_those_that_come():
    batch = make_batch()
    inputs = {
        name: keras.Input(batch_shape=value.shape, dtype=value.dtype.name, name=name)
        for name, value in batch.items()
    }
    for name, make in MODELS.items():
        model = make()
        if name != "in_a_row":
            given = inputs if name != "classifier" else user_models.symbolic_inputs(10)
            found, real = (
                model(given),
                model(batch if name != "classifier" else user_models.batch()),
            )
            for symbolic, tensor in zip(*map(keras.tree.flatten, (found, real)), strict=True):
                assert symbolic.shape[1:] == tensor.shape[1:], name
                assert symbolic.dtype == tensor.dtype.name, name


def test_what_is_drawn_has_the_shapes():
    dot = keras.utils.model_to_dot(user_models.classifier(), show_shapes=True).to_string()
    assert "(None, 2, None, None), (None, None, 16)" in dot
    assert "Input shape: <b>(None, 16)</b>" in dot
    assert "?" not in dot


def test_a_block_is_a_layer_of_any_keras_model():
    x = np.random.default_rng(0).normal(size=(2, 5, CONFIG.hidden_size)).astype(np.float32)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    block = TransformerBlock(CONFIG)
    inputs = keras.Input((None, CONFIG.hidden_size)), keras.Input((None,), dtype="int32")
    masked = keras.Model(inputs, block(inputs[0], mask=inputs[1]))([x, mask])
    rows, _ = block(x.reshape(10, -1), attention_bias(mask, causal=False))
    np.testing.assert_allclose(masked, tf.reshape(rows, x.shape), atol=1e-6)
    # What padding has is not seen, and without a mask there is none.
    alone = keras.Sequential([keras.Input((None, CONFIG.hidden_size)), block])
    np.testing.assert_allclose(alone(x[1:, :2])[0], masked[1, :2], atol=1e-5)
    assert alone.output_shape == (None, None, CONFIG.hidden_size)
    for other in (x[..., 1:], keras.Input((None, CONFIG.hidden_size - 1))):
        with pytest.raises(InputError, match="the input is 15 wide, but hidden_size is 16"):
            block(other)
