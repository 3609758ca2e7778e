"""The Transformer encoder of BERT and its relatives."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from bert_tf.models import inputs as model_inputs
from bert_tf.models.config import BertConfig
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.layers import Embeddings, NoPooler, Pooler, TransformerBlock, adaptation
from bert_tf.models.layers.base import Configured, Layer, Shape, Stated, serializable
from bert_tf.models.layers.unpadding import TokenRows
from pipelines.common import memory

# Added to the attention scores of positions that may not be attended to.
_MASKED = -1e9
_SEEDS_PER_BLOCK = 3


@serializable
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
      pad_id: the id of padding, by which a mask is made where none is given; None: 0, or 1 for a
        RoBERTa. `bert_tf.load(path).encoder()` has that of the vocabulary.
      allocate: whether to create the variables at once; without them it only tells of itself.

    Raises:
      InputError: this machine has no memory for it.
    """

    def __init__(
        self, config: BertConfig, *, pad_id: int | None = None, allocate: bool = True, **kwargs
    ):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.pad_id = config.usual_pad_id if pad_id is None else pad_id
        policy = self.dtype_policy
        self.embeddings = Embeddings(config, name="embeddings", dtype=policy)
        self.blocks = [
            TransformerBlock(config, name=f"block_{index}", dtype=policy)
            for index in range(1 if config.shared_layers else config.num_hidden_layers)
        ]
        self.pooler = self._make_pooler()
        if allocate:
            memory.check(4 * self.parameters, f"a model of {self.parameters:,} parameters")
            self.build(self.expected_shape)

    def _make_pooler(self) -> Layer:
        config, policy = self.config, self.dtype_policy
        if config.pooler_act is None:
            return NoPooler(config.hidden_size, name="pooler", dtype=policy)
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

    @property
    def expected_shape(self) -> dict[str, Shape]:
        """[batch, length] of each input."""
        return model_inputs.SHAPES

    @property
    def input_dtype(self) -> str:
        """That of the inputs, as Keras exports them."""
        return "int32"

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
        inputs: Mapping[str, tf.Tensor] | Sequence[tf.Tensor] | tf.Tensor,
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
        dtype: str | None = None,
        drop_padding: bool = False,
    ) -> dict[str, tf.Tensor | list[tf.Tensor]]:
        """Encodes a batch.

        Args:
          inputs: int32 [batch, length] each: `input_word_ids`, `input_mask` (1
            for tokens, 0 for padding) and `input_type_ids` (segments; of no use
            to a model without a table of them). By these names, or the three of them
            as a list; or the ids alone. Without a mask all but `pad_id` are tokens, without
            segments all are of the first.
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
          InputError: the inputs have another form, rank or dtype; or the length is known and there
            are not as many positions.
        """
        typed = self.config.type_vocab_size > 0
        word_ids, mask, types = EncoderInputs.of(inputs, self.pad_id, typed)
        rows = TokenRows.of_mask(mask) if drop_padding else None
        seeds = self._seeds(dropout_seed) if training else None
        x = self.embeddings(
            word_ids,
            types,
            seed=None if seeds is None else seeds[0],
            dtype=dtype,
            rows=rows,
        )
        return self.encode(x, mask, seeds, rows)

    def encode(
        self,
        x: tf.Tensor,
        mask: tf.Tensor,
        seeds: tf.Tensor | None = None,
        rows: TokenRows | None = None,
    ) -> dict[str, tf.Tensor | list[tf.Tensor]]:
        """What `call` does once tokens are embedded; so gradients of the embeddings can be taken.

        Args:
          x: what the first layer gets, [batch * length, hidden_size]; or, with `rows`,
            [rows, hidden_size].
          mask: int32 [batch, length], 1 for tokens, 0 for padding.
          seeds: int32 [seeds], of each dropout; None: no dropout.
          rows: which positions x has.

        Returns:
          See `call`.
        """
        shape, bias = tf.shape(mask), self._mask_bias(mask)

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

    def compute_output_shape(self, input_shape: Any) -> dict[str, Any]:
        """The shapes of the outputs, by those of the inputs, in any of their forms."""
        if isinstance(input_shape, Mapping):
            input_shape = input_shape["input_word_ids"]
        elif isinstance(input_shape[0], list | tuple):
            input_shape = input_shape[0]
        batch, length = input_shape
        config = self.config
        config.check_length(length)
        sequence, layers = (batch, length, config.hidden_size), config.num_hidden_layers
        return {
            "sequence_output": sequence,
            "pooled_output": (batch, config.hidden_size),
            "encoder_outputs": [sequence] * layers,
            "embedding_output": sequence,
            "attention_probs": [(batch, config.num_attention_heads, length, length)] * layers,
        }

    def compute_output_spec(
        self, inputs: Any, training: bool = False, dtype: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """What `call` returns for symbolic inputs."""
        found = model_inputs.named(inputs, self.config.type_vocab_size > 0)
        shape = tuple(found["input_word_ids"].shape)
        dtype = dtype or self.compute_dtype
        return {
            name: [keras.KerasTensor(one, dtype) for one in found]
            if isinstance(found, list)
            else keras.KerasTensor(found, dtype)
            for name, found in self.compute_output_shape(shape).items()
        }

    def enable_lora(
        self, rank: int, alpha: float | None = None, layers: str = "attention/"
    ) -> None:
        """Trains low-rank updates of linear maps alone (Hu et al., arXiv 2106.09685).

        Everything else in the encoder is frozen. What is saved has the updates merged into the
        kernels; a model that is loaded can be trained on, from updates of zero.

        Args:
          rank: of each update.
          alpha: updates are multiplied by alpha / rank; None: by 1.
          layers: a regular expression that is found in the paths of the maps to update, such as
            "block_0/attention/qkv"; by default both projections of every attention.

        Raises:
          InputError: there is no such map, or it has an update already.
        """
        adaptation.enable_lora(self, rank, alpha, layers)

    def get_config(self) -> dict:
        """The arguments of the constructor, and what was done since."""
        return super().get_config() | {"pad_id": self.pad_id}

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
