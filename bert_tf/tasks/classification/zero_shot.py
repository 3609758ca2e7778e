"""Predictions for a file, with labels that the user names, by a model of textual entailment."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.base import Task
from bert_tf.tasks.classification import entailment
from bert_tf.tasks.classification.task import Classification, Examples
from bert_tf.tasks.classification.texts import text_files
from bert_tf.tasks.sequences import SequencesTask
from pipelines.common.errors import InputError
from pipelines.labelled.features import FeatureColumn, Features
from pipelines.labelled.schema import have_labels
from pipelines.tokenizers.base import Tokenizer


@dataclasses.dataclass(frozen=True)
class ZeroShot(Classification):
    """Single texts, with labels that no training data had; see `entailment`.

    A row is a text, and its sequences are the pairs with each label.

    Attributes:
      entailed: number of the logit of entailment.
    """

    entailed: int = 0

    @classmethod
    def of(cls, task: Task, labels: Sequence[str]) -> Self:
        """A task of these labels, for the head of another task.

        Raises:
          InputError: that task is not one of entailment, or there are not two labels that differ.
        """
        numbers = task.entails if isinstance(task, Classification) else None
        if numbers is None:
            raise InputError(
                f"--labels: are for a model of textual entailment, and {task.name} has the labels "
                f"{', '.join(task.labels) or '(none)'}. Give a model of mnli, or fine-tune one for "
                "these labels (bert-tf finetune)."
            )
        if len(set(labels)) < max(2, len(labels)):
            raise InputError(f"--labels={','.join(labels)}: give two labels or more that differ.")
        return cls(
            task.kind,
            text_files(),
            task.name,
            task.max_seq_length,
            tuple(labels),
            head=task.head,
            entailed=numbers[0],
        )

    @property
    def max_sequences(self) -> int:
        """One for each label."""
        return len(self.labels)

    def features(self, examples: Examples, tokenizer: Tokenizer) -> Features:
        """Packed pairs of a text and a hypothesis, and the labels where known."""
        texts = tf.constant([example.text_a for example in examples])
        labels = tf.constant([self.labels] * len(examples))
        packed, cut = entailment.pack(tokenizer, texts, labels, self.max_seq_length)
        columns = self.sequence_columns(packed, np.full(len(examples), len(self.labels)))
        if have_labels(examples):
            columns["labels"] = FeatureColumn.of(self.label_values(examples))
        what = f"pairs of text and label longer than --max_seq_length={self.max_seq_length}, cut"
        return Features(columns, {what: int(cut)})

    def row_lengths(self, features: Features) -> np.ndarray:
        """The longest sequence of each example."""
        return SequencesTask.row_lengths(self, features)

    def logits(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """The logits of the head for each label, [size, labels, units]."""
        rows, count, _ = tf.unstack(tf.shape(batch["input_mask"]))
        return tf.reshape(logits, [rows, count, logits.shape[-1]])

    def outputs(self, logits: Any) -> dict[str, Any]:
        """The label that is entailed most, and the probabilities of all."""
        entailed = logits[..., self.entailed]
        return {
            "label": signatures.best(self.labels, entailed),
            "probabilities": signatures.softmax(entailed),
        }

    @property
    def request_signature(self) -> str:
        """That of any labels."""
        return f"{self.name}{entailment.SUFFIX}"

    def requests(self, examples: Examples) -> dict[str, Any]:
        """The texts, each with all labels."""
        texts = [example.text_a for example in examples]
        return {"text": texts, "labels": [list(self.labels)] * len(texts)}
