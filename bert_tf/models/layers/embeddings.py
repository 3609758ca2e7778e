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
from bert_tf.models.layers.token_rows import TokenRows
from pipelines.common.errors import InputError

# The row of RELATIVE_ROWS / 2 for each distance, the last for all larger ones (Raffel et al. 2020,
# arXiv 1910.10683, section 2.1): one each below 8, then two for each doubling.
_ROW_OF_DISTANCE = [n if n < 8 else 7 + (n * n // 64).bit_length() for n in range(92)]
RELATIVE_ROWS = 32


@serializable
class Embeddings(Configured, Layer):
    """The sum of three embeddings, normalized, with dropout.

    By configuration there may be no segment embeddings and no norm, positions may have an offset,
    and the sum may be projected to the width of the encoder.
    """

    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__((None, None), **kwargs)
        self.config = config
        policy, width = self.dtype_policy, config.embedding_width
        self.norm = self.projection = None
        if config.embedding_norm:
            self.norm = LayerNorm(
                *(width, config.layer_norm_eps, config.hidden_dropout_prob, config.norm_bias),
                name="norm",
                dtype=policy,
            )
        if config.embedding_size is not None:
            self.projection = Dense(
                width, config.hidden_size, config.initializer_range, name="projection", dtype=policy
            )

    def members(self) -> Iterator[Weight | Layer]:
        """Tables [vocab_size, positions or types, embedding width], norm, and projection.

        A table of relative positions is [RELATIVE_ROWS, num_attention_heads].
        """
        config = self.config
        for attribute, rows in (
            ("word", config.vocab_size),
            ("position", 0 if config.rope_theta else config.max_position_embeddings),
            ("token_type", config.type_vocab_size),
        ):
            shape = (rows, config.embedding_width)
            if rows:
                yield Weight(f"{attribute}_embeddings", shape, config.initializer_range, attribute)
        if config.relative_positions:
            shape = (RELATIVE_ROWS, config.num_attention_heads)
            yield Weight("relative_positions", shape, config.initializer_range)
        yield from (part for part in (self.norm, self.projection) if part)

    def owner(self) -> "Embeddings":
        """The layer with the tables and the norm: this one, or one that shares them."""
        return self

    def call(
        self,
        word_ids: tf.Tensor,
        type_ids: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
        dtype: str | None = None,
        rows: TokenRows | None = None,
        counted_ids: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Embeds tokens.

        Args:
          word_ids: int32 [batch, length].
          type_ids: int32 [batch, length]; None: all tokens are of the first type. Ignored without
            segment embeddings.
          seed: int32 scalar for dropout; None: no dropout.
          dtype: dtype of the result; None: the compute dtype.
          rows: The positions to embed; None: all.
          counted_ids: int32 [batch, length], ids that determine the positions; None: `word_ids`.
          positions: int32 [batch, length], rows of the position table; None: as described for
            `position_vectors`.

        Returns:
          [batch * length, hidden_size], or [rows, hidden_size].

        Raises:
          InputError: The static length exceeds the positions.
        """
        config = self.config
        config.check_length(word_ids.shape[1])
        # Looked up in float32, so that the gradient of a table is summed in float32.
        owner = self.owner()
        try:
            found = tf.gather(tf.convert_to_tensor(owner.word), word_ids)
        except tf.errors.InvalidArgumentError as error:
            raise InputError(
                f"input_word_ids has an id outside of the vocabulary, 0 to {config.vocab_size - 1};"
                " convert texts with the model's tokenizer."
            ) from error
        total = tf.cast(found, tf.float32)
        if config.rope_theta:
            pass  # attention has the positions
        elif positions is None:
            total += owner.position_vectors(word_ids if counted_ids is None else counted_ids)
        else:
            total += tf.cast(tf.gather(tf.convert_to_tensor(owner.position), positions), tf.float32)
        if config.type_vocab_size:
            # A product instead of a look-up: with two rows, the gradient is one dense sum.
            types = tf.zeros_like(word_ids) if type_ids is None else type_ids
            types = tf.one_hot(types, config.type_vocab_size)
            total += tf.tensordot(types, tf.cast(owner.token_type, tf.float32), 1)
        total = tf.reshape(total, [-1, config.embedding_width])
        total = total if rows is None else rows.drop(total)
        x = tf.cast(total, dtype or self.compute_dtype)
        if owner.norm:
            x = owner.norm(x, seed=seed)
        else:
            x = fused_ops.dropout(x, config.hidden_dropout_prob, seed)
        return self.projection(x) if self.projection else x

    def position_vectors(self, ids: tf.Tensor) -> tf.Tensor:
        """The position embeddings, float32 [batch, length, width] or [length, width].

        With an offset, tokens are counted and padding is not, wherever it is; padding has the last
        row before that of the first token. This is RoBERTa in transformers, where the offset is one
        more than the padding id.
        """
        table, offset = tf.convert_to_tensor(self.position), self.config.position_offset
        length = tf.shape(ids)[1]
        if not offset:
            return tf.cast(table[:length], tf.float32)
        is_token = tf.cast(ids != offset - 1, tf.float32)  # a GPU has no kernel for int32 sums
        number = tf.cast(tf.cumsum(is_token, axis=1) * is_token, tf.int32)
        # Fails if the length exceeds the positions.
        table = tf.reshape(table[offset - 1 : offset + length], [length + 1, table.shape[1]])
        return tf.gather(tf.cast(table, tf.float32), number)

    def relative_scores(self, length: tf.Tensor) -> tf.Tensor | None:
        """Attention scores by distance, float32 [1, num_attention_heads, length, length].

        They are added to those of every layer; None without `relative_positions`.
        """
        if not self.config.relative_positions:
            return None
        place = tf.range(length)
        distance = place - place[:, tf.newaxis]
        largest = len(_ROW_OF_DISTANCE) - 1
        row = tf.gather(_ROW_OF_DISTANCE, tf.minimum(tf.abs(distance), largest))
        row += tf.where(distance > 0, RELATIVE_ROWS // 2, 0)
        scores = tf.gather(tf.convert_to_tensor(self.relative_positions), row)
        return tf.cast(tf.transpose(scores, [2, 0, 1])[tf.newaxis], tf.float32)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [batch * length, hidden_size] for [batch, length]."""
        self.config.check_length(input_shape[1])
        known = None not in input_shape
        rows = input_shape[0] * input_shape[1] if known else None  # type: ignore[operator]
        return (rows, self.config.hidden_size)

    def compute_output_spec(  # type: ignore[override]  # each Keras layer has its own arguments
        self, word_ids: Any, *args: Any, dtype: str | None = None, **kwargs: Any
    ) -> Any:
        """The output for symbolic ids."""
        shape = self.compute_output_shape(word_ids.shape)
        return keras.KerasTensor(shape, dtype or self.compute_dtype)
