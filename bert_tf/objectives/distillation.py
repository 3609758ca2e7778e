"""Distillation of a masked LM into a smaller one (Sanh et al. 2019, arXiv 1910.01108)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.models.layers.token_rows import gather_positions
from bert_tf.objectives.base import Batch, LossSums, Scalars, score
from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.masked_lm import MaskedLM

TEMPERATURE = 2.0


class Distillation(MaskedLM):
    """The triple loss of DistilBERT: 5 x teacher + 2 x masked LM + 1 x cosine.

    `teacher` is the divergence of the student's predictions at all tokens from the teacher's, at
    temperature 2 and times its square; its accuracy is the fraction of tokens for which both
    predict the same. `cosine` is 1 - the cosine of the outputs of both; it is left out where their
    widths differ. The teacher reads the masked sequence without dropout, and is not part of the
    model.

    Args:
      config: the student's configuration.
      masking: masks tokens on the device; None: the examples have masks.
      teacher: the teacher.
    """

    part_weights: ClassVar[Mapping[str, float]] = {"teacher": 5.0, "masked_lm": 2.0}
    curves: ClassVar[tuple[str, ...]] = ("loss", "masked_lm_accuracy", "teacher_accuracy")

    def __init__(
        self, config: BertConfig, masking: DynamicMasking | None, teacher: MaskedLM, **kwargs
    ):
        super().__init__(config, masking, **kwargs)
        self._teacher = lambda: teacher  # in a function, so that Keras does not track it
        self._same_width = config.hidden_size == teacher.config.hidden_size

    @property
    def parts(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on the teacher
        """The parts of the loss."""
        return ("masked_lm", "teacher", *(["cosine"] if self._same_width else []))

    def predictions(self, max_seq_length: int, max_predictions: int) -> int:
        """All positions have logits."""
        return max_seq_length

    def totals(self, batch: Batch) -> Scalars:
        """The numbers of masked tokens and of all tokens."""
        tokens = tf.cast(tf.reduce_sum(batch["input_mask"]), tf.float32)
        return super().totals(batch) | dict.fromkeys(self.parts[1:], tokens)

    def outputs_at(self, batch: Batch) -> tf.Tensor | None:
        """All: the teacher has a guess for each."""
        return None

    def sums(
        self, outputs: dict[str, Any], batch: Batch, seed: tf.Tensor | None
    ) -> dict[str, LossSums]:
        """The sums of each part."""
        teacher, labels = self._teacher(), self.labels(batch)
        taught = teacher.encoder(batch)["sequence_output"]
        weights = tf.cast(tf.reshape(batch["input_mask"], [-1]), tf.float32)
        rows = self.rows(outputs["sequence_output"])
        logits = self.masked_lm(rows, self.encoder.word_embeddings)
        theirs = tf.stop_gradient(teacher.token_logits(teacher.rows(taught)))
        ours = tf.cast(logits, tf.float32) + tf.convert_to_tensor(self.masked_lm.bias)
        ours, theirs = ours[:, : theirs.shape[1]], theirs[:, : ours.shape[1]]
        same = tf.cast(tf.argmax(ours, -1) == tf.argmax(theirs, -1), tf.float32)
        found = {"teacher": (divergence(ours, theirs, TEMPERATURE), same)}
        if self._same_width:
            pair = (tf.cast(x, tf.float32) for x in (rows, teacher.rows(taught)))
            cosine = tf.reduce_sum(tf.math.multiply(*(tf.nn.l2_normalize(x, 1) for x in pair)), 1)
            found["cosine"] = (1.0 - cosine, cosine)
        length = tf.shape(batch["input_word_ids"])[1]
        masked = gather_positions(
            tf.reshape(logits, [-1, length, self.config.vocab_size]), labels.positions
        )
        masked = tf.reshape(masked, [-1, self.config.vocab_size])
        return {
            "masked_lm": score(masked, self.masked_lm.bias, labels.ids, labels.weights),
            **{
                part: LossSums.of(losses, correct, weights)
                for part, (losses, correct) in found.items()
            },
        }


def divergence(logits: tf.Tensor, teacher: tf.Tensor, temperature: float) -> tf.Tensor:
    """The Kullback-Leibler divergence of softened predictions, times the temperature squared.

    Hinton et al. 2015 (arXiv 1503.02531), section 2. The teacher's has no gradient.

    Args:
      logits: float32 [..., classes], the student's.
      teacher: float32 [..., classes].
      temperature: divides both.

    Returns:
      float32 [...].
    """
    log_ours = tf.nn.log_softmax(logits / temperature)
    log_theirs = tf.nn.log_softmax(tf.stop_gradient(teacher) / temperature)
    return temperature**2 * tf.reduce_sum(tf.exp(log_theirs) * (log_theirs - log_ours), -1)
