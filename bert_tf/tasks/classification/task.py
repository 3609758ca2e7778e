"""Classification of single texts and of pairs; GLUE's sets."""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import sklearn.metrics
import tensorflow as tf
from absl import logging

from bert_tf.tasks import reports, signatures
from bert_tf.tasks.base import Batch
from bert_tf.tasks.classification import bag_of_words, entailment, metrics
from bert_tf.tasks.classification.texts import TextTask, glue_files, show_texts, text_files
from bert_tf.tasks.labels import LabelTask, check_case, check_labels
from bert_tf.tasks.signatures import Arrays, ServedModel, Signature
from pipelines.common.errors import InputError
from pipelines.labelled import glue
from pipelines.labelled.features import Features
from pipelines.labelled.labels import check_single, without_undecided
from pipelines.labelled.schema import TextExample

_IMBALANCED = 0.8  # fraction of the most frequent label


class ClassPrediction(NamedTuple):
    """The most probable label, and the probabilities of all."""

    label: str
    probabilities: np.ndarray


Examples = Sequence[TextExample]
Predictions = Sequence[ClassPrediction]


@dataclasses.dataclass(frozen=True)
class Classification(LabelTask, TextTask):
    """One of several labels.

    Attributes:
      metric: the main metric, by which weights and runs are chosen; empty: the first of
        `metric_names`.
      metric_names: metrics to report, of `_METRICS`.
      submit_labels: whether a submission has the labels, and not their numbers.
    """

    shape: ClassVar[str] = "classification"
    described: ClassVar[tuple[str, ...]] = (*TextTask.described, "metric")

    metric: str = ""
    metric_names: tuple[str, ...] = ("accuracy", "macro_f1")
    submit_labels: bool = True

    @property
    def main_metric(self) -> str:
        """The chosen metric, or the first of `metric_names`."""
        return self.metric or self.metric_names[0]

    def given(self, example: TextExample) -> Sequence[str]:
        """The label."""
        return () if example.label is None else (example.label,)

    def fit(self, examples: Examples) -> Self:
        """Finds the labels, sorted, and their weights."""
        counts = self.counted(examples)
        check_labels(counts, examples[0].place, "label", named="label" in dict(self.columns))
        if not self.label_map:
            check_case(counts, examples[0].place, "label")
        named = dict.fromkeys(name for _, name in self.label_map if name in counts)
        labels = self.labels or tuple(named or sorted(counts, key=_order))
        if len([label for label in labels if counts[label]]) < 2:
            raise InputError(
                f"{reports.file_of(examples[0].place)}: every example ({len(examples):,} in all) "
                f"has the label {max(labels, key=lambda label: counts[label])!r}; there is nothing "
                "to learn from one class."
            )
        usual = max(counts, key=lambda label: counts[label])
        if self.metric:
            known = [name for name in _METRICS if name != "f1"]
            metrics.check(self.name, self.metric, known, labels)
        elif self.main_metric == "accuracy" and counts[usual] > _IMBALANCED * len(examples):
            logging.warning(
                "%.0f %% of the examples are %r, so accuracy says little: --metric=macro_f1, or f1:"
                "LABEL of the label that matters, chooses the weights and compares runs by it.",
                *(100 * counts[usual] / len(examples), usual),
            )
        return dataclasses.replace(
            self,
            pair=examples[0].text_b is not None,
            labels=labels,
            label_weights=self.weights(counts, labels),
        )

    def clean(self, examples: Examples, skipped: list[str]) -> list[TextExample]:
        """Leaves out pairs that annotators disagreed on; refuses several labels of one text."""
        kept = without_undecided(examples, skipped)
        check_single(kept)
        return kept

    def batch_labels(self, features: Features, rows: np.ndarray, size: int, length: int) -> Batch:
        """Labels and, if balanced, their weights."""
        batch = super().batch_labels(features, rows, size, length)
        if self.label_weights and batch:
            batch["weights"] = np.zeros(size, np.float32)
            labels = batch["labels"][: len(rows)]
            batch["weights"][: len(rows)] = np.array(self.label_weights)[labels]
        return batch

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Negative log-likelihood of the labels."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits)

    @property
    def entails(self) -> tuple[int, int] | None:
        """The numbers of the labels of entailment and of its opposite, if that is the task."""
        # In QNLI, "entailment" is an answer to a question.
        known = self.pair is not False and self.kind != "qnli"
        return entailment.numbers(self.labels) if known else None

    def signatures(self, model: ServedModel) -> list[Signature]:
        """As for all texts; a task of entailment has `<task>_zero_shot`, too."""
        found = super().signatures(model)
        if self.entails:
            found.append(entailment.signature(self.name, *self.entails, self.max_seq_length, model))
        return found

    def outputs(self, logits: Any) -> dict[str, Any]:
        """The most probable labels, and the probabilities of all."""
        return {
            "label": signatures.best(self.labels, logits),
            "probabilities": signatures.softmax(logits),
            "logits": logits,
        }

    def from_outputs(self, examples: Examples, outputs: Arrays) -> list[ClassPrediction]:
        """Labels and probabilities."""
        rows = zip(outputs["label"], outputs["probabilities"], strict=True)
        return [ClassPrediction(label.decode(), probabilities) for label, probabilities in rows]

    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """The main metric, and those in `metric_names`."""
        truth, guesses = self.pairs(examples, predictions)
        return {
            name: float(_METRICS[name](truth, guesses, self))
            if name in _METRICS
            else metrics.score(name, self, examples, predictions)
            for name in dict.fromkeys((self.main_metric, *self.metric_names))
        }

    def baseline(self, training: Examples, examples: Examples) -> list[ClassPrediction]:
        """The most frequent label."""
        counts = self.counted(training)
        label = max(self.labels, key=lambda label: counts[label])
        certain = np.array([float(label == other) for other in self.labels])
        return [ClassPrediction(label, certain)] * len(examples)

    def bag_of_words(self, training: Examples, examples: Examples) -> list[ClassPrediction]:
        """The labels that logistic regression on TF-IDF predicts."""
        if len(self.counted(training)) < 2:
            return []
        found = bag_of_words.predict(tuple(training), self.labels, tuple(examples))
        return [ClassPrediction(self.labels[int(row.argmax())], row) for row in found]

    def answers(self, prediction: ClassPrediction) -> Sequence[str]:
        """The label."""
        return [prediction.label]

    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """A table of ids, labels, probabilities and texts; for GLUE, the submission too."""
        found = [prediction.label for prediction in predictions]
        probabilities = {
            f"p({label})": [f"{prediction.probabilities[id_]:.6f}" for prediction in predictions]
            for id_, label in enumerate(self.labels)
        }
        ids = [str(self.labels.index(label)) for label in found]
        submitted = found if self.submit_labels else ids
        return self.tables(examples, split, "label", {"label": found, **probabilities}, submitted)

    def errors(
        self, example: TextExample, prediction: ClassPrediction
    ) -> Iterable[tuple[float, str]]:
        """A wrong label; the worst are those that the model was surest of."""
        if prediction.label != example.label:
            sure = float(prediction.probabilities.max())
            text = f"{example.place}: {prediction.label!r} ({sure:.0%} sure) is {example.label!r}"
            yield -sure, f"{text}\n{show_texts(example)}"


def _order(label: str) -> tuple[int, int, str]:
    """A sort key: numbers by their value, before words."""
    return (0, int(label), label) if re.fullmatch(r"-?[0-9]{1,18}", label) else (1, 0, label)


_METRICS: dict[str, Any] = {
    "accuracy": lambda truth, guesses, _: sklearn.metrics.accuracy_score(truth, guesses),
    "balanced_accuracy": lambda truth, guesses, _: sklearn.metrics.recall_score(
        truth, guesses, average="macro", labels=sorted(set(truth)), zero_division=0
    ),
    "f1": lambda truth, guesses, task: sklearn.metrics.f1_score(
        truth, guesses, pos_label=task.labels[1], zero_division=0
    ),
    "macro_f1": lambda truth, guesses, _: sklearn.metrics.f1_score(
        truth, guesses, average="macro", zero_division=0
    ),
    "weighted_f1": lambda truth, guesses, _: sklearn.metrics.f1_score(
        truth, guesses, average="weighted", zero_division=0
    ),
    "matthews": lambda truth, guesses, _: sklearn.metrics.matthews_corrcoef(truth, guesses),
    "kappa": lambda truth, guesses, _: np.nan_to_num(
        sklearn.metrics.cohen_kappa_score(truth, guesses)
    ),
}
_GLUE_METRICS = {
    "ax": ("matthews", "accuracy"),
    "cola": ("matthews", "accuracy"),
    "mrpc": ("accuracy", "f1"),
    "qqp": ("accuracy", "f1"),
}


def _glue(kind: str) -> Classification:
    data = glue.SETS[kind]
    return Classification(
        kind,
        glue_files(kind),
        pair=data.text_b is not None,
        symmetric=kind in ("mrpc", "qqp"),
        labels=data.labels,
        metric_names=_GLUE_METRICS.get(kind, ("accuracy",)),
        submission=tuple(data.submission.items()),
        submit_labels=data.words,
    )


TASKS = (
    *(_glue(kind) for kind in glue.SETS if kind != "stsb"),
    Classification("classification", text_files()),
    Classification("pair", text_files(pair=True), pair=True),
)
