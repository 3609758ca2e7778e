"""Pre-training objectives: how outputs become a loss, and what is counted of it.

An objective holds the encoder and its heads. Its loss is a sum over the
examples it is given, divided by totals that the caller supplies, so that any
split of a batch (over replicas, over accumulation steps) gives the same loss.
"""

import dataclasses
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf.models import fused_ops, heads
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.layers.base import Configured
from pipelines.common.errors import InputError
from pipelines.pretraining.settings import Objective


class Counts(NamedTuple):
    """What one batch adds to the metrics, float32 scalars, summed over its examples."""

    masked_lm_loss: tf.Tensor
    masked_lm_correct: tf.Tensor
    masked_lm_total: tf.Tensor
    next_sentence_loss: tf.Tensor
    next_sentence_correct: tf.Tensor
    next_sentence_total: tf.Tensor


class Metrics(NamedTuple):
    """Means of `Counts`; NaN where an objective has no such part."""

    loss: float
    masked_lm_loss: float  # nats a token
    masked_lm_accuracy: float
    next_sentence_loss: float  # nats
    next_sentence_accuracy: float

    @classmethod
    def of(cls, counts: "Counts") -> "Metrics":
        """Divides summed counts."""
        values = Counts(*(float(value) for value in counts))

        def mean(value: float, total: float) -> float:
            return value / total if total else float("nan")

        masked = mean(values.masked_lm_loss, values.masked_lm_total)
        following = mean(values.next_sentence_loss, values.next_sentence_total)
        return cls(
            sum(loss for loss in (masked, following) if loss == loss),
            masked,
            mean(values.masked_lm_correct, values.masked_lm_total),
            following,
            mean(values.next_sentence_correct, values.next_sentence_total),
        )


class PretrainingModel(Configured, keras.Model):
    """Encoder and heads for one of the objectives.

    Args:
      config: the encoder's configuration.
      objective: which of masked LM, next-sentence prediction and
        left-to-right LM to train.
    """

    def __init__(self, config: BertConfig, objective: Objective = Objective.MLM_NSP, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.objective = Objective(objective)
        causal = self.objective is Objective.LEFT_TO_RIGHT
        self.config = config = dataclasses.replace(config, causal=causal)
        policy = self.dtype_policy
        self.encoder = BertEncoder(config, name="encoder", dtype=policy)
        self.masked_lm = heads.MaskedLMHead(config, name="masked_lm", dtype=policy)
        self.masked_lm.build((None, config.hidden_size))
        self.next_sentence = None
        # The pooler is of use to next-sentence prediction only.
        self.encoder.pooler.trainable = self.objective is Objective.MLM_NSP
        if self.objective is Objective.MLM_NSP:
            self.next_sentence = heads.NextSentenceHead(
                config.initializer_range, name="next_sentence", dtype=policy
            )
            self.next_sentence.build((None, config.hidden_size))
        self.built = True

    @property
    def features(self) -> frozenset[str]:
        """The names of the features that the objective needs, beside the encoder's inputs."""
        if self.objective is Objective.LEFT_TO_RIGHT:
            return frozenset()
        names = {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
        return frozenset(names | ({"next_sentence_labels"} if self.next_sentence else set()))

    def check_features(self, names: frozenset[str], place: str) -> None:
        """Raises InputError unless examples have what the objective needs."""
        missing = self.features - names
        if missing:
            raise InputError(
                f"{place}: the examples lack {', '.join(sorted(missing))}, which objective "
                f"{self.objective} needs; write them with --objective={self.objective}."
            )

    def call(self, inputs: dict[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        """Returns float32 logits: `masked_lm` [batch, predictions, vocab] and `next_sentence`.

        Masked-LM logits are those at `masked_lm_positions`, int32 [batch,
        predictions], or at every position where that is not given.
        """
        outputs = self.encoder(inputs, training=training)
        sequence = outputs["sequence_output"]
        positions = inputs.get("masked_lm_positions")
        count = tf.shape(sequence)[1] if positions is None else tf.shape(positions)[1]
        logits = self.token_logits(self._rows(sequence, positions))
        result = {"masked_lm": tf.reshape(logits, [-1, count, self.config.vocab_size])}
        if self.next_sentence is not None:
            logits = self.next_sentence(outputs["pooled_output"])
            result["next_sentence"] = tf.cast(logits, tf.float32)
        return result

    def totals(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """The number of tokens and of sentence pairs to predict in a batch, float32 scalars."""
        _, _, weights = self._labels(batch)
        pairs = tf.shape(batch["input_word_ids"])[0] if self.next_sentence else 0
        return tf.reduce_sum(weights), tf.cast(pairs, tf.float32)

    def batch_loss(
        self,
        batch: dict[str, tf.Tensor],
        totals: tuple[tf.Tensor, tf.Tensor],
        training: bool,
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, Counts]:
        """The loss of a batch, or of a part of one, and its counts.

        Args:
          batch: features as `pipelines.pretraining.example_reader` gives them.
          totals: of the whole batch, as `totals` gives them: the divisors.
          training: whether to drop out.
          dropout_seed: int32 scalar.

        Returns:
          The float32 loss: mean negative log-likelihood of the tokens to predict
          plus that of the next-sentence labels; and the counts.
        """
        outputs = self.encoder(batch, training=training, dropout_seed=dropout_seed)
        positions, labels, weights = self._labels(batch)
        rows = self._rows(outputs["sequence_output"], positions)
        logits = self.masked_lm(rows, self.encoder.embeddings.word)
        masked = _score(logits, self.masked_lm.bias, labels, weights)
        loss = tf.math.divide_no_nan(masked[0], totals[0])
        if self.next_sentence is None:
            return loss, Counts(*masked, *[tf.constant(0.0)] * 3)
        labels = batch["next_sentence_labels"]
        logits = self.next_sentence(outputs["pooled_output"], add_bias=False)
        weights = tf.ones_like(labels, tf.float32)
        following = _score(logits, self.next_sentence.bias, labels, weights)
        loss += tf.math.divide_no_nan(following[0], totals[1])
        return loss, Counts(*masked, *following)

    def token_logits(self, rows: tf.Tensor) -> tf.Tensor:
        """Float32 logits [rows, vocab_size] of encoder outputs [rows, hidden_size]."""
        logits = self.masked_lm(rows, self.encoder.embeddings.word)
        return tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.masked_lm.bias)

    def _rows(self, sequence: tf.Tensor, positions: tf.Tensor | None) -> tf.Tensor:
        """Encoder outputs at the positions, or at all of them, [rows, hidden_size]."""
        if positions is None:
            return tf.reshape(sequence, [-1, self.config.hidden_size])
        return heads.gather_positions(sequence, positions)

    def _labels(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor | None, tf.Tensor, tf.Tensor]:
        """Positions [batch, count] (None: all), and the labels and weights of each, [rows]."""
        if self.objective is not Objective.LEFT_TO_RIGHT:
            names = ("masked_lm_ids", "masked_lm_weights")
            labels, weights = (tf.reshape(batch[name], [-1]) for name in names)
            return batch["masked_lm_positions"], labels, weights
        # Each token is to be predicted at the position before it.
        labels = tf.pad(batch["input_word_ids"][:, 1:], [[0, 0], [0, 1]])
        weights = tf.pad(batch["input_mask"][:, 1:], [[0, 0], [0, 1]])
        return None, tf.reshape(labels, [-1]), tf.cast(tf.reshape(weights, [-1]), tf.float32)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        return super().get_config() | {"objective": str(self.objective)}


def _score(
    logits: tf.Tensor, bias: keras.Variable, labels: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Weighted sums, float32 scalars: negative log-likelihood, right guesses, and weights.

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
    return tf.reduce_sum(losses), tf.reduce_sum(correct), tf.reduce_sum(weights)
