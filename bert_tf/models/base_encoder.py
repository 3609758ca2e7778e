"""The interface of encoders of all families."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from bert_tf.models import inputs as model_inputs
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.layers import adaptation
from bert_tf.models.layers.base import Configured, Declared, Layer, Shape
from bert_tf.models.layers.token_rows import gather_positions
from pipelines.common import machine
from pipelines.common.errors import InputError
from pipelines.tokenizers.vocabulary import Vocabulary


class Encoder(Configured, Declared, keras.Model):
    """Vectors of tokens and one vector of each sequence, without heads.

    Subclasses define `create_layers`, `num_seeds`, `encode_batch` and `pool`.

    Attributes:
      embeddings: The layer that embeds tokens.
      blocks: The layers above it, from bottom to top.
      pooler: The layer that makes the vector of a sequence.

    Args:
      config: The configuration.
      pad_id: The padding id, from which a missing mask is made; None: the default of the family (0,
        or 1 for a RoBERTa). `bert_tf.load(path).encoder()` uses that of the vocabulary.
      allocate: Whether to create the variables; an encoder without them only describes itself.

    Raises:
      InputError: This machine has not enough memory.
    """

    embeddings: Layer
    blocks: Sequence[Layer]
    pooler: Layer

    def __init__(
        self, config: EncoderConfig, *, pad_id: int | None = None, allocate: bool = True, **kwargs
    ):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.pad_id = config.default_pad_id if pad_id is None else pad_id
        self.create_layers(self.dtype_policy)
        if allocate:
            machine.check_memory(4 * self.parameters, f"a model of {self.parameters:,} parameters")
            self.build(self.expected_shape)

    def create_layers(self, policy: keras.DTypePolicy) -> None:
        """Creates `embeddings`, `blocks` and `pooler`."""
        raise NotImplementedError

    @classmethod
    def unallocated(cls, config: EncoderConfig) -> Self:
        """An encoder without variables, which reports `shapes`, `parameters` and `flops`."""
        return cls(config, allocate=False, name="encoder")

    def members(self) -> tuple[Layer, ...]:
        """Embeddings, blocks from bottom to top, and pooler."""
        return self.embeddings, *self.blocks, self.pooler

    @property
    def expected_shape(self) -> dict[str, Shape]:
        """The shape [batch, length] of each input."""
        return model_inputs.SHAPES

    @property
    def input_dtype(self) -> str:
        """The dtype of the inputs in an export by Keras."""
        return "int32"

    def flops(self, length: int, outputs: int | None = None) -> int:
        """Floating-point operations of a forward pass over one sequence of `length` tokens.

        Matrix products only, 2 per multiply-add, without the pooler, which has one row. `outputs`
        is the number of positions in `outputs_at`; None: all.
        """
        del outputs  # all are computed
        repeats = self.config.num_hidden_layers // len(self.blocks)
        blocks = sum(block.flops(length) for block in self.blocks)
        return self.embeddings.flops(length) + repeats * blocks

    def call(
        self,
        inputs: Mapping[str, tf.Tensor] | Sequence[tf.Tensor] | tf.Tensor,
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
        dtype: str | None = None,
        drop_padding: bool = False,
        outputs_at: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Encodes a batch.

        Args:
          inputs: int32 [batch, length] each: `input_word_ids`, `input_mask` (1 for tokens, 0 for
            padding) and `input_type_ids` (segments; ignored without segment embeddings), as a dict
            by these names, as a list of the three, or the ids alone. Without a mask, all ids but
            `pad_id` are tokens; without segments, all are of the first.
          training: Whether to apply dropout.
          dropout_seed: int32 scalar that determines the dropout; None: drawn from TensorFlow's
            global generator.
          dtype: The dtype to compute in; None: the compute dtype of the model.
          drop_padding: Whether a Transformer computes tokens only, which is faster for mixed
            lengths; outputs at padding are then arbitrary.
          outputs_at: int32 [batch, count], each from 0 to length - 1: the positions to return in
            `sequence_output`; None: all. If the pooler reads the first token, the last layer
            computes only it and these, in this order in the last items of `encoder_outputs` and
            `attention_probs`.

        Returns:
          `sequence_output` [batch, length, hidden_size]; `pooled_output` [batch, hidden_size];
          `encoder_outputs`, the output of each layer, and `embedding_output`, the input of the
          first layer, [batch, length, hidden_size] each; `attention_probs` of each layer that has
          attention, [batch, heads, length, length], or of a local one the shape of
          `SelfAttention.probabilities_shape`; all in the dtype computed in; and `input_mask`,
          int32 [batch, length].

        Raises:
          InputError: The inputs have another form, rank or dtype; or the static length exceeds the
            positions.
        """
        batch = self.batch_of(inputs)
        seeds = self.draw_seeds(dropout_seed) if training else None
        if outputs_at is None:
            return self.encode_batch(batch, seeds, dtype, drop_padding)
        positions = tf.cast(outputs_at, tf.int32)
        return self.encode_at(positions, batch, seeds, dtype, drop_padding)

    def batch_of(self, inputs: Any) -> EncoderInputs:
        """Converts the inputs of `call`."""
        return EncoderInputs.of(inputs, self.pad_id, self.config.type_vocab_size)

    def encode_batch(
        self, batch: EncoderInputs, seeds: tf.Tensor | None, dtype: str | None, drop_padding: bool
    ) -> dict[str, Any]:
        """Computes the result of `call`, without dropout if `seeds` is None."""
        raise NotImplementedError

    def encode_at(self, positions: tf.Tensor, *args: Any) -> dict[str, Any]:
        """The result of `encode_batch(*args)`, with `sequence_output` at positions alone."""
        outputs = self.encode_batch(*args)
        chosen = gather_positions(outputs["sequence_output"], positions)
        return outputs | {"sequence_output": chosen}

    @property
    def num_seeds(self) -> int:
        """Number of dropout seeds in `encode_batch`."""
        raise NotImplementedError

    def draw_seeds(self, seed: tf.Tensor | None) -> tf.Tensor:
        """int32 [num_seeds] dropout seeds from one seed; None: from a random one."""
        if seed is None:
            seed = tf.random.uniform([], maxval=tf.int32.max, dtype=tf.int32)
        return tf.random.stateless_uniform(
            [self.num_seeds], tf.stack([seed, 0]), minval=None, maxval=None, dtype=tf.int32
        )

    def set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Stores what the encoder needs of a vocabulary; nothing for most encoders."""

    def layer_variables(self) -> list[list[keras.Variable]]:
        """The variables of each layer from bottom to top: the embeddings', then each block's.

        A block shared by all layers appears once. The pooler is trained with the heads, and its
        variables are not included.
        """
        return [part.variables for part in (self.embeddings, *self.blocks)]

    def pool(
        self, sequence: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The vectors [batch, hidden_size] of sequences, from outputs [batch, length, hidden_size].

        `seed` is an int32 scalar for the dropout before the pooler; None: no dropout.
        """
        raise NotImplementedError

    def pooled(self, inputs: Any, drop_padding: bool = False) -> tf.Tensor:
        """Only the pooled output [batch, hidden_size], without dropout; arguments as for `call`."""
        batch = self.batch_of(inputs)
        return self.encode_at(batch.word_ids[:, :0], batch, None, None, drop_padding)[
            "pooled_output"
        ]

    def pooler_seed(self, dropout_seed: tf.Tensor | None) -> tf.Tensor | None:
        """The seed for `pool` in training, from that of the model; None: no dropout there."""
        return None

    def known_outputs(
        self,
        layers: Mapping[int, tf.Tensor],
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
        dtype: str | None = None,
    ) -> dict[str, Any]:
        """The result of `call` as far as known outputs of layers determine it; None for the rest.

        `layers` are [batch, length, hidden_size], by the number of the layer (0: the embeddings).
        Of `inputs` only the mask is used; the only dropout is that before the pooler.
        """
        depth, dtype = self.config.num_hidden_layers, dtype or self.compute_dtype
        shape = [None, None, self.config.hidden_size]
        known = {i: tf.cast(tf.ensure_shape(x, shape), dtype) for i, x in layers.items()}
        mask, last = inputs["input_mask"], known.get(depth)
        seed = self.pooler_seed(dropout_seed) if training else None
        return {
            "sequence_output": last,
            "pooled_output": None if last is None else self.pool(last, mask, seed),
            "encoder_outputs": [known.get(1 + index) for index in range(depth)],
            "embedding_output": known.get(0),
            "input_mask": mask,
        }

    def compute_output_shape(self, input_shape: Any) -> dict[str, Any]:
        """The shapes of the outputs for those of the inputs, in any form that `call` accepts."""
        if isinstance(input_shape, Mapping):
            input_shape = input_shape["input_word_ids"]
        elif isinstance(input_shape[0], list | tuple):
            input_shape = input_shape[0]
        batch, length = input_shape
        config = self.config
        config.check_length(length)
        sequence = (batch, length, config.hidden_size)
        return {
            "sequence_output": sequence,
            "pooled_output": (batch, config.hidden_size),
            "encoder_outputs": [sequence] * config.num_hidden_layers,
            "embedding_output": sequence,
            "attention_probs": self.attention_shapes(batch, length),
            "input_mask": (batch, length),
        }

    def attention_shapes(self, batch: int | None, length: int | None) -> list[Shape]:
        """The shape of the attention probabilities of each layer; empty without attention."""
        return []

    def compute_output_spec(
        self, inputs: Any, training: bool = False, dtype: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """The result of `call` for symbolic inputs.

        Raises:
          InputError: `outputs_at` is given, which symbolic calls do not have.
        """
        if kwargs.get("outputs_at") is not None:
            raise InputError("outputs_at is for calls with tensors, not with symbolic inputs.")
        found = model_inputs.named(inputs, self.config.type_vocab_size > 0)
        shape = tuple(found["input_word_ids"].shape)
        dtype = dtype or self.compute_dtype
        return {
            name: [keras.KerasTensor(one, dtype) for one in shapes]
            if isinstance(shapes, list)
            else keras.KerasTensor(shapes, "int32" if name == "input_mask" else dtype)
            for name, shapes in self.compute_output_shape(shape).items()
        }

    def enable_lora(
        self, rank: int, alpha: float | None = None, layers: str = "attention/"
    ) -> None:
        """Restricts training to low-rank updates of linear maps (Hu et al., arXiv 2106.09685).

        Everything else in the encoder is frozen. Saving merges the updates into the kernels,
        unless these are int8; a loaded model can be trained further, then with updates that start
        at zero.

        Args:
          rank: The rank of each update.
          alpha: Updates are multiplied by alpha / rank; None: by 1.
          layers: A regular expression searched for in the paths of linear maps, such as
            "block_0/attention/qkv"; by default it selects both projections of every attention.

        Raises:
          InputError: No map matches, one already has an update, or an argument is invalid.
        """
        adaptation.enable_lora(self, rank, alpha, layers)
