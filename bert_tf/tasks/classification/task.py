"""Classification of single texts and of pairs."""

import collections
import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.special
import sklearn.metrics
import tensorflow as tf

from bert_tf.tasks import base, messages, plots
from bert_tf.tasks.classification import texts
from bert_tf.tasks.classification.serving import ClassificationServing
from bert_tf.tasks.predictions import ClassPrediction
from pipelines.common.errors import InputError
from pipelines.labelled.features import FeatureColumn, Features
from pipelines.labelled.schema import TextExample, have_labels
from pipelines.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    import matplotlib.figure


@dataclasses.dataclass(frozen=True)
class Classification(texts.TextTask[ClassPrediction]):
    """One of several labels.

    Attributes:
      balanced: whether the loss weighs labels by the inverse of their frequency.
      label_weights: those weights, found in the training data.
      metric_names: which metrics to give, of `_METRICS`; the first is the main one.
      submit_labels: whether a submission has the labels, not their numbers.
    """

    balanced: bool = False
    label_weights: tuple[float, ...] = ()
    metric_names: tuple[str, ...] = ("accuracy", "macro_f1")
    submit_labels: bool = True
    shape: str = dataclasses.field(default="classification", init=False)

    @property
    def units(self) -> int:
        """One for each label."""
        return len(self.labels)

    @property
    def main_metric(self) -> str:
        """The first of `metric_names`."""
        return self.metric_names[0]

    def fit(self, examples: Sequence[TextExample]) -> Self:
        """Finds the labels, sorted, and their weights."""
        numbers = collections.Counter(example.truth for example in examples)
        messages.check_labels(
            numbers, examples[0].place, "label", named="label" in dict(self.columns)
        )
        named = [name for _, name in self.label_map if name in numbers]
        labels = self.labels or tuple(named or sorted(numbers, key=_order))
        counts = np.array([numbers[label] for label in labels])
        if (counts > 0).sum() < 2:
            path = messages.file_of(examples[0].place)
            raise InputError(
                f"{path}: every example ({len(examples):,} in all) has the label "
                f"{labels[int(counts.argmax())]!r}; there is nothing to learn from one class."
            )
        return dataclasses.replace(
            self,
            pair=examples[0].text_b is not None,
            labels=labels,
            label_weights=base.balancing_weights(counts) if self.balanced else (),
        )

    def check(self, examples: Sequence[TextExample]) -> None:
        """As usual, and for unknown labels."""
        super().check(examples)
        for example in examples:
            if example.label is not None:
                messages.check_known(example.label, self.labels, example.place, "label")

    def features(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> Features:
        """Packed sequences, and labels where known."""
        columns, counts = texts.text_features(examples, tokenizer, self.max_length)
        if have_labels(examples):
            index = {label: number for number, label in enumerate(self.labels)}
            columns["labels"] = FeatureColumn.of(np.array([index[e.truth] for e in examples]))
        return Features(columns, counts)

    def batch_labels(
        self, features: Features, rows: np.ndarray, size: int, length: int
    ) -> base.Batch:
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

    def serving(self) -> ClassificationServing:
        """See `signatures.texts`."""
        return ClassificationServing(self.name, bool(self.pair), self.max_length, self.labels)

    def predict(
        self, examples: Sequence[TextExample], features: Features, logits: Sequence[np.ndarray]
    ) -> list[ClassPrediction]:
        """The most probable labels."""
        probabilities = scipy.special.softmax(np.stack(logits), axis=-1)
        return [ClassPrediction(self.labels[int(row.argmax())], row) for row in probabilities]

    def metrics(
        self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]
    ) -> dict[str, float]:
        """Those of `metric_names`."""
        truth = [example.label for example in examples]
        guesses = [prediction.label for prediction in predictions]
        return {name: float(_METRICS[name](truth, guesses, self)) for name in self.metric_names}

    def baseline(
        self, training: Sequence[TextExample], examples: Sequence[TextExample]
    ) -> list[ClassPrediction]:
        """The most frequent label."""
        counts = collections.Counter(example.truth for example in training)
        label = max(self.labels, key=lambda label: counts[label])
        certain = np.array([float(label == other) for other in self.labels])
        return [ClassPrediction(label, certain)] * len(examples)

    def answers(self, prediction: ClassPrediction) -> Sequence[str]:
        """The label."""
        return [prediction.label]

    def by_label(
        self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]
    ) -> dict[str, base.LabelScores]:
        """Scores of each label."""
        truth = [example.truth for example in examples]
        guesses = [prediction.label for prediction in predictions]
        columns = sklearn.metrics.precision_recall_fscore_support(
            truth, guesses, labels=list(self.labels), zero_division=0
        )
        return base.label_scores(self.labels, columns)

    def files(
        self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction], split: str
    ) -> dict[str, str]:
        """A table of ids, labels, probabilities and texts; where of GLUE, the submission too."""
        rows = [["id", "label", *(f"p({label})" for label in self.labels)]]
        for example, prediction in zip(examples, predictions, strict=True):
            shares = [f"{value:.6f}" for value in prediction.probabilities]
            rows.append([example.key, prediction.label, *shares])
        own = texts.beside(examples, "label")
        table = [[*row, *more] for row, more in zip(rows, own, strict=True)]
        found = {f"predictions.{split}.tsv": base.table(table, "\t")}
        submission = dict(self.submission).get(split)
        if submission:
            found[f"{submission}.tsv"] = self._submission(predictions)
        return found

    def _submission(self, predictions: Sequence[ClassPrediction]) -> str:
        """The file that GLUE takes."""
        numbers = {label: str(number) for number, label in enumerate(self.labels)}
        rows = [["index", "prediction"]]
        for index, prediction in enumerate(predictions):
            label = prediction.label if self.submit_labels else numbers[prediction.label]
            rows.append([str(index), label])
        return base.table(rows, "\t")

    def mistakes(
        self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction], count: int
    ) -> list[str]:
        """The wrong labels that the model was surest of."""
        wrong = [
            (float(prediction.probabilities.max()), example, prediction)
            for example, prediction in zip(examples, predictions, strict=True)
            if prediction.label != example.label
        ]
        wrong.sort(key=lambda item: -item[0])
        return [
            f"{example.place}: {prediction.label!r} ({sure:.0%} sure) is {example.label!r}\n"
            + texts.show_text(example)
            for sure, example, prediction in wrong[:count]
        ]

    def draw(
        self,
        figure: "matplotlib.figure.Figure",
        examples: Sequence[TextExample],
        predictions: Sequence[ClassPrediction],
    ) -> None:
        """The confusion matrix."""
        matrix = sklearn.metrics.confusion_matrix(
            [example.label for example in examples],
            [prediction.label for prediction in predictions],
            labels=list(self.labels),
        )
        plots.draw_confusion(figure, matrix, self.labels)


def _order(label: str) -> tuple[int, int, str]:
    """Numbers by their value, before words."""
    return (0, int(label), label) if re.fullmatch(r"-?[0-9]{1,18}", label) else (1, 0, label)


def _f1(truth: list[str], guesses: list[str], task: Classification) -> float:
    return sklearn.metrics.f1_score(truth, guesses, pos_label=task.labels[1], zero_division=0)


_METRICS: dict[str, Any] = {
    "accuracy": lambda truth, guesses, _: sklearn.metrics.accuracy_score(truth, guesses),
    "f1": _f1,
    "macro_f1": lambda truth, guesses, _: sklearn.metrics.f1_score(
        truth, guesses, average="macro", zero_division=0
    ),
    "matthews": lambda truth, guesses, _: sklearn.metrics.matthews_corrcoef(truth, guesses),
}
