"""The two language models of ELMo, which share only the vectors of words."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.models import fused_ops, rematerialization
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.elmo.word_embeddings import WordEmbeddings, character_table
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.layers import Lstm, MeanPooler
from bert_tf.models.layers.base import Configured, Layer, serializable
from pipelines.tokenizers.vocabulary import Vocabulary


@serializable
class LstmPair(Configured, Layer):
    """One LSTM layer of each direction, independent of each other.

    Args:
      config: Sizes, clipping, dropout.
      residual: Whether the outputs are added to the inputs.
    """

    config: ElmoConfig

    def __init__(self, config: ElmoConfig, residual: bool = False, **kwargs):
        super().__init__((None, None, config.projection_size), **kwargs)
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
        """The forward and the backward LSTM."""
        return self.forward, self.backward

    def call(
        self, x: Sequence[tf.Tensor], mask: tf.Tensor, seeds: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads the inputs of the two directions.

        Args:
          x: Two tensors [batch, length, projection_size], forward and backward.
          mask: int32 [batch, length], 1 for tokens and 0 for padding.
          seeds: int32 [2], for dropout; None: no dropout.

        Returns:
          Two tensors of the same shape.
        """
        found = []
        for index, (lstm, inputs) in enumerate(zip(self.members(), x, strict=True)):
            seed = None if seeds is None else seeds[index]
            inputs = fused_ops.dropout(inputs, self.config.hidden_dropout_prob, seed)
            outputs = lstm(inputs, mask)
            found.append(outputs + inputs if self.residual else outputs)
        return found[0], found[1]


@serializable
class ElmoEncoder(Encoder):
    """ELMo without its softmax, with the interface of `BertEncoder`.

    Outputs have forward values first. `pooled_output` is the mean over the tokens,
    `embedding_output` the vectors of words twice side by side, and `attention_probs` is empty.

    >>> encoder = ElmoEncoder(ElmoConfig.named("elmo-tiny", vocab_size=1000))
    >>> encoder(tf.constant([[2, 7, 9, 3]]))["sequence_output"].shape
    TensorShape([1, 4, 128])

    States are reset for each sequence, whereas the original carries them over to the next one.

    Args:
      config: The configuration.
      pad_id: The padding id, from which a missing mask is made; None: 0.
      allocate: Whether to create the variables; an encoder without them only describes itself.

    Raises:
      InputError: This machine has not enough memory.
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

    def set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Stores the characters of the words; further rows of the table have none."""
        rows = character_table(vocabulary)
        missing = self.config.vocab_size - len(rows)
        self.embeddings.characters.assign(tf.pad(rows, [[0, missing], [0, 0]]))

    @property
    def num_seeds(self) -> int:
        """Number of dropouts: one for each direction of each layer."""
        return 2 * len(self.blocks)

    def encode_batch(
        self,
        batch: EncoderInputs,
        seeds: tf.Tensor | None,
        dtype: str | None,
        drop_padding: bool,
    ) -> dict[str, Any]:
        """Computes the result of `call`, without dropout if `seeds` is None."""
        words, mask = self.embeddings(batch.word_ids, dtype=dtype), batch.mask
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
