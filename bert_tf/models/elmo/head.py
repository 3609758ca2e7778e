"""The softmax over words, shared by both directions of ELMo."""

import math
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable

_LOTS = 1 << 30  # probabilities are multiples of its inverse


@serializable
class WordHead(Configured, Layer):
    """Logits of the predicted words, from the vectors of one direction.

    Args:
      config: Sizes.
    """

    config: ElmoConfig

    def __init__(self, config: ElmoConfig, **kwargs):
        super().__init__((None, config.projection_size), **kwargs)
        self.config = config

    def members(self) -> tuple[Weight, ...]:
        """Kernel [predicted words, projection_size] and bias [predicted words]."""
        words, width = self.config.predicted_words, self.config.projection_size
        return (
            Weight("kernel", (words, width), 1 / math.sqrt(width)),
            Weight("bias", (words,), "zeros"),
        )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [rows, predicted words] for [rows, projection_size]."""
        rows, _ = super().compute_output_shape(input_shape)
        return (rows, self.config.predicted_words)

    def flops(self, predictions: int) -> int:
        """Floating-point operations of both directions for `predictions` positions."""
        words = self.config.sampled_words or self.config.predicted_words
        return 2 * 2 * predictions * self.config.projection_size * words

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the logits [rows, predicted words] without their bias, in the dtype of x."""
        kernel = tf.cast(tf.convert_to_tensor(self.kernel), x.dtype)
        return tf.matmul(x, kernel, transpose_b=True)

    def sampled_losses(
        self, x: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The loss of each row over its label and some sampled words (sampled softmax).

        Words are sampled log-uniformly, with replacement: in a vocabulary sorted by frequency, this
        is about their frequency. Logits are corrected for the sampling probabilities (Jean et al.
        2015, arXiv 1412.2007); a sampled word that equals the label is ignored.

        Args:
          x: [rows, projection_size].
          labels: int32 [rows].
          seed: int32 scalar for the sampling.

        Returns:
          The negative log-likelihood over label and sampled words, and whether the label has the
          highest logit; float32 [rows] each.
        """
        drawn = self._draw(seed)
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        expected = tf.math.log(
            self.config.sampled_words * tf.constant(_probabilities(self.config.predicted_words))
        )

        def corrected(products: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
            offset = tf.gather(bias, words) - tf.gather(expected, words)
            return tf.cast(products, tf.float32) + offset

        rows = tf.cast(tf.gather(kernel, labels), x.dtype)
        right = corrected(tf.reduce_sum(tf.cast(x * rows, tf.float32), -1), labels)
        candidates = tf.cast(tf.gather(kernel, drawn), x.dtype)
        wrong = corrected(tf.matmul(x, candidates, transpose_b=True), drawn)
        wrong = tf.where(drawn == labels[:, tf.newaxis], wrong.dtype.min, wrong)
        total = tf.reduce_logsumexp(tf.concat([right[:, tf.newaxis], wrong], 1), 1)
        return total - right, tf.cast(right >= tf.reduce_max(wrong, 1), tf.float32)

    def _draw(self, seed: tf.Tensor) -> tf.Tensor:
        """Words, int32 [sampled words]; from integers, which are the same under XLA."""
        ends = np.round(
            np.cumsum(_probabilities(self.config.predicted_words), dtype=np.float64) * _LOTS
        )
        lots = tf.random.stateless_uniform(
            [self.config.sampled_words], tf.stack([seed, 0]), 0, _LOTS, tf.int32, alg="philox"
        )
        ends[-1] = _LOTS
        return tf.searchsorted(tf.constant(ends, tf.int32), lots, side="right")


def _probabilities(words: int) -> np.ndarray:
    """The log-uniform probability (Zipf's law) of each word by rank, float32 [words]."""
    ranks: Any = np.arange(words, dtype=np.float64)
    return (np.log1p(1 / (ranks + 1)) / np.log(words + 1)).astype(np.float32)
