"""Base of objectives that predict tokens with a head over the vocabulary."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from bert_tf.models import heads
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import Shape
from bert_tf.objectives.base import Batch, LossSums, PretrainingObjective, Scalars, score


class TokenLabels(NamedTuple):
    """The tokens of a batch to predict."""

    positions: tf.Tensor | None  # int32 [batch, count]; None: all of the sequence
    ids: tf.Tensor  # int32 [batch * count], the correct tokens
    weights: tf.Tensor  # float32 [batch * count]; 0 for padding


class TokenPrediction(PretrainingObjective):
    """An encoder and the masked-LM head, which predicts the tokens of `labels`."""

    # The objectives of the paper have the same columns, so that their histories can be compared.
    curves: ClassVar[tuple[str, ...]] = ("loss", "masked_lm_accuracy", "next_sentence_accuracy")
    parts: ClassVar[tuple[str, ...]] = ("masked_lm",)
    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.masked_lm = self.create_head()
        self.masked_lm.build(self.masked_lm.expected_shape)
        self.built = True

    def create_head(self) -> heads.MaskedLMHead:
        """The head over the vocabulary, not yet built."""
        return heads.MaskedLMHead(self.config, name="masked_lm", dtype=self.dtype_policy)

    @property
    def token_head(self) -> heads.MaskedLMHead:
        """The head over the vocabulary."""
        return self.masked_lm

    def labels(self, batch: Batch) -> TokenLabels:
        """The tokens of a batch to predict."""
        raise NotImplementedError

    def call(self, inputs: Batch, training: bool = False) -> dict[str, tf.Tensor]:
        """Returns float32 logits: `masked_lm` [batch, predictions, vocab_size].

        The positions are `masked_lm_positions`, int32 [batch, predictions], if given, else all.
        """
        positions = inputs.get("masked_lm_positions")
        outputs = self.encoder(inputs, training=training, outputs_at=positions)
        return self.logits(outputs)

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits for the shapes of the inputs."""
        batch, length = input_shape["input_word_ids"]
        _, count = input_shape.get("masked_lm_positions", (batch, length))
        return {"masked_lm": (batch, count, self.config.vocab_size)}

    def logits(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The logits that `call` returns, from the encoder's outputs."""
        sequence = outputs["sequence_output"]
        logits = self.token_logits(self.rows(sequence))
        shape = tf.concat([tf.shape(sequence)[:2], [self.config.vocab_size]], 0)
        return {"masked_lm": tf.reshape(logits, shape)}

    def token_logits(self, rows: tf.Tensor) -> tf.Tensor:
        """Float32 logits [rows, vocab_size] for encoder outputs [rows, hidden_size]."""
        logits = self.masked_lm(rows, self.encoder.word_embeddings)
        return tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.masked_lm.bias)

    def totals(self, batch: Batch) -> Scalars:
        """The number of tokens to predict, by the name of the part."""
        return {self.parts[0]: tf.reduce_sum(self.labels(batch).weights)}

    def encode(
        self, batch: Batch, training: bool, dropout_seed: tf.Tensor | None
    ) -> dict[str, Any]:
        """The encoder's outputs, with `sequence_output` at the positions of `outputs_at`."""
        options = {"dropout_seed": dropout_seed, "outputs_at": self.outputs_at(batch)}
        return self.encoder(batch, training=training, **options)

    def outputs_at(self, batch: Batch) -> tf.Tensor | None:
        """The positions int32 [batch, count] that `sums` reads: of tokens to predict; None: all."""
        return self.labels(batch).positions

    def sums(
        self, outputs: dict[str, tf.Tensor], batch: Batch, seed: tf.Tensor | None
    ) -> dict[str, LossSums]:
        """The sums of each part, as in the base class."""
        labels = self.labels(batch)
        logits = self.masked_lm(self.rows(outputs["sequence_output"]), self.encoder.word_embeddings)
        return {self.parts[0]: score(logits, self.masked_lm.bias, labels.ids, labels.weights)}

    def rows(self, sequence: tf.Tensor) -> tf.Tensor:
        """Encoder outputs [batch, count, width] as [batch * count, width]."""
        return tf.reshape(sequence, [-1, sequence.shape[-1]])
