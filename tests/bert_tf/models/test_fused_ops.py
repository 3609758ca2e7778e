"""The fused operations: values and gradients against TensorFlow's own."""

import re

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import fused_ops

SEED = tf.constant(7)


def normal(*shape, seed=0):
    return tf.random.stateless_normal(shape, [seed, len(shape)])


def value_and_gradients(function, inputs, upstream):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = function(*inputs)
    return value, tape.gradient(value, inputs, upstream)


def compare(ours, plain, inputs, compiled):
    """Compares values and gradients (with a random upstream) of two functions."""
    upstream = normal(*plain(*inputs).shape, seed=9)

    @tf.function(jit_compile=True, autograph=False)
    def whole(*inputs):
        with fused_ops.compile_whole():
            return value_and_gradients(ours, inputs, upstream)

    if compiled == "for a GPU":
        value, gradients = whole(*inputs)
    else:
        with fused_ops.compile_fused(compiled == "fused"):
            value, gradients = value_and_gradients(ours, inputs, upstream)
    expected, wanted = value_and_gradients(plain, inputs, upstream)
    np.testing.assert_allclose(value, expected, atol=2e-5, rtol=1e-4)
    for ours_, theirs in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(ours_, theirs, atol=5e-5, rtol=1e-3)


@pytest.fixture(params=["plain", "fused", "for a GPU"])
def compiled(request, monkeypatch):
    """How functions are compiled; a program for a GPU runs on a CPU, too."""
    if request.param == "for a GPU":
        monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: ["GPU:0"])
    return request.param


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "gelu_erf", "relu", "tanh"])
def test_bias_activation(name, compiled):
    plain = {
        "gelu": lambda x: tf.nn.gelu(x, approximate=True),
        "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
        "gelu_erf": lambda x: tf.nn.gelu(x, approximate=False),
        "relu": tf.nn.relu,
        "tanh": tf.tanh,
    }[name]
    compare(
        lambda x, b: fused_ops.bias_activation(x, b, name),
        lambda x, b: plain(x + b),
        [3 * normal(6, 8), normal(8, seed=1)],
        compiled,
    )


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_masked_softmax(rate, compiled):
    bias = tf.constant([0.0, 0.0, -1e9, 0.0, 0.0])[tf.newaxis, tf.newaxis, tf.newaxis]

    def plain(scores):
        p = tf.nn.softmax(0.5 * scores + bias)
        return p * fused_ops._keep(tf.shape(p), rate, SEED)

    compare(
        lambda scores: fused_ops.masked_softmax(scores, bias, 0.5, rate, SEED)[1],
        plain,
        [normal(2, 3, 5, 5)],
        compiled,
    )


def _layer_norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-12) * gamma + beta


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_residual_norm(rate, compiled):
    def plain(x, bias, residual, gamma, beta):
        kept = (x + bias) * fused_ops._keep(tf.shape(x), rate, SEED)
        return _layer_norm(residual + kept, gamma, beta)

    compare(
        lambda *values: fused_ops.residual_norm(*values, 1e-12, rate, SEED),
        plain,
        [normal(5, 8), normal(8), normal(5, 8, seed=2), normal(8, seed=3), normal(8, seed=4)],
        compiled,
    )


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_norm_dropout(rate, compiled):
    compare(
        lambda x, g, b: fused_ops.norm_dropout(x, g, b, 1e-12, rate, SEED),
        lambda x, g, b: _layer_norm(x, g, b) * fused_ops._keep(tf.shape(x), rate, SEED),
        [normal(5, 7), normal(7, seed=3), normal(7, seed=4)],
        compiled,
    )


def test_softmax_cross_entropy(compiled):
    labels = tf.constant([0, 3, 8, 2], tf.int32)
    compare(
        lambda logits, bias: fused_ops.softmax_cross_entropy(logits, bias, labels)[0],
        lambda logits, bias: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits + bias),
        [3 * normal(4, 9), normal(9, seed=1)],
        compiled,
    )


def test_softmax_cross_entropy_says_which_labels_are_the_best_guess(compiled):
    logits, bias = 3 * normal(200, 9), normal(9, seed=1)
    labels = tf.random.stateless_uniform([200], [5, 5], maxval=9, dtype=tf.int32)
    with fused_ops.compile_fused(compiled == "fused"):
        _, is_best = fused_ops.softmax_cross_entropy(logits, bias, labels)
    np.testing.assert_array_equal(is_best, tf.argmax(logits + bias, -1, tf.int32) == labels)


@pytest.mark.parametrize("shape", [(64, 500), (3, 7, 11, 13), (2, 100001)])
def test_dropout_drops_its_share_and_keeps_the_mean(shape):
    keep = fused_ops._keep(tf.constant(shape), 0.1, SEED).numpy()
    size = keep.size
    assert (keep == 0).mean() == pytest.approx(0.1, abs=5 * (0.09 / size) ** 0.5)
    assert set(np.unique(keep)) <= {np.float32(0), np.float32(1 / 0.9)}


def test_dropped_elements_are_independent_of_neighbours_and_seeds():
    shape = tf.constant([1000, 1000])
    a = fused_ops._keep(shape, 0.5, tf.constant(1)).numpy() > 0
    b = fused_ops._keep(shape, 0.5, tf.constant(2)).numpy() > 0
    bound = 5 / 1000  # five deviations of a mean of a million signs
    for x, y in ((a, b), (a[:, 1:], a[:, :-1]), (a[1:], a[:-1]), (a[:, :500], a[:, 500:])):
        assert abs(np.mean(x == y) - 0.5) < bound
    assert abs(a.mean(0) - 0.5).max() < 0.1
    assert abs(a.mean(1) - 0.5).max() < 0.1


def test_bfloat16_results_are_rounded_float32_results():
    x = tf.cast(normal(4, 16), tf.bfloat16)
    bias = normal(16)
    exact = fused_ops.bias_activation(tf.cast(x, tf.float32), bias, "gelu")
    assert (fused_ops.bias_activation(x, bias, "gelu") == tf.cast(exact, tf.bfloat16)).numpy().all()


def test_a_program_for_a_gpu_keeps_no_float32_values_for_the_backward_pass(monkeypatch):
    """Barriers hide the forward pass: nothing but the inputs, in 16 bits, comes from it."""
    x, bias = tf.cast(normal(6, 8), tf.bfloat16), normal(8, seed=1)
    upstream = tf.ones_like(x)

    def gelu(x, bias):
        return fused_ops.bias_activation(x, bias, "gelu")

    def barriers():
        @tf.function(jit_compile=True, autograph=False)
        def program(x, bias):
            with fused_ops.compile_whole():
                return value_and_gradients(gelu, [x, bias], upstream)

        hlo = program.experimental_get_compiler_ir(x, bias)(stage="hlo")
        return re.findall(r"= (\w+\[[\d,]*\])\S* opt-barrier\(", hlo)

    assert barriers() == []
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: ["GPU:0"])
    assert barriers() == ["bf16[6,8]"] * 2  # the input of the slope, and the gradient
