"""Pooling: one vector of a sequence from the vectors of its tokens.

The functions compute in float32. They include the tokens at start and end ([CLS], [SEP]), as in
sentence-transformers (Reimers and Gurevych 2019, section 3).
"""

import tensorflow as tf

from bert_tf.models import activations, fused_ops
from bert_tf.models.head_config import PLAIN_POOLING
from bert_tf.models.layers.base import Layer, serializable
from bert_tf.models.layers.dense import Dense


def mean(sequence: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The mean over the tokens; 0 for an empty sequence.

    Args:
      sequence: [batch, length, width], of any floating-point dtype; finite at padding too.
      mask: int [batch, length], 1 for tokens and 0 for padding.

    Returns:
      float32 [batch, width].
    """
    there = tf.expand_dims(tf.cast(mask, tf.float32), -1)
    total = tf.reduce_sum(tf.cast(sequence, tf.float32) * there, 1)
    return tf.math.divide_no_nan(total, tf.reduce_sum(there, 1))


def maximum(sequence: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The maximum of each dimension over the tokens; arguments and result as for `mean`."""
    there = tf.expand_dims(mask > 0, -1)
    largest = tf.reduce_max(tf.where(there, tf.cast(sequence, tf.float32), tf.float32.min), 1)
    return tf.where(tf.reduce_any(there, 1), largest, 0.0)


def first(sequence: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The vector of the first token ([CLS]); arguments and result as for `mean`."""
    return tf.cast(sequence[:, 0], tf.float32)


PLAIN = dict(zip(PLAIN_POOLING, (mean, first, maximum), strict=True))


@serializable
class Pooler(Dense):
    """Dropout, a linear map and an activation.

    Args:
      width: Width of input and output.
      activation: A name in `config.ACTIVATIONS`.
      rate: Dropout rate of the inputs.
      initializer_range: Standard deviation of the initial kernel.
    """

    def __init__(
        self,
        width: int,
        activation: str = "tanh",
        rate: float = 0.0,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(width, width, initializer_range, **kwargs)
        self.width, self.activation, self.rate = width, activation, rate

    def call(self, x: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Maps [batch, width] to [batch, width].

        Dropout is applied if a seed (int32 scalar) is given.
        """
        pooled = super().call(fused_ops.dropout(x, self.rate, seed))
        return activations.function(self.activation)(pooled)


@serializable
class NoPooler(Layer):
    """Replaces a pooler: returns the token's vector unchanged."""

    def __init__(self, width: int, **kwargs):
        super().__init__((None, width), **kwargs)
        self.width = width

    def call(self, x: tf.Tensor, seed: tf.Tensor | None = None) -> tf.Tensor:
        """Returns x, [batch, width]."""
        return x
