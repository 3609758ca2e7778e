"""A language model in each direction (Peters et al. 2018, arXiv 1802.05365, section 3.1)."""

import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.elmo import WordHead
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.layers.base import Shape, serializable
from bert_tf.objectives.base import Batch, PretrainingObjective, Scalars
from bert_tf.objectives.token_prediction import Score, exponential, mean_metrics, score
from pipelines.tokenizers.whole_words import UNKNOWN_ID

# Any numbers that tell the seeds of the head's dropout and of drawn words from the encoder's.
_DROPPING, _DRAWING = 0x5BD1E995, 0x27D4EB2F


class _Asked(NamedTuple):
    """What is asked of a direction at each position."""

    labels: tf.Tensor  # int32 [batch * length]
    weights: tf.Tensor  # float32 [batch * length]; 0 for what is not asked


@serializable
class BidirectionalLM(PretrainingObjective):
    """Guesses each word from those before it and, apart from that, from those after it.

    Both directions have one softmax, over the first words of the vocabulary; others count as the
    unknown word. The loss is the mean of both, `perplexity` its exponential.
    """

    config_type: ClassVar[type[EncoderConfig]] = ElmoConfig
    parts: ClassVar[tuple[str, str]] = ("forward_lm", "backward_lm")
    curves: ClassVar[tuple[str, ...]] = (
        *("loss", "forward_lm_accuracy", "backward_lm_accuracy", "perplexity"),
    )
    config: ElmoConfig

    def __init__(self, config: ElmoConfig, **kwargs):
        super().__init__(config, **kwargs)
        self.bidirectional_lm = WordHead(config, name="bidirectional_lm", dtype=self.dtype_policy)
        self.bidirectional_lm.build(self.bidirectional_lm.expected_shape)
        self.built = True

    @property
    def token_head(self) -> WordHead:
        """The head over the vocabulary."""
        return self.bidirectional_lm

    def call(self, inputs: Batch, training: bool = False) -> dict[str, tf.Tensor]:
        """Returns float32 logits, `forward_lm` and `backward_lm` [batch, length, words].

        They are of the word after each position, and of that before it.
        """
        outputs = self.encoder(inputs, training=training)
        head, shape = self.bidirectional_lm, tf.shape(outputs["sequence_output"])[:2]
        found = {}
        for part, rows in self._rows(outputs).items():
            logits = tf.cast(head(rows), tf.float32) + tf.convert_to_tensor(head.bias)
            found[part] = tf.reshape(logits, [shape[0], shape[1], self.config.predicted_words])
        return found

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits, by those of the inputs."""
        batch, length = input_shape["input_word_ids"]
        return dict.fromkeys(self.parts, (batch, length, self.config.predicted_words))

    def asked(self, batch: Batch) -> dict[str, _Asked]:
        """What is asked of each direction: all words but the first that it reads."""
        ids, there = batch["input_word_ids"], batch["input_mask"]
        ids = tf.where(ids < self.config.predicted_words, ids, UNKNOWN_ID)
        both = tf.cast(there[:, 1:] * there[:, :-1], tf.float32)
        after, before = [[0, 0], [0, 1]], [[0, 0], [1, 0]]

        def asked(labels: tf.Tensor, edge: list[list[int]]) -> _Asked:
            labels, weights = tf.pad(labels, edge), tf.pad(both, edge)
            return _Asked(tf.reshape(labels, [-1]), tf.reshape(weights, [-1]))

        found = asked(ids[:, 1:], after), asked(ids[:, :-1], before)
        return dict(zip(self.parts, found, strict=True))

    def totals(self, batch: Batch) -> Scalars:
        """The number of words asked for in a batch, of each direction."""
        asked = self.asked(batch)
        return {part: tf.reduce_sum(each.weights) for part, each in asked.items()}

    def batch_loss(
        self,
        batch: Batch,
        totals: Scalars,
        training: bool,
        dropout_seed: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, Scalars]:
        """The loss of a batch, or of a part of one, and its counts; see `Trainable`.

        In training with `sampled_softmax`, both are of the words drawn.
        """
        outputs = self.encoder(batch, training=training, dropout_seed=dropout_seed)
        rows, asked = self._rows(outputs), self.asked(batch)
        losses: list[tf.Tensor] = []
        counts: Scalars = {}
        for index, part in enumerate(self.parts):
            seed = dropout_seed + index if training and dropout_seed is not None else None
            sums = self._score(rows[part], asked[part], seed)
            losses.append(tf.math.divide_no_nan(sums.loss, totals[part]))
            counts |= {f"{part}_{name}": value for name, value in sums._asdict().items()}
        return tf.add_n(losses) / len(losses), counts

    def _score(self, rows: tf.Tensor, asked: _Asked, seed: tf.Tensor | None) -> Score:
        """The scores of a direction; without a seed as it is evaluated."""
        head = self.bidirectional_lm
        if not fused_ops.is_compiled_whole():  # else shapes must be known beforehand
            places = tf.where(asked.weights > 0)[:, 0]
            rows, asked = tf.gather(rows, places), _Asked(*(tf.gather(x, places) for x in asked))
        if seed is not None:
            rows = fused_ops.dropout(rows, self.config.hidden_dropout_prob, seed ^ _DROPPING)
        if seed is None or self.config.sampled_words is None:
            return score(head(rows), head.bias, asked.labels, asked.weights)
        losses, right = head.sampled_losses(rows, asked.labels, seed ^ _DRAWING)
        found = (losses, right, tf.ones_like(losses))
        return Score(*(tf.reduce_sum(values * asked.weights) for values in found))

    def metrics_of(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Means of each direction, their mean `loss`, and its `perplexity`."""
        losses, accuracies = mean_metrics(self.parts, counts)
        known = [loss for loss in losses.values() if not math.isnan(loss)]
        loss = sum(known) / len(known) if known else math.nan
        return {"loss": loss, **losses, **accuracies, "perplexity": exponential(loss)}

    def _rows(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The vectors of each direction, [batch * length, projection_size]."""
        halves = tf.split(outputs["sequence_output"], 2, -1)
        flat = (tf.reshape(half, [-1, self.config.projection_size]) for half in halves)
        return dict(zip(self.parts, flat, strict=True))
