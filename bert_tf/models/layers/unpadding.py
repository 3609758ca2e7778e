"""Batches without their padding: one row for each token that is there."""

from typing import NamedTuple, Self

import tensorflow as tf


class TokenRows(NamedTuple):
    """Which positions of a padded batch have rows.

    Linear maps and norms work on rows one by one, so that padding need not be
    computed; only attention wants it back.

    Attributes:
      positions: int32 [rows], the position (of batch * length) of each row.
      rows: int32 [batch * length], the row of each position; 0 for padding.
    """

    positions: tf.Tensor
    rows: tf.Tensor

    @classmethod
    def of_mask(cls, mask: tf.Tensor) -> Self:
        """The rows of an int [batch, length] mask; first positions always have one."""
        present = tf.concat([tf.ones_like(mask[:, :1]), mask[:, 1:]], 1) > 0
        flat = tf.cast(tf.reshape(present, [-1]), tf.int32)
        rows = tf.cumsum(flat, exclusive=True) * flat
        return cls(tf.cast(tf.where(flat > 0)[:, 0], tf.int32), rows)

    def drop(self, x: tf.Tensor) -> tf.Tensor:
        """Takes the rows [rows, width] out of [batch * length, width]."""
        return tf.gather(x, self.positions)

    def first(self, x: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Takes the first token's of each sequence of a length out of rows [rows, width]."""
        return tf.gather(x, tf.reshape(self.rows, [-1, length])[:, 0])

    def pad(self, x: tf.Tensor) -> tf.Tensor:
        """Puts rows [rows, width] back into [batch * length, width]; padding has any values."""
        return tf.gather(x, self.rows)
