"""The interface of objectives, and the base of those of pre-training.

An objective turns a batch into a loss and an open set of named counts, and sums of counts into
metrics. Its loss is a sum over the given examples, divided by totals that the caller supplies, so
that any split of a batch (over replicas, over accumulation steps) gives the same loss. Training,
evaluation and reports display whatever names exist.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import keras
import tensorflow as tf

from bert_tf.models import encoders, fused_ops
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import Configured, Declared
from bert_tf.objectives.dynamic_masking import DynamicMasking

Batch = dict[str, tf.Tensor]
Scalars = dict[str, tf.Tensor]  # float32 scalars by name


class Trainable(Protocol):
    """The interface of pre-training and task objectives for the training loop."""

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The variables to train."""

    @property
    def curves(self) -> tuple[str, ...]:
        """The metrics recorded during training: columns of history.jsonl."""

    def prepare(self, batch: Batch, seed: tf.Tensor) -> Batch:
        """A replica's batch as used for training: a pure function of it and an int32 seed."""

    def totals(self, batch: Batch) -> Scalars:
        """The divisors of the loss: float32 scalars, sums over the examples."""

    def batch_loss(
        self, batch: Batch, totals: Scalars, training: bool, dropout_seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, Scalars]:
        """The loss and the counts of a batch, or of a part of one.

        Args:
          batch: a batch as returned by `prepare`.
          totals: the result of `totals` for the whole batch.
          training: whether to apply dropout.
          dropout_seed: int32 scalar.

        Returns:
          The float32 loss, and float32 scalars by name, summed over the examples.
        """

    def metrics_of(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Metrics by name, `loss` among them, from counts summed over any batches.

        Names of fractions of correct predictions end in `_accuracy`. A metric without counts is
        NaN.
        """


class LossSums(NamedTuple):
    """Weighted sums over predictions, float32 scalars."""

    loss: tf.Tensor  # negative log-likelihood
    correct: tf.Tensor  # correct predictions
    total: tf.Tensor  # weights

    @classmethod
    def of(cls, losses: tf.Tensor, correct: tf.Tensor, weights: tf.Tensor) -> Self:
        """The sums of predictions, of which `correct` is 1 or 0; all float32, of one shape."""
        return cls(*map(tf.reduce_sum, (losses * weights, correct * weights, weights)))


class PretrainingObjective(Configured, keras.Model):
    """An encoder with the heads that pre-train it.

    The loss consists of parts, each a mean over its predictions. A part `p` has the counts
    `p_loss`, `p_correct` and `p_total`, and the metrics `p_loss` (nats) and `p_accuracy`.
    Subclasses create their heads and define `totals` and `sums`. The names of variables are those
    in checkpoints.

    Attributes:
      parts: names of the parts of the loss; `perplexity` is that of the first one.
      part_weights: factors of parts in the loss, where they are not 1.
      averages_parts: whether loss and perplexity are means over all parts; else the loss is a sum.
      config_type: the configuration of the models that it trains.
      causal: whether a token sees only those before it; None: as configured.
      trains_pooler: whether the pooler is trained.
      guesses_masked: whether `call` predicts masked tokens, at `masked_lm_positions`.
      curves: the metrics recorded during training: columns of history.jsonl, null for those that
        the objective lacks.

    Args:
      config: the encoder's configuration.
    """

    parts: ClassVar[tuple[str, ...]] = ()
    part_weights: ClassVar[Mapping[str, float]] = {}
    averages_parts: ClassVar[bool] = False
    config_type: ClassVar[type[EncoderConfig]] = BertConfig
    causal: ClassVar[bool | None] = None
    trains_pooler: ClassVar[bool] = False
    guesses_masked: ClassVar[bool] = False
    curves: ClassVar[tuple[str, ...]] = ("loss",)

    def __init__(self, config: EncoderConfig, **kwargs):
        super().__init__(autocast=False, **kwargs)
        if isinstance(config, BertConfig) and self.causal is not None:
            config = dataclasses.replace(config, causal=self.causal)
        self.config = config
        self.encoder = encoders.make(config, name="encoder", dtype=self.dtype_policy)
        self.encoder.pooler.trainable = self.trains_pooler

    @classmethod
    def for_examples(
        cls, config: EncoderConfig, features: frozenset[str], masking: DynamicMasking, **kwargs
    ) -> Self:
        """Makes the objective for examples.

        Args:
          config: the encoder's configuration.
          features: names of the features of the examples.
          masking: the masking to use if they have no masks.
          **kwargs: arguments of Keras, such as dtype.
        """
        del features, masking
        return cls(config, **kwargs)

    @property
    def input_dtype(self) -> str:
        """The dtype of the inputs in Keras's exports."""
        return "int32"

    def compute_output_spec(self, inputs: Any, training: bool = False) -> dict[str, Any]:
        """The outputs of `call` for symbolic inputs."""
        shapes = self.compute_output_shape({name: x.shape for name, x in inputs.items()})
        return {name: keras.KerasTensor(shape, "float32") for name, shape in shapes.items()}

    @property
    def features(self) -> frozenset[str]:
        """The names of the features that the objective needs besides the encoder's inputs."""
        return frozenset()

    @property
    def token_head(self) -> Declared:
        """The head over the vocabulary."""
        raise NotImplementedError

    def predictions(self, max_seq_length: int, max_predictions: int) -> int:
        """The number of positions of a sequence with logits over the vocabulary.

        Args:
          max_seq_length: tokens of a sequence.
          max_predictions: maximum number of masked tokens of an example.
        """
        return max_predictions if self.guesses_masked else max_seq_length

    def flops(self, max_seq_length: int, max_predictions: int) -> int:
        """Floating-point operations of the products of a forward pass over one sequence.

        A backward pass has twice as many. Arguments as for `predictions`.
        """
        count = self.predictions(max_seq_length, max_predictions)
        outputs = None if count == max_seq_length else count
        return self.encoder.flops(max_seq_length, outputs) + self.token_head.flops(count)

    def prepare(self, batch: Batch, seed: tf.Tensor) -> Batch:
        """The batch itself."""
        return batch

    def totals(self, batch: Batch) -> Scalars:
        """The number of predictions of each part."""
        raise NotImplementedError

    def encode(
        self, batch: Batch, training: bool, dropout_seed: tf.Tensor | None
    ) -> dict[str, Any]:
        """The encoder's outputs, and whatever else `sums` needs; arguments as of `batch_loss`."""
        return self.encoder(batch, training=training, dropout_seed=dropout_seed)

    def sums(
        self, outputs: dict[str, Any], batch: Batch, seed: tf.Tensor | None
    ) -> dict[str, LossSums]:
        """The sums of each part; those of other names are counted and not in the loss.

        Args:
          outputs: the result of `encode`.
          batch: the batch.
          seed: int32 scalar for random operations in training; None in evaluation.
        """
        raise NotImplementedError

    def batch_loss(
        self, batch: Batch, totals: Scalars, training: bool, dropout_seed: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, Scalars]:
        """The loss and the counts of a batch, or of a part of one, as in `Trainable`."""
        outputs = self.encode(batch, training, dropout_seed)
        losses: list[tf.Tensor] = []
        counts: Scalars = {}
        for part, sums in self.sums(outputs, batch, dropout_seed if training else None).items():
            if part in totals:
                mean = tf.math.divide_no_nan(sums.loss, totals[part])
                losses.append(self.part_weights.get(part, 1.0) * mean)
            counts |= {f"{part}_{name}": value for name, value in sums._asdict().items()}
        loss = tf.add_n(losses)
        return loss / len(losses) if self.averages_parts else loss, counts

    def metrics_of(self, counts: Mapping[str, float]) -> dict[str, float]:
        """The means of each part, the `loss`, and the `perplexity`."""

        def mean(part: str, name: str) -> float:
            total = counts.get(f"{part}_total", 0.0)
            return counts[f"{part}_{name}"] / total if total else math.nan

        losses = {f"{part}_loss": mean(part, "loss") for part in self.parts}
        known = [
            self.part_weights.get(part, 1.0) * loss
            for part, loss in zip(self.parts, losses.values(), strict=True)
            if not math.isnan(loss)
        ]
        loss = sum(known) if known else math.nan
        first = losses[f"{self.parts[0]}_loss"]
        if self.averages_parts:
            first = loss = loss / max(1, len(known))
        return {
            "loss": loss,
            **losses,
            **{f"{part}_accuracy": mean(part, "correct") for part in self.parts},
            "perplexity": _exponential(first),
        }


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def score(
    logits: tf.Tensor, bias: keras.Variable, labels: tf.Tensor, weights: tf.Tensor
) -> LossSums:
    """The sums over rows of logits.

    Args:
      logits: [rows, classes], compute dtype, without the bias.
      bias: [classes].
      labels: int32 [rows].
      weights: float32 [rows].
    """
    bias = tf.convert_to_tensor(bias)
    return LossSums.of(*fused_ops.softmax_cross_entropy(logits, bias, labels), weights)
