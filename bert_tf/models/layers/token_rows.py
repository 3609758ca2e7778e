"""Which tokens of a batch a layer computes, and which of them attend."""

from typing import NamedTuple, Self

import tensorflow as tf

# Added to the attention scores of masked positions.
MASKED = -1e9


class TokenRows(NamedTuple):
    """The positions of a padded batch that hold tokens, as rows without the padding.

    Linear maps and norms work on rows, so they need not compute the padding; only attention needs
    it.

    Attributes:
      positions: int32 [rows], the position (of batch * length) of each row.
      rows: int32 [batch * length], the row of each position; 0 for padding.
    """

    positions: tf.Tensor
    rows: tf.Tensor

    @classmethod
    def of_mask(cls, mask: tf.Tensor) -> Self:
        """The rows of an int [batch, length] mask; the first position always has one."""
        present = tf.concat([tf.ones_like(mask[:, :1]), mask[:, 1:]], 1) > 0
        flat = tf.cast(tf.reshape(present, [-1]), tf.int32)
        rows = tf.cumsum(flat, exclusive=True) * flat
        return cls(tf.cast(tf.where(flat > 0)[:, 0], tf.int32), rows)

    def drop(self, x: tf.Tensor) -> tf.Tensor:
        """Selects the rows [rows, width] of [batch * length, width]."""
        return tf.gather(x, self.positions)

    def pad(self, x: tf.Tensor) -> tf.Tensor:
        """Expands rows [rows, width] to [batch * length, width]; padding has arbitrary values."""
        return tf.gather(x, self.rows)


def gather_positions(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Gathers [batch, count, ...] of [batch, length, ...] at int32 [batch, count].

    It gathers rows of all sequences at once, whose gradient takes less time than that of a gather
    with `batch_dims`.
    """
    shape = tf.shape(sequence)
    first = tf.range(shape[0])[:, tf.newaxis] * shape[1]
    return tf.gather(tf.reshape(sequence, [-1, *sequence.shape[2:]]), positions + first)


class Queries:
    """The queries of a last layer that is not computed for all tokens; keys and values are.

    They are the first token of each sequence and those at `positions`: a loss reads no others
    (docs/guides/speed.md has what that saves).

    Args:
      positions: int32 [batch, count].
    """

    def __init__(self, positions: tf.Tensor):
        self._first_alone = positions.shape[1] == 0
        self._positions = tf.pad(positions, [[0, 0], [1, 0]])  # [batch, 1 + count]

    def of(self, x: tf.Tensor) -> tf.Tensor:
        """Selects [batch, 1 + count, ...] of [batch, length, ...]."""
        return x[:, :1] if self._first_alone else gather_positions(x, self._positions)

    def of_scores(self, x: tf.Tensor) -> tf.Tensor:
        """Selects [batch, heads, 1 + count, length] of [batch or 1, heads, length, length].

        What is the same for all tokens, [batch, heads, 1, length], is returned as it is.
        """
        if x.shape[2] == 1:
            return x
        if self._first_alone:
            return x[:, :, :1]
        if x.shape[0] == 1:
            return tf.transpose(tf.gather(x[0], self._positions, axis=1), [1, 0, 2, 3])
        return tf.gather(x, self._positions, axis=2, batch_dims=1)

    def window_bias(self, window: int, length: tf.Tensor) -> tf.Tensor:
        """Float32 [batch, 1, 1 + count, length]: MASKED for tokens farther away than `window`."""
        # Not [:, tf.newaxis, :, tf.newaxis], which LiteRT cannot convert.
        distance = tf.range(length) - tf.expand_dims(tf.expand_dims(self._positions, 1), 3)
        return tf.where(tf.abs(distance) <= window, 0.0, MASKED)
