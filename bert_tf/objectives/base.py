"""The interface of objectives, and what those of pre-training share.

An objective turns a batch into a loss and an open set of named counts, and
sums of counts into metrics. Its loss is a sum over the examples it is given,
divided by totals that the caller supplies, so that any split of a batch (over
replicas, over accumulation steps) gives the same loss. Whoever trains,
evaluates or reports shows the names that there are, and knows none of them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import keras
import tensorflow as tf

from bert_tf.models import encoders
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import Configured

Batch = dict[str, tf.Tensor]
# Float32 scalars by name.
Scalars = dict[str, tf.Tensor]


class Trainable(Protocol):
    """What the training loop needs: objectives of pre-training and of tasks are such."""

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """What is trained."""

    @property
    def curves(self) -> tuple[str, ...]:
        """The metrics that are noted as training goes on: columns of history.jsonl."""

    def prepare(self, batch: Batch, seed: tf.Tensor) -> Batch:
        """A replica's batch as it is trained on: a pure function of it and an int32 seed."""

    def totals(self, batch: Batch) -> Scalars:
        """The divisors of the loss, float32 scalars; sums over the examples."""

    def batch_loss(
        self,
        batch: Batch,
        totals: Scalars,
        training: bool,
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, Scalars]:
        """The loss of a batch, or of a part of one, and its counts.

        Args:
          batch: as `prepare` gives it.
          totals: of the whole batch, as `totals` gives them.
          training: whether to drop out.
          dropout_seed: int32 scalar.

        Returns:
          The float32 loss, and float32 scalars by name, summed over the examples.
        """

    def metrics_of(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Metrics by name, `loss` among them, of counts summed over any batches.

        Shares of what was right have names that end in `_accuracy`. A metric of
        which there is nothing in the counts is NaN.
        """


@dataclasses.dataclass(frozen=True)
class ExampleTraits:
    """What an objective may have to know of the examples that it is trained on.

    Attributes:
      features: names of what they hold.
      special_ids: tokens that are never masked.
      mask_id: the token that stands for one to guess.
      vocab_size: tokens of the vocabulary.
      masked_share: of the tokens of a sequence, those to choose.
      mask_share: of those chosen, which become the mask.
      random_share: of those chosen, which become any token.
      max_predictions: tokens to mask at the most, by the length of the sequences.
    """

    features: frozenset[str]
    special_ids: tuple[int, ...]
    mask_id: int
    vocab_size: int
    masked_share: float
    mask_share: float
    random_share: float
    max_predictions: Mapping[int, int]


class TokenHead(Protocol):
    """A head over the vocabulary, as far as everybody asks of it."""

    def flops(self, predictions: int) -> int:
        """Floating-point operations of the products for so many positions of a sequence."""


class PretrainingObjective(Configured, keras.Model):
    """An encoder, and whatever stands on it to pre-train it.

    Subclasses make their heads, and define `totals`, `batch_loss` and
    `metrics_of` as `Trainable` says. The names of variables are those of
    checkpoints.

    Attributes:
      config_type: the family of models that it trains, by its configuration.
      causal: whether a token sees only those before it; None: as configured.
      trains_pooler: whether the pooler is of use.
      guesses_masked: whether `call` guesses tokens that are masked, at
        `masked_lm_positions`.
      curves: the metrics that are noted as training goes on: the columns of
        history.jsonl, null there for what the objective has not.

    Args:
      config: the encoder's configuration.
    """

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
    def for_examples(cls, config: EncoderConfig, examples: ExampleTraits, **kwargs) -> Self:
        """The objective for examples of the given traits.

        Args:
          config: the encoder's configuration.
          examples: what they hold, and so what they leave to the objective.
          **kwargs: for Keras, such as dtype.
        """
        return cls(config, **kwargs)

    @property
    def input_dtype(self) -> str:
        """That of the inputs, as Keras exports them."""
        return "int32"

    def compute_output_spec(self, inputs: Any, training: bool = False) -> dict[str, Any]:
        """What `call` returns for symbolic inputs."""
        shapes = self.compute_output_shape({name: x.shape for name, x in inputs.items()})
        return {name: keras.KerasTensor(shape, "float32") for name, shape in shapes.items()}

    @property
    def features(self) -> frozenset[str]:
        """The names of the features that the objective needs, beside the encoder's inputs."""
        return frozenset()

    @property
    def token_head(self) -> TokenHead:
        """The head over the vocabulary."""
        raise NotImplementedError

    def predictions(self, max_seq_length: int, max_predictions: int) -> int:
        """How many positions of a sequence have logits over the vocabulary.

        Args:
          max_seq_length: tokens of a sequence.
          max_predictions: those that examples have at the most to be masked.
        """
        return max_predictions if self.guesses_masked else max_seq_length

    def prepare(self, batch: Batch, seed: tf.Tensor) -> Batch:
        """The batch as it is: examples hold all that there is to know."""
        return batch
