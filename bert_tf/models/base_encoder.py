"""What encoders of all families are to everybody else."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from bert_tf.models import inputs as model_inputs
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.layers import adaptation
from bert_tf.models.layers.base import Configured, Layer, Shape, Stated
from pipelines.common import memory
from pipelines.tokenizers.vocabulary import Vocabulary


class Encoder(Configured, Stated, keras.Model):
    """Vectors of tokens, and one of each sequence, without heads.

    Subclasses make `embeddings`, `blocks` and `pooler`, then call `finish`, and define `call`.

    Attributes:
      embeddings: the layer that embeds tokens.
      blocks: the layers above, from bottom to top.
      pooler: makes the vector of a sequence.

    Args:
      config: the configuration.
      pad_id: the id of padding, by which a mask is made where none is given; None: the usual one
        of the family. `bert_tf.load(path).encoder()` has that of the vocabulary.
    """

    embeddings: Layer
    blocks: Sequence[Layer]
    pooler: Layer

    def __init__(self, config: EncoderConfig, pad_id: int | None = None, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.pad_id = config.default_pad_id if pad_id is None else pad_id

    def finish(self, allocate: bool) -> None:
        """Creates the variables, where they are wanted.

        Raises:
          InputError: this machine has no memory for them.
        """
        if allocate:
            memory.check(4 * self.parameters, f"a model of {self.parameters:,} parameters")
            self.build(self.expected_shape)

    @classmethod
    def unallocated(cls, config: EncoderConfig) -> Self:
        """An encoder that takes no memory: it tells its `shapes`, `parameters` and `flops`."""
        return cls(config, allocate=False, name="encoder")

    def members(self) -> tuple[Layer, ...]:
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

        Two for each multiply-add of the matrix products; the rest is not counted.
        """
        raise NotImplementedError

    def set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Learns of a vocabulary what it has to know; most need nothing but its size."""

    def layer_variables(self) -> list[list[keras.Variable]]:
        """The variables of each layer from bottom to top: the embeddings', then each block's.

        A block that all layers share is there once. The pooler's are not among them: it is
        trained with the heads.
        """
        return [part.variables for part in (self.embeddings, *self.blocks)]

    def pool(
        self, sequence: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The vector of each sequence.

        Args:
          sequence: outputs of the last layer, [batch, length, hidden_size].
          mask: int32 [batch, length].
          seed: int32 scalar, of dropout before; None: nothing is dropped.

        Returns:
          [batch, hidden_size], of the dtype of the sequence.
        """
        raise NotImplementedError

    def pooled(self, inputs: Any, drop_padding: bool = False) -> tf.Tensor:
        """The pooled output alone, [batch, hidden_size], where nothing drops out.

        Args:
          inputs: as of `call`.
          drop_padding: as of `call`.
        """
        return self(inputs, drop_padding=drop_padding)["pooled_output"]

    def pooler_seed(self, dropout_seed: tf.Tensor | None) -> tf.Tensor | None:
        """The seed that `pool` gets in training, of that of the model; None: it drops nothing."""
        return None

    def known_outputs(
        self,
        layers: Mapping[int, tf.Tensor],
        inputs: Mapping[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | None = None,
        dtype: str | None = None,
    ) -> dict[str, Any]:
        """The outputs that follow from those of some layers, which were computed before.

        Args:
          layers: [batch, length, hidden_size], by number; 0 is the embeddings.
          inputs: as of `call`; only the mask counts.
          training: whether to drop out, before the pooler.
          dropout_seed: as of `call`.
          dtype: as of `call`.

        Returns:
          What `call` returns, with None for what is not known.
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
            "attention_probs": self.attention_shapes(batch, length),
            "input_mask": (batch, length),
        }

    def attention_shapes(self, batch: int | None, length: int | None) -> list[Shape]:
        """The shapes of the attention probabilities of each layer; none of most encoders."""
        return []

    def compute_output_spec(
        self, inputs: Any, training: bool = False, dtype: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """What `call` returns for symbolic inputs."""
        found = model_inputs.named(inputs, self.config.type_vocab_size > 0)
        shape = tuple(found["input_word_ids"].shape)
        dtype = dtype or self.compute_dtype
        dtypes = {"input_mask": "int32"}
        return {
            name: [keras.KerasTensor(one, dtype) for one in found]
            if isinstance(found, list)
            else keras.KerasTensor(found, dtypes.get(name, dtype))
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

    def draw_seeds(self, seed: tf.Tensor | None, count: int) -> tf.Tensor:
        """So many seeds of dropout, int32 [count], of one; None: of one that is drawn."""
        if seed is None:
            seed = tf.random.uniform([], maxval=tf.int32.max, dtype=tf.int32)
        return tf.random.stateless_uniform(
            [count], tf.stack([seed, 0]), minval=None, maxval=None, dtype=tf.int32
        )
