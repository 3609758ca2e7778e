"""The element-wise parts of BERT as TensorFlow's graph optimizer fuses them.

What `bert_tf.models.fused_ops` does in passes of its own, forward and backward, is written
here with the plain ops whose patterns the optimizer of a CPU server knows: a
matrix product with its bias, with gelu, or with the residual becomes one
kernel, and so do attention scores with scale and mask. Nothing drops out, and
gradients are TensorFlow's own. Arguments and results are those of `ops`.
"""

from collections.abc import Callable

import tensorflow as tf


def bias_activation(
    x: tf.Tensor, bias: tf.Tensor, activation: Callable[[tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Returns activation(x + bias), in the dtype of x."""
    return activation(tf.nn.bias_add(x, tf.cast(bias, x.dtype)))


def masked_softmax(scores: tf.Tensor, bias: tf.Tensor, scale: float) -> tf.Tensor:
    """Returns softmax(scale * scores + bias) over the last axis."""
    return tf.nn.softmax(scores * tf.cast(scale, scores.dtype) + tf.cast(bias, scores.dtype))


def residual_norm(
    x: tf.Tensor,
    bias: tf.Tensor,
    residual: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    epsilon: float,
) -> tf.Tensor:
    """Returns LayerNorm(residual + x + bias)."""
    return norm(tf.nn.bias_add(x, tf.cast(bias, x.dtype)) + residual, gamma, beta, epsilon)


def norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns LayerNorm(x) of [rows, width], computed in float32."""
    wide = tf.cast(x, tf.float32)
    centred = wide - tf.reduce_mean(wide, -1, keepdims=True)
    inverse = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), -1, keepdims=True) + epsilon)
    standard = centred * inverse
    return tf.cast(standard * tf.cast(gamma, tf.float32) + tf.cast(beta, tf.float32), x.dtype)
