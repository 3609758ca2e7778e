"""The element-wise parts of BERT, each fused into one pass forward and one backward.

Inputs and outputs have the compute dtype (float32 or bfloat16); all arithmetic
is float32. Backward passes recompute what is cheap, dropout masks included, so
that no float32 intermediate and no mask is kept.

On a CPU, XLA compiles each pass on its own (`compile_fused`), while matrix
products stay with oneDNN, which is faster at them. On other devices the whole
step is compiled, and these are ordinary parts of it. Graphs for inference
(`inference`) take the forms of `bert_tf.models.inference_ops` instead.
"""

import contextvars
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager

import tensorflow as tf

from bert_tf.models import activations, inference_ops
from bert_tf.models.switches import switched

_compile = contextvars.ContextVar("compile_fused", default=False)
_whole = contextvars.ContextVar("compile_whole", default=False)
_inference = contextvars.ContextVar("inference", default=False)


def compile_fused(enabled: bool = True) -> AbstractContextManager[None]:
    """Within it, functions of this module that are traced are compiled by XLA, one by one."""
    return switched(_compile, enabled)


def compile_whole(enabled: bool = True) -> AbstractContextManager[None]:
    """Within it, what is traced is part of one program of XLA's: shapes do not follow from data."""
    return switched(_whole, enabled)


def is_compiled_whole() -> bool:
    """Whether what is traced is within `compile_whole`."""
    return _whole.get()


def inference(enabled: bool = True) -> AbstractContextManager[None]:
    """Within it, what is traced is for inference on a server: nothing may drop out."""
    return switched(_inference, enabled)


def _run(function: Callable[..., tuple[tf.Tensor, ...]], settings: tuple, *tensors: tf.Tensor):
    """Calls function(*settings, *tensors), compiled within `compile_fused`."""
    if _compile.get():
        return _compiled(function, settings)(*tensors)
    return function(*settings, *tensors)


@functools.cache
def _compiled(function: Callable, settings: tuple) -> Callable:
    """One compiled function for all layers that share its settings: XLA works once a shape."""

    def apply(*tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return function(*settings, *tensors)

    apply.__name__ = function.__name__  # so that graphs and profiles say what it is
    return tf.function(apply, jit_compile=True, autograph=False)


def bias_activation(x: tf.Tensor, bias: tf.Tensor, activation: str) -> tf.Tensor:
    """Returns activation(x + bias).

    Args:
      x: [rows, width], compute dtype.
      bias: float32 [width].
      activation: a name of `config.ACTIVATIONS`.
    """
    if _inference.get():
        return inference_ops.bias_activation(x, bias, activations.function(activation))
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
    inner = slope(tf.cast(x, tf.float32) + bias) * tf.cast(upstream, tf.float32)
    return tf.cast(inner, x.dtype), tf.reduce_sum(inner, 0)


def masked_softmax(
    scores: tf.Tensor, bias: tf.Tensor, scale: float, rate: float, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns softmax(scale * scores + bias) over the last axis, and that after dropout.

    Only the second result has a gradient.

    Args:
      scores: [batch, heads, from, to], compute dtype.
      bias: float32, broadcast to the scores; large and negative where nothing
        may be attended to.
      scale: 1 / sqrt(size of a head).
      rate: share of the probabilities dropped.
      seed: int32 scalar, of the dropout.
    """
    if _inference.get():
        probabilities = inference_ops.masked_softmax(scores, bias, scale)
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
      residual: as x.
      gamma: float32 [width], scale.
      beta: float32 [width], offset.
      epsilon: added to the variance.
      rate: share of x dropped.
      seed: int32 scalar, of the dropout.
    """
    if _inference.get():
        return inference_ops.residual_norm(x, bias, residual, gamma, beta, epsilon)
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
    return tf.cast(standard * gamma + beta, x.dtype)


def _residual_backward(epsilon, rate, x, bias, residual, gamma, seed, upstream):
    keep = _keep_of(upstream, rate, seed)
    total = _residual_sum(x, bias, residual, keep)
    standard, inverse = _standardize(total, epsilon)
    upstream = tf.cast(upstream, tf.float32)
    inner = _standardize_gradient(standard, inverse, upstream * gamma)
    into_x = inner * keep
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
        return inference_ops.norm(x, gamma, beta, epsilon)
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
    standard, inverse = _standardize(tf.cast(x, tf.float32), epsilon)
    upstream = tf.cast(upstream, tf.float32) * _keep_of(upstream, rate, seed)
    inner = _standardize_gradient(standard, inverse, upstream * gamma)
    into_gamma = tf.reduce_sum(upstream * standard, 0)
    return tf.cast(inner, x.dtype), into_gamma, tf.reduce_sum(upstream, 0)


def softmax_cross_entropy(logits: tf.Tensor, bias: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the negative log-likelihood of each label, float32 [rows].

    Args:
      logits: [rows, classes], compute dtype, without their bias.
      bias: float32 [classes].
      labels: int32 [rows].
    """

    @tf.custom_gradient
    def apply(logits, bias):
        loss, norm = _run(_entropy_forward, (), logits, bias, labels)

        def gradient(upstream):
            return _run(_entropy_backward, (), logits, bias, labels, norm, upstream)

        return loss, gradient

    return apply(logits, bias)


def _entropy_forward(logits, bias, labels):
    total = tf.cast(logits, tf.float32) + bias
    norm = tf.reduce_logsumexp(total, -1)
    return norm - tf.gather(total, labels, batch_dims=1), norm


def _entropy_backward(logits, bias, labels, norm, upstream):
    total = tf.cast(logits, tf.float32) + bias
    classes = tf.range(tf.shape(logits)[1], dtype=labels.dtype)
    hit = tf.cast(classes == labels[:, tf.newaxis], tf.float32)
    inner = (tf.exp(total - norm[:, tf.newaxis]) - hit) * upstream[:, tf.newaxis]
    return tf.cast(inner, logits.dtype), tf.reduce_sum(inner, 0)


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Drops a share of the elements of x, by a seed (int32 scalar); None: drops none."""
    if seed is None:
        return x
    return tf.cast(tf.cast(x, tf.float32) * _keep_of(x, rate, seed), x.dtype)


def _standardize(x: tf.Tensor, epsilon: float) -> tuple[tf.Tensor, tf.Tensor]:
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    inverse = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), -1, keepdims=True) + epsilon)
    return centred * inverse, inverse


def _standardize_gradient(
    standard: tf.Tensor, inverse: tf.Tensor, upstream: tf.Tensor
) -> tf.Tensor:
    mean = tf.reduce_mean(upstream, -1, keepdims=True)
    along = tf.reduce_mean(upstream * standard, -1, keepdims=True)
    return inverse * (upstream - mean - standard * along)


def _keep_of(x: tf.Tensor, rate: float, seed: tf.Tensor) -> tf.Tensor | float:
    """The dropout factors of the elements of x, drawn when x is there and not before.

    They follow from the shape and the seed alone: nothing else would keep a graph from drawing
    those of all layers first, and from keeping them for the backward pass.
    """
    if rate == 0:
        return 1.0
    if is_compiled_whole():
        seed += tf.cast(zero_of(x), seed.dtype)
    else:
        with tf.control_dependencies([tf.identity(x)]):
            seed = tf.identity(seed)
    return _keep(tf.shape(x), rate, seed)


def zero_of(x: tf.Tensor) -> tf.Tensor:
    """A float32 scalar that is 0, and follows from x as far as XLA can know.

    What it is added to is computed after x: in a program of XLA's, control dependencies mean
    nothing, and a CPU takes optimization barriers away before it decides on an order.
    """
    return tf.zeros([], tf.float32) * tf.cast(tf.reshape(x, [-1])[0], tf.float32)


def _keep(shape: tf.Tensor, rate: float, seed: tf.Tensor) -> tf.Tensor:
    """The dropout factors: 0 with probability `rate` (to 2^-16), else 1 / (1 - rate).

    Sixteen bits an element of a hash of its index and the seed: the finalizer
    of MurmurHash3, which passes through XLA as a few integer operations, where
    a counter-based generator costs more than the rest of the layer.
    """
    half = tf.concat([shape[:-1], [(shape[-1] + 1) // 2]], 0)
    index = tf.reshape(tf.range(tf.reduce_prod(half)), half)
    bits = _mix(tf.bitcast(index, tf.uint32) + _mix(tf.bitcast(seed, tf.uint32)))
    threshold = tf.constant(round(rate * 65536), tf.uint32)
    low = tf.bitwise.bitwise_and(bits, tf.constant(0xFFFF, tf.uint32))
    high = tf.bitwise.right_shift(bits, tf.constant(16, tf.uint32))
    values = tf.concat([low, high], -1)[..., : shape[-1]]
    return tf.where(values >= threshold, 1.0 / (1.0 - rate), 0.0)


def _mix(x: tf.Tensor) -> tf.Tensor:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint32)))
        x = x * tf.constant(factor, tf.uint32)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(16, tf.uint32)))
