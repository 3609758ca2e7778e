"""The two language models of ELMo, which share the vectors of words and nothing else."""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_tf.models import fused_ops, pooling, rematerialization
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.elmo import characters
from bert_tf.models.elmo.word_embeddings import WordEmbeddings
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.layers import Lstm
from bert_tf.models.layers.base import Configured, Layer, Shape, serializable
from pipelines.tokenizers.vocabulary import Vocabulary


@serializable
class LstmPair(Configured, Layer):
    """A layer of either direction; neither reads the other.

    Args:
      config: sizes, clips, dropout.
      residual: whether each adds to its input.
    """

    config: ElmoConfig

    def __init__(self, config: ElmoConfig, residual: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.config, self.residual = config, residual
        self.forward, self.backward = (
            Lstm(
                config.projection_size,
                config.cell_size,
                config.projection_size if config.projection_size < config.cell_size else None,
                reverse=name == "backward",
                cell_clip=config.cell_clip,
                projection_clip=config.projection_clip,
                name=name,
                dtype=self.dtype_policy,
            )
            for name in ("forward", "backward")
        )

    def members(self) -> tuple[Lstm, Lstm]:
        """The LSTMs, the forward one first."""
        return self.forward, self.backward

    @property
    def expected_shape(self) -> Shape:
        """[batch, length, projection_size]."""
        return (None, None, self.config.projection_size)

    def flops(self, length: int) -> int:
        """Floating-point operations of the products of a sequence."""
        return self.forward.flops(length) + self.backward.flops(length)

    def call(
        self, x: Sequence[tf.Tensor], mask: tf.Tensor, seeds: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads the inputs of the two directions.

        Args:
          x: two of [batch, length, projection_size].
          mask: int32 [batch, length], 1 for tokens and 0 for padding.
          seeds: int32 [2], of the dropout; None: nothing is dropped.

        Returns:
          The outputs, as x.
        """
        found = []
        for index, (lstm, inputs) in enumerate(zip(self.members(), x, strict=True)):
            seed = None if seeds is None else seeds[index]
            inputs = fused_ops.dropout(inputs, self.config.hidden_dropout_prob, seed)
            outputs = lstm(inputs, mask)
            found.append(outputs + inputs if self.residual else outputs)
        return found[0], found[1]

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {"residual": self.residual}


@serializable
class MeanPooler(Layer):
    """The vector of a sequence: the mean of those of its tokens, without weights.

    Args:
      width: of the vectors.
    """

    def __init__(self, width: int, **kwargs):
        super().__init__(**kwargs)
        self.width = width

    def members(self) -> tuple[()]:
        """Nothing."""
        return ()

    @property
    def expected_shape(self) -> Shape:
        """[batch, length, width]."""
        return (None, None, self.width)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """[batch, width] of [batch, length, width].

        Raises:
          InputError: the input has another width.
        """
        batch, _, width = super().compute_output_shape(input_shape)
        return (batch, width)

    def call(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The mean of [batch, length, width] where the mask is 1, [batch, width], as x."""
        return tf.cast(pooling.mean(x, mask), x.dtype)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {"width": self.width}


@serializable
class ElmoEncoder(Encoder):
    """ELMo without its softmax; trained, and of use, as an encoder like BERT's.

    >>> encoder = ElmoEncoder(ElmoConfig.named("elmo-tiny", vocab_size=1000))
    >>> encoder(tf.constant([[2, 7, 9, 3]]))["sequence_output"].shape
    TensorShape([1, 4, 128])

    States begin anew with each sequence, where the original carries them on from one to the next.

    Args:
      config: the configuration.
      pad_id: the id of padding, by which a mask is made where none is given; None: 0.
      allocate: whether to create the variables at once; without them it only tells of itself.

    Raises:
      InputError: this machine has no memory for it.
    """

    config: ElmoConfig
    embeddings: WordEmbeddings
    blocks: list[LstmPair]

    def __init__(
        self, config: ElmoConfig, *, pad_id: int | None = None, allocate: bool = True, **kwargs
    ):
        super().__init__(config, pad_id, **kwargs)
        policy = self.dtype_policy
        self.embeddings = WordEmbeddings(config, name="embeddings", dtype=policy)
        self.blocks = [
            LstmPair(config, config.residual and index > 0, name=f"block_{index}", dtype=policy)
            for index in range(config.num_hidden_layers)
        ]
        self.pooler = MeanPooler(config.hidden_size, name="pooler", dtype=policy)
        self.finish(allocate)

    def flops(self, length: int) -> int:
        """Floating-point operations of a forward pass over one sequence of so many words.

        Two for each multiply-add of the products; the rest is not counted.
        """
        return sum(part.flops(length) for part in (self.embeddings, *self.blocks))

    def set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Takes the characters of its words; rows of the table beyond have none."""
        rows = characters.table(vocabulary)
        missing = self.config.vocab_size - len(rows)
        self.embeddings.characters.assign(tf.pad(rows, [[0, missing], [0, 0]]))

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
          inputs: as `BertEncoder.call` has them; `input_type_ids` are ignored.
          training: whether to drop out.
          dropout_seed: int32 scalar; the same seed drops the same elements.
            None: drawn from TensorFlow's global generator.
          dtype: to compute in; None: the compute dtype of the model.
          drop_padding: of no effect.

        Returns:
          `sequence_output` [batch, length, hidden_size], forward values first; `pooled_output`
          [batch, hidden_size], its mean over the tokens; `encoder_outputs`, the output of each
          layer, as `sequence_output`; `embedding_output`, the vectors of words, twice side by
          side, the same; `attention_probs`, of which there are none; all of the dtype computed in;
          and `input_mask`, int32 [batch, length].

        Raises:
          InputError: the inputs have another form, rank or dtype.
        """
        word_ids, mask, _ = EncoderInputs.of(inputs, self.pad_id, typed=False)
        words = self.embeddings(word_ids, dtype=dtype)
        seeds = None
        if training:
            seeds = self.draw_seeds(dropout_seed, 2 * len(self.blocks))
        x = (words, words)
        layers = [tf.concat(x, -1)]
        for index, block in enumerate(self.blocks):
            seed = None if seeds is None else seeds[2 * index : 2 * index + 2]
            x = rematerialization.apply(block, x, mask, seed)
            layers.append(tf.concat(x, -1))
        return {
            "sequence_output": layers[-1],
            "pooled_output": self.pool(layers[-1], mask),
            "encoder_outputs": layers[1:],
            "embedding_output": layers[0],
            "attention_probs": [],
            "input_mask": mask,
        }

    def pool(
        self, sequence: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The mean over the tokens."""
        return self.pooler(sequence, mask)
