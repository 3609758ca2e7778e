"""Token, position and segment embeddings (paper, figure 2)."""

import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.models.layers import initializers
from bert_tf.models.layers.base import Configured, Layer
from bert_tf.models.layers.normalization import LayerNorm
from bert_tf.models.layers.unpadding import TokenRows


class Embeddings(Configured, Layer):
    """The sum of three embeddings, normalized, with dropout.

    Args:
      config: sizes and dropout.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.norm = LayerNorm(
            config.layer_norm_eps,
            config.hidden_dropout_prob,
            name="norm",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the three tables, [vocab_size or positions or types, hidden_size]."""
        config = self.config
        self.word, self.position, self.token_type = (
            self.add_weight(
                name=name,
                shape=(rows, config.hidden_size),
                initializer=initializers.truncated_normal(config.initializer_range),
            )
            for name, rows in (
                ("word_embeddings", config.vocab_size),
                ("position_embeddings", config.max_position_embeddings),
                ("token_type_embeddings", config.type_vocab_size),
            )
        )
        self.norm.build((None, config.hidden_size))

    def call(
        self,
        word_ids: tf.Tensor,
        type_ids: tf.Tensor,
        seed: tf.Tensor | None = None,
        dtype: str | None = None,
        rows: TokenRows | None = None,
    ) -> tf.Tensor:
        """Embeds int32 [batch, length] ids as [batch * length, hidden_size], or as [rows, ...].

        The result has `dtype`, or the compute dtype; all that follows computes in it.

        Raises:
          ValueError: the length is known and exceeds max_position_embeddings.
        """
        if (
            word_ids.shape[1] is not None
            and word_ids.shape[1] > self.config.max_position_embeddings
        ):
            raise ValueError(
                f"sequences of {word_ids.shape[1]} tokens exceed max_position_embeddings "
                f"{self.config.max_position_embeddings}"
            )
        shape = tf.shape(word_ids)
        # Looked up in float32, so that the gradient of a table is summed in float32.
        words = tf.cast(tf.gather(tf.convert_to_tensor(self.word), word_ids), tf.float32)
        # A product, not a look-up: two rows only, and the gradient is one dense sum.
        types = tf.one_hot(type_ids, self.config.type_vocab_size)
        types = tf.tensordot(types, tf.cast(self.token_type, tf.float32), 1)
        positions = tf.cast(tf.convert_to_tensor(self.position)[: shape[1]], tf.float32)
        total = tf.reshape(words + positions + types, [-1, self.config.hidden_size])
        total = total if rows is None else rows.drop(total)
        return self.norm(tf.cast(total, dtype or self.compute_dtype), seed=seed)
