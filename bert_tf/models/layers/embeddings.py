"""Token, position and segment embeddings (Devlin et al. 2018, figure 2)."""

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable
from bert_tf.models.layers.dense import Dense
from bert_tf.models.layers.normalization import LayerNorm
from bert_tf.models.layers.unpadding import TokenRows


@serializable
class Embeddings(Configured, Layer):
    """The sum of three embeddings, normalized, with dropout.

    The configuration may do without the types or the norm, begin with another position than the
    first, and have the sum projected to the width of the encoder.

    Args:
      config: sizes, dropout, and options.
    """

    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        policy, width = self.dtype_policy, config.embedding_width
        self.norm = self.projection = None
        if config.embedding_norm:
            self.norm = LayerNorm(
                width, config.layer_norm_eps, config.hidden_dropout_prob, name="norm", dtype=policy
            )
        if config.embedding_size is not None:
            self.projection = Dense(
                width, config.hidden_size, config.initializer_range, name="projection", dtype=policy
            )

    def members(self) -> Iterator[Weight | Layer]:
        """Tables [vocab_size or positions or types, embedding width], norm, and projection."""
        config = self.config
        for attribute, rows in (
            ("word", config.vocab_size),
            ("position", config.max_position_embeddings),
            ("token_type", config.type_vocab_size),
        ):
            shape = (rows, config.embedding_width)
            if rows:
                yield Weight(f"{attribute}_embeddings", shape, config.initializer_range, attribute)
        yield from (part for part in (self.norm, self.projection) if part)

    @property
    def expected_shape(self) -> Shape:
        """[batch, length]."""
        return (None, None)

    def flops(self, length: int) -> int:
        """Floating-point operations of the projection for one sequence."""
        return self.projection.flops(length) if self.projection else 0

    def call(
        self,
        word_ids: tf.Tensor,
        type_ids: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
        dtype: str | None = None,
        rows: TokenRows | None = None,
        counted_ids: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Embeds int32 [batch, length] ids as [batch * length, hidden_size], or as [rows, ...].

        The result has `dtype`, or the compute dtype; all that follows computes in it. Without
        `type_ids` all tokens are of the first type; without a table of types they count for
        nothing. Positions are counted by `counted_ids`, or by the ids (see `_positions`).

        Raises:
          InputError: the length is known and there are not as many positions.
        """
        config = self.config
        config.check_length(word_ids.shape[1])
        # Looked up in float32, so that the gradient of a table is summed in float32.
        total = tf.cast(tf.gather(tf.convert_to_tensor(self.word), word_ids), tf.float32)
        total += self._positions(word_ids if counted_ids is None else counted_ids)
        if config.type_vocab_size:
            # A product, not a look-up: two rows only, and the gradient is one dense sum.
            types = tf.zeros_like(word_ids) if type_ids is None else type_ids
            types = tf.one_hot(types, config.type_vocab_size)
            total += tf.tensordot(types, tf.cast(self.token_type, tf.float32), 1)
        total = tf.reshape(total, [-1, config.embedding_width])
        total = total if rows is None else rows.drop(total)
        x = tf.cast(total, dtype or self.compute_dtype)
        if self.norm:
            x = self.norm(x, seed=seed)
        else:
            x = fused_ops.dropout(x, config.hidden_dropout_prob, seed)
        return self.projection(x) if self.projection else x

    def _positions(self, ids: tf.Tensor) -> tf.Tensor:
        """The embeddings of positions, float32 [batch, length, width] or [length, width].

        With an offset, only ids that are no padding are counted, wherever it stands, and padding
        has the last row before the first token's: as in RoBERTa of transformers, where the offset
        is one more than the id of padding.
        """
        table, offset = tf.convert_to_tensor(self.position), self.config.position_offset
        length = tf.shape(ids)[1]
        if not offset:
            return tf.cast(table[:length], tf.float32)
        is_token = tf.cast(ids != offset - 1, tf.float32)  # a GPU has no kernel for int32 sums
        number = tf.cast(tf.cumsum(is_token, axis=1) * is_token, tf.int32)
        # Of another shape, which is an error, where there are not as many positions.
        table = tf.reshape(table[offset - 1 : offset + length], [length + 1, table.shape[1]])
        return tf.gather(tf.cast(table, tf.float32), number)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """[batch * length, hidden_size] of [batch, length].

        Raises:
          InputError: there are not as many positions.
        """
        self.config.check_length(input_shape[1])
        known = None not in input_shape
        rows = input_shape[0] * input_shape[1] if known else None  # type: ignore[operator]
        return (rows, self.config.hidden_size)

    def compute_output_spec(  # type: ignore[override]  # each Keras layer says what it takes
        self, word_ids: Any, *args: Any, dtype: str | None = None, **kwargs: Any
    ) -> Any:
        """What `call` returns for symbolic ids."""
        shape = self.compute_output_shape(word_ids.shape)
        return keras.KerasTensor(shape, dtype or self.compute_dtype)
