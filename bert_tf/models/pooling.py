"""One vector of the vectors of a sequence's tokens, in float32.

All tokens that are there count, those at start and end ([CLS], [SEP]) too, as in
sentence-transformers (Reimers and Gurevych 2019, section 3).
"""

import tensorflow as tf


def mean(sequence: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The mean over the tokens that are there; 0 where there is none.

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
    """The greatest value of each dimension over the tokens; arguments and result as of `mean`."""
    there = tf.expand_dims(mask > 0, -1)
    return tf.reduce_max(tf.where(there, tf.cast(sequence, tf.float32), tf.float32.min), 1)


def first(sequence: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The vector of the first token ([CLS]); arguments and result as of `mean`."""
    return tf.cast(sequence[:, 0], tf.float32)
