"""The Transformer encoder of BERT and its relatives."""

from typing import Self

import keras
import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.models.layers import Embeddings, NoPooler, Pooler, TransformerBlock
from bert_tf.models.layers.base import Configured, Layer, Stated
from bert_tf.models.layers.unpadding import TokenRows
from pipelines.common import memory

# Added to the attention scores of positions that may not be attended to.
_MASKED = -1e9
_SEEDS_PER_BLOCK = 3


class BertEncoder(Configured, Stated, keras.Model):
    """BERT, or one of its relatives by the options of the configuration, without heads.

    >>> encoder = BertEncoder(BertConfig.named("tiny"))
    >>> ids = tf.constant([[101, 7592, 102]])
    >>> outputs = encoder({"input_word_ids": ids, "input_mask": tf.ones_like(ids),
    ...                    "input_type_ids": tf.zeros_like(ids)})
    >>> outputs["sequence_output"].shape
    TensorShape([1, 3, 128])

    Args:
      config: the configuration.
      allocate: whether to create the variables at once; without them it only tells of itself.

    Raises:
      InputError: this machine has no memory for it.
    """

    def __init__(self, config: BertConfig, *, allocate: bool = True, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        policy = self.dtype_policy
        self.embeddings = Embeddings(config, name="embeddings", dtype=policy)
        self.blocks = [
            TransformerBlock(config, name=f"block_{index}", dtype=policy)
            for index in range(1 if config.shared_layers else config.num_hidden_layers)
        ]
        self.pooler = self._make_pooler()
        if allocate:
            memory.check(4 * self.parameters, f"a model of {self.parameters:,} parameters")
            self.build()

    def _make_pooler(self) -> Layer:
        config, policy = self.config, self.dtype_policy
        if config.pooler_act is None:
            return NoPooler(name="pooler", dtype=policy)
        return Pooler(
            config.hidden_size,
            config.pooler_act,
            config.pooler_dropout,
            config.initializer_range,
            name="pooler",
            dtype=policy,
        )

    @classmethod
    def unallocated(cls, config: BertConfig) -> Self:
        """An encoder that takes no memory: it tells its `shapes`, `parameters` and `flops`."""
        return cls(config, allocate=False, name="encoder")

    def statement(self) -> tuple[Layer, ...]:
        """Embeddings, blocks from bottom to top, and pooler."""
        return self.embeddings, *self.blocks, self.pooler

    def flops(self, length: int) -> int:
        """Floating-point operations of a forward pass over one sequence of so many tokens.

        Two for each multiply-add of the matrix products, but the pooler's, which has one row;
        the rest is not counted.
        """
        return sum(part.flops(length) for part in (self.embeddings, *self._stack))

    @property
    def _stack(self) -> list[TransformerBlock]:
        """The block of each layer from bottom to top, all of them the same where it is shared."""
        return list(self.blocks) * (self.config.num_hidden_layers // len(self.blocks))

    def layer_variables(self) -> list[list[keras.Variable]]:
        """The variables of each layer from bottom to top: the embeddings', then each block's.

        A block that all layers share is there once. The pooler's are not among them: it is
        trained with the heads.
        """
        return [part.variables for part in (self.embeddings, *self.blocks)]

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
            for tokens, 0 for padding) and `input_type_ids` (segments; of no use
            to a model without a table of them).
          training: whether to drop out.
          dropout_seed: int32 scalar; the same seed drops the same elements.
            None: drawn from TensorFlow's global generator.
          dtype: to compute in; None: the compute dtype of the model.
          drop_padding: compute tokens only, which is faster where lengths are mixed;
            outputs at padding then mean nothing.

        Returns:
          `sequence_output` [batch, length, hidden_size]; `pooled_output`
          [batch, hidden_size], tanh of a linear map of [CLS] (or what `pooler_act`
          says); `encoder_outputs`, the output of each layer, as `sequence_output`;
          `embedding_output`, what the first layer gets, the same;
          `attention_probs`, that of each layer, [batch, heads, length, length];
          all of the dtype computed in.

        Raises:
          ValueError: the length is known and there are not as many positions.
        """
        word_ids = tf.cast(inputs["input_word_ids"], tf.int32)
        types = tf.cast(inputs["input_type_ids"], tf.int32) if self.config.type_vocab_size else None
        shape = tf.shape(word_ids)
        rows = TokenRows.of_mask(inputs["input_mask"]) if drop_padding else None
        seeds = self._seeds(dropout_seed) if training else None
        x = self.embeddings(
            word_ids,
            types,
            seed=None if seeds is None else seeds[0],
            dtype=dtype,
            rows=rows,
        )
        bias = self._mask_bias(inputs["input_mask"])

        def padded(x: tf.Tensor) -> tf.Tensor:
            x = x if rows is None else rows.pad(x)
            return tf.reshape(x, [shape[0], shape[1], self.config.hidden_size])

        embedded = padded(x)
        outputs, probabilities = [], []
        for index, block in enumerate(self._stack):
            first = 1 + index * _SEEDS_PER_BLOCK
            seed = None if seeds is None else seeds[first : first + _SEEDS_PER_BLOCK]
            x, attended = block(x, bias, seed=seed, rows=rows)
            outputs.append(padded(x))
            probabilities.append(attended)
        pooler_seed = seeds[-1] if seeds is not None and self.config.pooler_dropout else None
        return {
            "sequence_output": outputs[-1],
            "pooled_output": self.pooler(outputs[-1][:, 0], seed=pooler_seed),
            "encoder_outputs": outputs,
            "embedding_output": embedded,
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
        count = 1 + _SEEDS_PER_BLOCK * self.config.num_hidden_layers
        count += bool(self.config.pooler_dropout)
        return tf.random.stateless_uniform(
            [count], tf.stack([seed, 0]), minval=None, maxval=None, dtype=tf.int32
        )
