"""A language model in each direction (Peters et al. 2018, arXiv 1802.05365, section 3.1)."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import tensorflow as tf

from bert_tf.models import fused_ops
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.elmo import WordHead
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.layers.base import Shape, serializable
from bert_tf.objectives.base import Batch, LossSums, PretrainingObjective, Scalars, score
from pipelines.tokenizers.whole_words import UNKNOWN_ID

# Any numbers; they make the seeds of the head's dropout and of drawn words differ from those of the
# encoder.
_DROPPING, _DRAWING = 0x5BD1E995, 0x27D4EB2F
# Rows are a multiple of it, because XLA compiles the softmax anew for each number of rows.
_ROWS = 512


class _Targets(NamedTuple):
    """The words that a direction predicts at each position."""

    labels: tf.Tensor  # int32 [batch * length]
    weights: tf.Tensor  # float32 [batch * length]; 0 where nothing is predicted


@serializable
class BidirectionalLM(PretrainingObjective):
    """Predicts each word from those before it and, separately, from those after it.

    Both directions share a softmax over the first words of the vocabulary; others count as the
    unknown word. The loss is the mean of both directions, and `perplexity` its exponential.
    """

    config_type: ClassVar[type[EncoderConfig]] = ElmoConfig
    parts: ClassVar[tuple[str, ...]] = ("forward_lm", "backward_lm")
    averages_parts: ClassVar[bool] = True
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

        They predict the word after each position, and the one before it.
        """
        outputs = self.encoder(inputs, training=training)
        head, shape = self.bidirectional_lm, tf.shape(outputs["sequence_output"])[:2]
        found = {}
        for part, rows in self._rows(outputs).items():
            logits = tf.cast(head(rows), tf.float32) + tf.convert_to_tensor(head.bias)
            found[part] = tf.reshape(logits, [shape[0], shape[1], self.config.predicted_words])
        return found

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits for the shapes of the inputs."""
        batch, length = input_shape["input_word_ids"]
        return dict.fromkeys(self.parts, (batch, length, self.config.predicted_words))

    def targets(self, batch: Batch) -> dict[str, _Targets]:
        """The words that each direction predicts: all but the first one that it reads."""
        ids, there = batch["input_word_ids"], batch["input_mask"]
        ids = tf.where(ids < self.config.predicted_words, ids, UNKNOWN_ID)
        both = tf.cast(there[:, 1:] * there[:, :-1], tf.float32)
        after, before = [[0, 0], [0, 1]], [[0, 0], [1, 0]]

        def padded(labels: tf.Tensor, edge: list[list[int]]) -> _Targets:
            labels, weights = tf.pad(labels, edge), tf.pad(both, edge)
            return _Targets(tf.reshape(labels, [-1]), tf.reshape(weights, [-1]))

        found = padded(ids[:, 1:], after), padded(ids[:, :-1], before)
        return dict(zip(self.parts, found, strict=True))

    def totals(self, batch: Batch) -> Scalars:
        """The number of predicted words in a batch, by direction."""
        targets = self.targets(batch)
        return {part: tf.reduce_sum(each.weights) for part, each in targets.items()}

    def sums(
        self, outputs: dict[str, tf.Tensor], batch: Batch, seed: tf.Tensor | None
    ) -> dict[str, LossSums]:
        """The sums of each direction; in training with `sampled_softmax`, over the drawn words."""
        rows, targets = self._rows(outputs), self.targets(batch)
        return {
            part: self._sums(rows[part], targets[part], None if seed is None else seed + index)
            for index, part in enumerate(self.parts)
        }

    def _sums(self, rows: tf.Tensor, targets: _Targets, seed: tf.Tensor | None) -> LossSums:
        """The sums of a direction; without a seed as in evaluation."""
        head = self.bidirectional_lm
        if not fused_ops.is_compiled_whole():  # which requires static shapes
            rows, targets = _predicting(rows, targets)
        if seed is not None:
            rows = fused_ops.dropout(rows, self.config.hidden_dropout_prob, seed ^ _DROPPING)
        if seed is None or self.config.sampled_words is None:
            return score(head(rows), head.bias, targets.labels, targets.weights)
        losses, right = head.sampled_losses(rows, targets.labels, seed ^ _DRAWING)
        return LossSums.of(losses, right, targets.weights)

    def _rows(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The vectors of each direction, [batch * length, projection_size]."""
        halves = tf.split(outputs["sequence_output"], 2, -1)
        flat = (tf.reshape(half, [-1, self.config.projection_size]) for half in halves)
        return dict(zip(self.parts, flat, strict=True))


def _predicting(rows: tf.Tensor, targets: _Targets) -> tuple[tf.Tensor, _Targets]:
    """The rows that predict a word, and others of weight 0 up to a multiple of _ROWS."""
    places = tf.where(targets.weights > 0)[:, 0]
    missing = [[0, -tf.shape(places)[0] % _ROWS]]
    weights = tf.pad(tf.gather(targets.weights, places), missing)
    places = tf.pad(places, missing)
    return tf.gather(rows, places), _Targets(tf.gather(targets.labels, places), weights)
