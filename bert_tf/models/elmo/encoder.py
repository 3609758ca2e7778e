"""The two language models of ELMo, which share the vectors of words and the softmax."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.models import fused_ops, rematerialization
from bert_tf.models.base_encoder import Encoder
from bert_tf.models.elmo.word_embeddings import WordEmbeddings, character_table
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.inputs import EncoderInputs
from bert_tf.models.layers import Lstm, NoPooler, pooling
from bert_tf.models.layers.base import Configured, Layer, Shape, Weight, serializable
from pipelines.tokenizers.vocabulary import Vocabulary

_RESOLUTION = 1 << 30  # random integers are below it, so probabilities are multiples of 2^-30


@serializable
class LstmPair(Configured, Layer):
    """Two independent LSTM layers, one of each direction; `residual` adds their inputs."""

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
        """Reads the two inputs [batch, length, projection_size]; returns outputs of the same shape.

        The mask is int32 [batch, length], 1 for tokens; `seeds` int32 [2], None for no dropout.
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
    """

    config: ElmoConfig
    embeddings: WordEmbeddings
    blocks: list[LstmPair]

    def create_layers(self, policy: keras.DTypePolicy) -> None:
        """Creates `embeddings`, `blocks` and `pooler`."""
        config = self.config
        self.embeddings = WordEmbeddings(config, name="embeddings", dtype=policy)
        self.blocks = [
            LstmPair(config, config.residual and index > 0, name=f"block_{index}", dtype=policy)
            for index in range(config.num_hidden_layers)
        ]
        self.pooler = NoPooler(config.hidden_size, name="pooler", dtype=policy)

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
        self, batch: EncoderInputs, seeds: tf.Tensor | None, dtype: str | None, drop_padding: bool
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
        return self.pooler(tf.cast(pooling.mean(sequence, mask), sequence.dtype))


@serializable
class WordHead(Configured, Layer):
    """Logits of the predicted words, from the vectors of one direction."""

    config: ElmoConfig

    def __init__(self, config: ElmoConfig, **kwargs):
        super().__init__((None, config.projection_size), **kwargs)
        self.config = config

    def members(self) -> tuple[Weight, ...]:
        """Kernel [predicted words, projection_size] and bias [predicted words]."""
        words, width = self.config.predicted_words, self.config.projection_size
        return (
            Weight("kernel", (words, width), 1 / math.sqrt(width)),
            Weight("bias", (words,), "zeros"),
        )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The shape [rows, predicted words] for [rows, projection_size]."""
        rows, _ = super().compute_output_shape(input_shape)
        return (rows, self.config.predicted_words)

    def flops(self, predictions: int) -> int:
        """Floating-point operations of both directions for `predictions` positions."""
        words = self.config.sampled_words or self.config.predicted_words
        return 2 * 2 * predictions * self.config.projection_size * words

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the logits [rows, predicted words] without their bias, in the dtype of x."""
        kernel = tf.cast(tf.convert_to_tensor(self.kernel), x.dtype)
        return tf.matmul(x, kernel, transpose_b=True)

    def sampled_losses(
        self, x: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The loss of each row over its label and some sampled words (sampled softmax).

        Words are sampled log-uniformly, with replacement: in a vocabulary sorted by frequency, this
        is about their frequency. Logits are corrected for the sampling probabilities (Jean et al.
        2015, arXiv 1412.2007); a sampled word that equals the label is ignored.

        Args:
          x: [rows, projection_size].
          labels: int32 [rows].
          seed: int32 scalar for the sampling.

        Returns:
          The negative log-likelihood over label and sampled words, and whether the label has the
          highest logit; float32 [rows] each.
        """
        drawn = self._draw(seed)
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        expected = tf.math.log(
            self.config.sampled_words * tf.constant(_probabilities(self.config.predicted_words))
        )

        def corrected(products: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
            offset = tf.gather(bias, words) - tf.gather(expected, words)
            return tf.cast(products, tf.float32) + offset

        rows = tf.cast(tf.gather(kernel, labels), x.dtype)
        right = corrected(tf.reduce_sum(tf.cast(x * rows, tf.float32), -1), labels)
        candidates = tf.cast(tf.gather(kernel, drawn), x.dtype)
        wrong = corrected(tf.matmul(x, candidates, transpose_b=True), drawn)
        wrong = tf.where(drawn == labels[:, tf.newaxis], wrong.dtype.min, wrong)
        total = tf.reduce_logsumexp(tf.concat([right[:, tf.newaxis], wrong], 1), 1)
        return total - right, tf.cast(right >= tf.reduce_max(wrong, 1), tf.float32)

    def _draw(self, seed: tf.Tensor) -> tf.Tensor:
        """Samples words, int32 [sampled words], by integers, which XLA draws alike."""
        ends = np.round(
            np.cumsum(_probabilities(self.config.predicted_words), dtype=np.float64) * _RESOLUTION
        )
        numbers = tf.random.stateless_uniform(
            [self.config.sampled_words], tf.stack([seed, 0]), 0, _RESOLUTION, tf.int32, alg="philox"
        )
        ends[-1] = _RESOLUTION
        return tf.searchsorted(tf.constant(ends, tf.int32), numbers, side="right")


def _probabilities(words: int) -> np.ndarray:
    """The log-uniform probability (Zipf's law) of each word by rank, float32 [words]."""
    ranks: Any = np.arange(words, dtype=np.float64)
    return (np.log1p(1 / (ranks + 1)) / np.log(words + 1)).astype(np.float32)
