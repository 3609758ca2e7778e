"""LSTM layers: Keras's answers, padding that changes nothing, projections, gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.layers import BiLstm, Lstm
from tests.bert_tf.helpers import slope_at

_BATCH, _LENGTH, _INPUTS, _CELLS = 3, 7, 5, 4
_LENGTHS = (7, 3, 1)


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal([_BATCH, _LENGTH, _INPUTS]).astype(np.float32)


@pytest.fixture
def mask():
    return (np.arange(_LENGTH) < np.array(_LENGTHS)[:, None]).astype(np.int32)


def _made(**kwargs):
    layer = Lstm(_INPUTS, _CELLS, **kwargs)
    layer.build()
    rng = np.random.default_rng(1)
    for variable in layer.variables:
        variable.assign(rng.standard_normal(variable.shape) * 0.5)
    return layer


def _keras_twin(layer):
    """Keras's LSTM with the same weights; its gates are in the same order."""
    twin = keras.layers.LSTM(
        _CELLS, return_sequences=True, return_state=True, go_backwards=layer.reverse
    )
    twin.build((None, None, _INPUTS))
    kernel, bias = layer.kernel.numpy(), layer.bias.numpy().copy()
    bias[2 * _CELLS : 3 * _CELLS] += 1  # the constant of the forget gate
    # Keras: input, forget, candidate, output.
    order = np.concatenate([np.arange(_CELLS) + i * _CELLS for i in (0, 2, 1, 3)])
    twin.set_weights([kernel[:_INPUTS, order], kernel[_INPUTS:, order], bias[order]])
    return twin


@pytest.mark.parametrize("reverse", [False, True])
def test_same_as_keras(x, mask, reverse):
    layer = _made(reverse=reverse)
    outputs, state = layer.run(tf.constant(x), tf.constant(mask))
    for row, length in enumerate(_LENGTHS):
        alone = tf.constant(x[row : row + 1, :length])
        expected, last, cell = _keras_twin(layer)(alone)
        expected = expected[:, ::-1] if reverse else expected
        np.testing.assert_allclose(outputs[row, :length], expected[0], atol=1e-6)
        np.testing.assert_allclose(state.output[row], last[0], atol=1e-6)
        np.testing.assert_allclose(state.cell[row], cell[0], atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_padding_on_either_side_changes_nothing(x, reverse):
    layer = _made(reverse=reverse)
    alone = layer(tf.constant(x), tf.ones([_BATCH, _LENGTH], tf.int32))
    around = tf.pad(tf.constant(x), [[0, 0], [2, 3], [0, 0]], constant_values=9.0)
    mask = tf.pad(tf.ones([_BATCH, _LENGTH], tf.int32), [[0, 0], [2, 3]])
    # Products of other shapes may be summed in another order, depending on the processor.
    np.testing.assert_allclose(layer(around, mask)[:, 2:-3], alone, atol=1e-6)


def test_projection_and_clips(x):
    """The cell of each step, written out."""
    layer = _made(projection=3, cell_clip=0.3, projection_clip=0.2)
    ones = tf.ones([_BATCH, _LENGTH], tf.int32)
    found = layer(tf.constant(x), ones).numpy()
    kernel, bias = layer.kernel.numpy(), layer.bias.numpy()

    def sigmoid(values):
        return 1 / (1 + np.exp(-values))

    output, cell = np.zeros([_BATCH, 3]), np.zeros([_BATCH, _CELLS])
    for at in range(_LENGTH):
        i, j, f, o = np.split(np.concatenate([x[:, at], output], 1) @ kernel + bias, 4, 1)
        cell = np.clip(sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(j), -0.3, 0.3)
        output = (sigmoid(o) * np.tanh(cell)) @ layer.projection_kernel.numpy()
        output = np.clip(output, -0.2, 0.2)
        np.testing.assert_allclose(found[:, at], output, atol=1e-5)


def test_gradients_are_those_of_differences(x, mask):
    layer = BiLstm(_INPUTS, _CELLS, depth=2)
    layer.build()
    weights = np.random.default_rng(2).standard_normal([_BATCH, _LENGTH, 2 * _CELLS])

    def loss(values):
        found = layer(tf.convert_to_tensor(values), tf.constant(mask))
        there = tf.cast(mask, tf.float32)[..., None]
        return tf.reduce_sum(found * tf.cast(weights, tf.float32) * there)

    with tf.GradientTape() as tape:
        value = tf.function(loss)(x)
    gradients = tape.gradient(value, [v.value for v in layer.trainable_variables])
    for variable, gradient in zip(layer.trainable_variables, gradients, strict=True):
        where = np.unravel_index(np.abs(gradient).argmax(), variable.shape)
        slope = slope_at(lambda: loss(x), variable, where, 1e-2)
        np.testing.assert_allclose(gradient[where], slope, rtol=2e-2)


def test_both_directions_see_all(x, mask):
    """The outputs at a token depend on tokens on both sides; the ends are where readers stop."""
    layer = BiLstm(_INPUTS, _CELLS)
    layer.build()
    before, ends = layer.run(tf.constant(x), tf.constant(mask))
    np.testing.assert_array_equal(ends[1, :_CELLS], before[1, 2, :_CELLS])
    np.testing.assert_array_equal(ends[1, _CELLS:], before[1, 0, _CELLS:])
    changed = x.copy()
    changed[0, 3] += 1
    after = layer(tf.constant(changed), tf.constant(mask))
    moved = np.abs(after - before)[0].max(-1)
    assert (moved > 0).all()
    forward = np.abs(after - before)[0, :, :_CELLS].max(-1)
    assert (forward[:3] == 0).all() and (forward[3:] > 0).all()


def test_saved_by_keras():
    layer = BiLstm(_INPUTS, _CELLS, depth=2, rate=0.1, name="bilstm")
    twin = BiLstm.from_config(layer.get_config())
    assert twin.shapes() == layer.shapes() and twin.rate == layer.rate
    twin = Lstm.from_config(_made(projection=3, cell_clip=1.0, reverse=True).get_config())
    assert (twin.projection, twin.cell_clip, twin.reverse) == (3, 1.0, True)
