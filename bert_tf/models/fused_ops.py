"""The element-wise parts of the models, each fused into one pass forward and one backward.

Inputs and outputs have the compute dtype (float32 or bfloat16); all arithmetic is float32. Backward
passes recompute what is cheap, including dropout masks, so that no float32 intermediate and no mask
is kept.

On a CPU, XLA compiles each pass separately (`compile_fused`), while matrix products stay with
oneDNN, which is faster. On other devices the whole step is compiled (`compile_whole`), and these
passes are ordinary parts of it.

For inference on a server (`inference`) each function uses plain ops instead, in the patterns that
TensorFlow's graph optimizer fuses on a CPU: a matrix product with its bias, with gelu or with the
residual becomes one kernel, and so do attention scores with scale and mask. There is no dropout.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from bert_tf.models import activations

_compile = contextvars.ContextVar("compile_fused", default=False)
_whole = contextvars.ContextVar("compile_whole", default=False)
_inference = contextvars.ContextVar("inference", default=False)


@contextlib.contextmanager
def switched(switch: contextvars.ContextVar, value: Any) -> Iterator[None]:
    """A context in which a context variable has a value."""
    token = switch.set(value)
    try:
        yield
    finally:
        switch.reset(token)


def compile_fused(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """A context in which XLA compiles each traced function of this module separately."""
    return switched(_compile, enabled)


def compile_whole(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """A context in which traced code is part of one XLA program: shapes must not depend on data."""
    return switched(_whole, enabled)


def is_compiled_whole() -> bool:
    """Whether the current code is traced within `compile_whole`."""
    return _whole.get()


def is_for_gpu() -> bool:
    """Whether the current code is traced as part of an XLA program for a GPU."""
    return is_compiled_whole() and bool(tf.config.list_logical_devices("GPU"))


def inference(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """A context in which code is traced for inference on a server, without dropout."""
    return switched(_inference, enabled)


def _run(function: Callable[..., tuple[tf.Tensor, ...]], settings: tuple, *tensors: tf.Tensor):
    """Calls function(*settings, *tensors), compiled within `compile_fused`."""
    if _compile.get():
        return _compiled(function, settings)(*tensors)
    return function(*settings, *tensors)


@functools.cache
def _compiled(function: Callable, settings: tuple) -> Callable:
    """One compiled function for all layers with the same settings; XLA compiles each shape once."""

    def apply(*tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return function(*settings, *tensors)

    apply.__name__ = function.__name__  # shown in graphs and profiles
    return tf.function(apply, jit_compile=True, autograph=False)


def bias_activation(x: tf.Tensor, bias: tf.Tensor, activation: str) -> tf.Tensor:
    """Returns activation(x + bias).

    Args:
      x: [rows, width], compute dtype.
      bias: float32 [width].
      activation: A name in `config.ACTIVATIONS`.
    """
    if _inference.get():
        return activations.function(activation)(tf.nn.bias_add(x, tf.cast(bias, x.dtype)))
    settings = (activation,)

    @tf.custom_gradient
    def apply(x, bias):
        def gradient(upstream):
            return _run(_activation_backward, settings, x, bias, upstream)

        return _run(_activation_forward, settings, x, bias), gradient

    return apply(x, bias)


def _activation_forward(activation, x, bias):
    function = activations.function(activation)
    return tf.cast(function(tf.cast(x, tf.float32) + bias), x.dtype)


def _activation_backward(activation, x, bias, upstream):
    slope = activations.slope(activation)
    (x,) = _barrier(x)
    inner = slope(tf.cast(x, tf.float32) + bias) * tf.cast(upstream, tf.float32)
    inner = _rounded(inner, x.dtype)
    return tf.cast(inner, x.dtype), tf.reduce_sum(tf.cast(inner, tf.float32), 0)


def masked_softmax(
    scores: tf.Tensor, bias: tf.Tensor, scale: float, rate: float, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns softmax(scale * scores + bias) over the last axis, without and with dropout.

    Only the second result has a gradient.

    Args:
      scores: [batch, heads, from, to], compute dtype.
      bias: float32, broadcast to the scores; a large negative value masks a position.
      scale: 1 / sqrt(size of a head).
      rate: Dropout rate.
      seed: int32 scalar for dropout.
    """
    if _inference.get():
        scaled = scores * tf.cast(scale, scores.dtype)
        probabilities = tf.nn.softmax(scaled + tf.cast(bias, scores.dtype))
        return probabilities, probabilities
    settings = (scale, rate)

    @tf.custom_gradient
    def apply(scores):
        probabilities, kept = _run(_softmax_forward, settings, scores, bias, seed)

        def gradient(_, upstream):
            return _run(_softmax_backward, settings, probabilities, seed, upstream)

        return (probabilities, kept), gradient

    return apply(scores)


def _softmax_forward(scale, rate, scores, bias, seed):
    probabilities = tf.nn.softmax(scale * tf.cast(scores, tf.float32) + bias)
    kept = probabilities * _keep_of(scores, rate, seed)
    return tf.cast(probabilities, scores.dtype), tf.cast(kept, scores.dtype)


def _softmax_backward(scale, rate, probabilities, seed, upstream):
    p = tf.cast(probabilities, tf.float32)
    inner = tf.cast(upstream, tf.float32) * _keep_of(upstream, rate, seed)
    inner = scale * p * (inner - tf.reduce_sum(inner * p, -1, keepdims=True))
    return tf.cast(inner, probabilities.dtype)


def residual_norm(
    x: tf.Tensor,
    bias: tf.Tensor,
    residual: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    epsilon: float,
    rate: float,
    seed: tf.Tensor,
) -> tf.Tensor:
    """Returns LayerNorm(residual + dropout(x + bias)).

    Args:
      x: [rows, width], compute dtype.
      bias: float32 [width].
      residual: [rows, width], compute dtype.
      gamma: float32 [width], scale.
      beta: float32 [width], offset.
      epsilon: Added to the variance.
      rate: Dropout rate of x.
      seed: int32 scalar for dropout.
    """
    if _inference.get():
        with_bias = tf.nn.bias_add(x, tf.cast(bias, x.dtype))
        return _plain_norm(with_bias + residual, gamma, beta, epsilon)
    settings = (epsilon, rate)

    @tf.custom_gradient
    def apply(x, bias, residual, gamma, beta):
        result = _run(_residual_forward, settings, x, bias, residual, gamma, beta, seed)

        def gradient(upstream):
            return _run(_residual_backward, settings, x, bias, residual, gamma, seed, upstream)

        return result, gradient

    return apply(x, bias, residual, gamma, beta)


def _residual_forward(epsilon, rate, x, bias, residual, gamma, beta, seed):
    total = _residual_sum(x, bias, residual, _keep_of(x, rate, seed))
    standard, _ = _standardize(total, epsilon)
    return tf.cast(_rounded(standard * gamma + beta, x.dtype), x.dtype)


def _residual_backward(epsilon, rate, x, bias, residual, gamma, seed, upstream):
    x, residual = _barrier(x, residual)
    keep = _keep_of(upstream, rate, seed)
    total = _residual_sum(x, bias, residual, keep)
    standard, inverse = _standardize(total, epsilon, backward=True)
    upstream = tf.cast(upstream, tf.float32)
    inner = _standardize_gradient(standard, inverse, upstream * gamma)
    inner = _rounded(inner, x.dtype)
    into_x = tf.cast(inner, tf.float32) * keep
    return (
        tf.cast(into_x, x.dtype),
        tf.reduce_sum(into_x, 0),
        tf.cast(inner, x.dtype),
        tf.reduce_sum(upstream * standard, 0),
        tf.reduce_sum(upstream, 0),
    )


def _residual_sum(x, bias, residual, keep):
    return (tf.cast(x, tf.float32) + bias) * keep + tf.cast(residual, tf.float32)


def norm_dropout(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float, rate: float, seed: tf.Tensor
) -> tf.Tensor:
    """Returns dropout(LayerNorm(x)) of [rows, width]; arguments as for `residual_norm`."""
    if _inference.get():
        return _plain_norm(x, gamma, beta, epsilon)
    settings = (epsilon, rate)

    @tf.custom_gradient
    def apply(x, gamma, beta):
        def gradient(upstream):
            return _run(_norm_backward, settings, x, gamma, seed, upstream)

        return _run(_norm_forward, settings, x, gamma, beta, seed), gradient

    return apply(x, gamma, beta)


def _norm_forward(epsilon, rate, x, gamma, beta, seed):
    standard, _ = _standardize(tf.cast(x, tf.float32), epsilon)
    return tf.cast((standard * gamma + beta) * _keep_of(x, rate, seed), x.dtype)


def _norm_backward(epsilon, rate, x, gamma, seed, upstream):
    (x,) = _barrier(x)
    standard, inverse = _standardize(tf.cast(x, tf.float32), epsilon, backward=True)
    upstream = tf.cast(upstream, tf.float32) * _keep_of(upstream, rate, seed)
    inner = _standardize_gradient(standard, inverse, upstream * gamma)
    into_gamma = tf.reduce_sum(upstream * standard, 0)
    return tf.cast(inner, x.dtype), into_gamma, tf.reduce_sum(upstream, 0)


def softmax_cross_entropy(
    logits: tf.Tensor, bias: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns -log softmax(logits + bias) of the labels, and 1 where no class has more, else 0.

    Both are float32 [rows]; only the first result has a gradient.

    Args:
      logits: [rows, classes], compute dtype, without the bias.
      bias: float32 [classes].
      labels: int32 [rows].
    """

    @tf.custom_gradient
    def apply(logits, bias):
        loss, is_best, norm = _run(_entropy_forward, (), logits, bias, labels)

        def gradient(upstream, _):
            return _run(_entropy_backward, (), logits, bias, labels, norm, upstream)

        return (loss, is_best), gradient

    return apply(logits, bias)


def _entropy_forward(logits, bias, labels):
    total = tf.cast(logits, tf.float32) + bias
    norm, own = tf.reduce_logsumexp(total, -1), tf.gather(total, labels, batch_dims=1)
    # `norm` needs this maximum, too, whereas an argmax would take longer than all the rest.
    return norm - own, tf.cast(own >= tf.reduce_max(total, -1), tf.float32), norm


def _entropy_backward(logits, bias, labels, norm, upstream):
    total = tf.cast(logits, tf.float32) + bias
    inner = tf.exp(total - norm[:, tf.newaxis]) * upstream[:, tf.newaxis]
    own = tf.gather(total, labels, batch_dims=1)
    own = (tf.exp(own - norm) - 1.0) * upstream
    # On a CPU this takes half as long as the subtraction of a one-hot matrix and a sum of `inner`
    # before its rounding, for which XLA computes all of it again.
    rows = tf.range(tf.shape(labels)[0], dtype=labels.dtype)
    inner, own = tf.cast(inner, logits.dtype), tf.cast(own, logits.dtype)
    inner = tf.tensor_scatter_nd_update(inner, tf.stack([rows, labels], 1), own)
    return inner, tf.reduce_sum(tf.cast(inner, tf.float32), 0)


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Applies dropout to x, with an int32 scalar seed; None: no dropout."""
    if seed is None:
        return x
    return tf.cast(tf.cast(x, tf.float32) * _keep_of(x, rate, seed), x.dtype)


def _plain_norm(x, gamma, beta, epsilon):
    """LayerNorm(x) of [rows, width] in plain ops, computed in float32."""
    standard, _ = _standardize(tf.cast(x, tf.float32), epsilon)
    return tf.cast(standard * tf.cast(gamma, tf.float32) + tf.cast(beta, tf.float32), x.dtype)


def _standardize(x, epsilon, backward=False):
    """In a backward pass for a GPU, only the statistics of rows are in memory."""
    centred = x - (mean := tf.reduce_mean(x, -1, keepdims=True))
    inverse = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), -1, keepdims=True) + epsilon)
    if backward and is_for_gpu():
        mean, inverse = _barrier(mean, inverse)
        centred = x - mean
    return centred * inverse, inverse


def _standardize_gradient(standard, inverse, upstream):
    mean = tf.reduce_mean(upstream, -1, keepdims=True)
    along = tf.reduce_mean(upstream * standard, -1, keepdims=True)
    return inverse * (upstream - mean - standard * along)


def _keep_of(x: tf.Tensor, rate: float, seed: tf.Tensor) -> tf.Tensor | float:
    """The dropout factors of the elements of x, drawn after x has been computed.

    As they depend on the shape and the seed only, a graph would otherwise draw those of all layers
    first, and keep them for the backward pass.
    """
    if rate == 0:
        return 1.0
    if is_compiled_whole():
        seed += tf.cast(zero_of(x), seed.dtype)
    else:
        with tf.control_dependencies([tf.identity(x)]):
            seed = tf.identity(seed)
    return _keep(tf.shape(x), rate, seed)


def _barrier(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """Returns the tensors; on a GPU, behind an optimization barrier.

    Without it, XLA stores float32 values for the backward pass instead of computing them again.
    """
    return gen_xla_ops.xla_optimization_barrier(input=tensors) if is_for_gpu() else list(tensors)


def _rounded(x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Rounds x to `dtype` on a GPU, so that only the rounded tensor is stored; else returns x."""
    return _barrier(tf.cast(x, dtype))[0] if is_for_gpu() else x


def zero_of(x: tf.Tensor) -> tf.Tensor:
    """A float32 scalar 0 that depends on x as far as XLA knows: what it is added to follows x.

    XLA ignores control dependencies; on a CPU it removes optimization barriers, too.
    """
    return tf.zeros([], tf.float32) * tf.cast(tf.reshape(x, [-1])[0], tf.float32)


def _keep(shape: tf.Tensor, rate: float, seed: tf.Tensor) -> tf.Tensor:
    """The dropout factors: 0 with probability `rate` (to 2^-16), else 1 / (1 - rate).

    Each element uses 16 bits of a hash of its index and the seed: the finalizer of MurmurHash3, a
    few integer operations, whereas a counter-based generator costs more than the rest of the layer.
    Both halves of a row share the hashes. Each computes them again, because XLA would write hashes
    that are used twice to memory, which takes longer.
    """
    half = (shape[-1] + 1) // 2
    column = tf.range(shape[-1])
    second = column >= half
    row = tf.reshape(tf.range(tf.reduce_prod(shape[:-1])), tf.concat([shape[:-1], [1]], 0))
    index = row * half + tf.where(second, column - half, column)
    bits = _mix(tf.bitcast(index, tf.uint32) + _mix(tf.bitcast(seed, tf.uint32)))
    shift = tf.where(second, tf.constant(16, tf.uint32), tf.constant(0, tf.uint32))
    values = tf.bitwise.right_shift(bits, shift)
    values = tf.bitwise.bitwise_and(values, tf.constant(0xFFFF, tf.uint32))
    threshold = tf.constant(round(rate * 65536), tf.uint32)
    return tf.where(values >= threshold, 1.0 / (1.0 - rate), 0.0)


def _mix(x: tf.Tensor) -> tf.Tensor:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint32)))
        x = x * tf.constant(factor, tf.uint32)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(16, tf.uint32)))
