"""What objectives share that guess tokens: a head over the vocabulary, and how it is scored."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import keras
import tensorflow as tf

from bert_tf.models import fused_ops, heads
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import Shape
from bert_tf.objectives.base import Batch, PretrainingObjective, Scalars


class Score(NamedTuple):
    """Weighted sums over the rows that were asked for, float32 scalars."""

    loss: tf.Tensor  # negative log-likelihood
    correct: tf.Tensor  # right guesses
    total: tf.Tensor  # weights


class Labels(NamedTuple):
    """What is asked of a batch."""

    positions: tf.Tensor | None  # int32 [batch, count]; None: all of the sequence
    ids: tf.Tensor  # int32 [batch * count], the right tokens
    weights: tf.Tensor  # float32 [batch * count]; 0 for what is not asked


class TokenPrediction(PretrainingObjective):
    """An encoder and the masked-LM head, which guesses tokens.

    Which ones is for subclasses to say, with `labels`. The loss is a sum of
    parts, each the mean of its scores; a part `p` has the counts `p_loss`,
    `p_correct` and `p_total`, and the metrics `p_loss` (nats) and `p_accuracy`.
    """

    # The objectives of the paper have the same columns, so that their histories can be laid
    # side by side.
    curves: ClassVar[tuple[str, ...]] = ("loss", "masked_lm_accuracy", "next_sentence_accuracy")
    parts: ClassVar[tuple[str, ...]] = ("masked_lm",)
    config: BertConfig

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, **kwargs)
        policy = self.dtype_policy
        self.masked_lm = heads.MaskedLMHead(self.config, name="masked_lm", dtype=policy)
        self.masked_lm.build(self.masked_lm.expected_shape)
        self.built = True

    @property
    def token_head(self) -> heads.MaskedLMHead:
        """The head over the vocabulary."""
        return self.masked_lm

    def labels(self, batch: Batch) -> Labels:
        """What is asked of a batch."""
        raise NotImplementedError

    def call(self, inputs: Batch, training: bool = False) -> dict[str, tf.Tensor]:
        """Returns float32 logits: `masked_lm` [batch, predictions, vocab_size].

        They are those at `masked_lm_positions`, int32 [batch, predictions], or at
        every position where that is not given.
        """
        return self.logits(self.encoder(inputs, training=training), inputs)

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits, by those of the inputs."""
        batch, length = input_shape["input_word_ids"]
        _, count = input_shape.get("masked_lm_positions", (batch, length))
        return {"masked_lm": (batch, count, self.config.vocab_size)}

    def logits(self, outputs: dict[str, tf.Tensor], inputs: Batch) -> dict[str, tf.Tensor]:
        """The logits that `call` returns, of the encoder's outputs and the inputs."""
        sequence, positions = outputs["sequence_output"], inputs.get("masked_lm_positions")
        count = tf.shape(sequence)[1] if positions is None else tf.shape(positions)[1]
        logits = self.token_logits(self._rows(sequence, positions))
        return {"masked_lm": tf.reshape(logits, [-1, count, self.config.vocab_size])}

    def token_logits(self, rows: tf.Tensor) -> tf.Tensor:
        """Float32 logits [rows, vocab_size] of encoder outputs [rows, hidden_size]."""
        logits = self.masked_lm(rows, self.encoder.word_embeddings)
        return tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.masked_lm.bias)

    def totals(self, batch: Batch) -> Scalars:
        """The number of tokens to guess in a batch, by the name of the part."""
        return {"masked_lm": tf.reduce_sum(self.labels(batch).weights)}

    def scores(self, outputs: dict[str, tf.Tensor], batch: Batch) -> dict[str, Score]:
        """The scores of each part, of the encoder's outputs and the batch."""
        labels = self.labels(batch)
        rows = self._rows(outputs["sequence_output"], labels.positions)
        logits = self.masked_lm(rows, self.encoder.word_embeddings)
        return {"masked_lm": score(logits, self.masked_lm.bias, labels.ids, labels.weights)}

    def batch_loss(
        self,
        batch: Batch,
        totals: Scalars,
        training: bool,
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, Scalars]:
        """The loss of a batch, or of a part of one, and its counts; see `Trainable`."""
        outputs = self.encoder(batch, training=training, dropout_seed=dropout_seed)
        losses: list[tf.Tensor] = []
        counts: Scalars = {}
        for part, sums in self.scores(outputs, batch).items():
            losses.append(tf.math.divide_no_nan(sums.loss, totals[part]))
            counts |= {f"{part}_{name}": value for name, value in sums._asdict().items()}
        return tf.add_n(losses), counts

    def metrics_of(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Means of each part, their `loss`, and the `perplexity` of the tokens guessed."""
        losses, accuracies = mean_metrics(self.parts, counts)
        known = [loss for loss in losses.values() if not math.isnan(loss)]
        return {
            "loss": sum(known) if known else math.nan,
            **losses,
            **accuracies,
            "perplexity": exponential(losses["masked_lm_loss"]),
        }

    def _rows(self, sequence: tf.Tensor, positions: tf.Tensor | None) -> tf.Tensor:
        """Encoder outputs at the positions, or at all of them, [rows, hidden_size]."""
        if positions is None:
            return tf.reshape(sequence, [-1, self.config.hidden_size])
        return heads.gather_positions(sequence, positions)


def mean_metrics(
    parts: Sequence[str], counts: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """The mean losses `p_loss` and accuracies `p_accuracy` of parts, by sums of their scores."""

    def mean(part: str, name: str) -> float:
        total = counts.get(f"{part}_total", 0.0)
        return counts[f"{part}_{name}"] / total if total else math.nan

    losses = {f"{part}_loss": mean(part, "loss") for part in parts}
    return losses, {f"{part}_accuracy": mean(part, "correct") for part in parts}


def exponential(value: float) -> float:
    """e to a power; infinite where it is too large to be a number."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def score(logits: tf.Tensor, bias: keras.Variable, labels: tf.Tensor, weights: tf.Tensor) -> Score:
    """Scores the logits of rows.

    Args:
      logits: [rows, classes], compute dtype, without their bias.
      bias: [classes].
      labels: int32 [rows].
      weights: float32 [rows].
    """
    bias = tf.convert_to_tensor(bias)
    losses = fused_ops.softmax_cross_entropy(logits, bias, labels) * weights
    guesses = tf.argmax(tf.cast(logits, tf.float32) + bias, -1, tf.int32)
    correct = tf.cast(guesses == labels, tf.float32) * weights
    return Score(tf.reduce_sum(losses), tf.reduce_sum(correct), tf.reduce_sum(weights))
