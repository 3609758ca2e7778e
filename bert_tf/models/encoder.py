"""The bidirectional Transformer encoder."""

import keras
import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.models.layers import Dense, Embeddings, TransformerBlock
from bert_tf.models.layers.base import Configured
from bert_tf.models.layers.unpadding import TokenRows
from pipelines.common import memory

# Added to the attention scores of positions that may not be attended to.
_MASKED = -1e9
_SEEDS_PER_BLOCK = 3


class BertEncoder(Configured, keras.Model):
    """BERT without heads.

    >>> encoder = BertEncoder(BertConfig.named("tiny"))
    >>> ids = tf.constant([[101, 7592, 102]])
    >>> outputs = encoder({"input_word_ids": ids, "input_mask": tf.ones_like(ids),
    ...                    "input_type_ids": tf.zeros_like(ids)})
    >>> outputs["sequence_output"].shape
    TensorShape([1, 3, 128])

    Args:
      config: the configuration.

    Raises:
      InputError: this machine has no memory for it.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(autocast=False, **kwargs)
        memory.check(4 * config.parameters, f"a model of {config.parameters:,} parameters")
        self.config = config
        policy = self.dtype_policy
        self.embeddings = Embeddings(config, name="embeddings", dtype=policy)
        self.blocks = [
            TransformerBlock(config, name=f"block_{index}", dtype=policy)
            for index in range(config.num_hidden_layers)
        ]
        self.pooler = Dense(
            config.hidden_size, config.initializer_range, name="pooler", dtype=policy
        )
        self.build()

    def build(self, input_shape: object = None) -> None:
        """Creates all variables; their shapes do not depend on the input."""
        if self.built:
            return
        width = (None, self.config.hidden_size)
        self.embeddings.build((None, None))
        for block in self.blocks:
            block.build(width)
        self.pooler.build(width)
        self.built = True

    def call(
        self,
        inputs: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
        dtype: str | None = None,
        drop_padding: bool = False,
    ) -> dict[str, tf.Tensor | list[tf.Tensor]]:
        """Encodes a batch.

        Args:
          inputs: int32 [batch, length] each: `input_word_ids`, `input_mask` (1
            for tokens, 0 for padding) and `input_type_ids` (segments).
          training: whether to drop out.
          dropout_seed: int32 scalar; the same seed drops the same elements.
            None: drawn from TensorFlow's global generator.
          dtype: to compute in; None: the compute dtype of the model.
          drop_padding: compute tokens only, which is faster where lengths are mixed;
            outputs at padding then mean nothing.

        Returns:
          `sequence_output` [batch, length, hidden_size]; `pooled_output`
          [batch, hidden_size], tanh of a linear map of [CLS]; `encoder_outputs`,
          the output of each block, as `sequence_output`; `attention_probs`,
          that of each block, [batch, heads, length, length]; all of the
          dtype computed in.
        """
        word_ids = tf.cast(inputs["input_word_ids"], tf.int32)
        shape = tf.shape(word_ids)
        rows = TokenRows.of_mask(inputs["input_mask"]) if drop_padding else None
        seeds = self._seeds(dropout_seed) if training else None
        x = self.embeddings(
            word_ids,
            tf.cast(inputs["input_type_ids"], tf.int32),
            seed=None if seeds is None else seeds[0],
            dtype=dtype,
            rows=rows,
        )
        bias = self._mask_bias(inputs["input_mask"])
        outputs, probabilities = [], []
        for index, block in enumerate(self.blocks):
            first = 1 + index * _SEEDS_PER_BLOCK
            seed = None if seeds is None else seeds[first : first + _SEEDS_PER_BLOCK]
            x, attended = block(x, bias, seed=seed, rows=rows)
            padded = x if rows is None else rows.pad(x)
            outputs.append(tf.reshape(padded, [shape[0], shape[1], self.config.hidden_size]))
            probabilities.append(attended)
        first_tokens = outputs[-1][:, 0]
        return {
            "sequence_output": outputs[-1],
            "pooled_output": tf.tanh(self.pooler(first_tokens)),
            "encoder_outputs": outputs,
            "attention_probs": probabilities,
        }

    def _mask_bias(self, mask: tf.Tensor) -> tf.Tensor:
        visible = tf.expand_dims(tf.expand_dims(tf.cast(mask, tf.float32), 1), 1)
        if self.config.causal:
            length = tf.shape(mask)[1]
            visible *= tf.linalg.band_part(tf.ones([length, length]), -1, 0)
        return (1.0 - visible) * _MASKED

    def _seeds(self, seed: tf.Tensor | None) -> tf.Tensor:
        """One seed for each dropout of the model, int32 [seeds]."""
        if seed is None:
            seed = tf.random.uniform([], maxval=tf.int32.max, dtype=tf.int32)
        count = 1 + _SEEDS_PER_BLOCK * len(self.blocks)
        return tf.random.stateless_uniform(
            [count], tf.stack([seed, 0]), minval=None, maxval=None, dtype=tf.int32
        )
