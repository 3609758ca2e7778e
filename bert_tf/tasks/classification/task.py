"""Classification and regression of single texts and of pairs."""

import collections
import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import scipy.special
import scipy.stats
import sklearn.metrics
import tensorflow as tf

from bert_tf.tasks import base, messages
from bert_tf.tasks.base import Task
from bert_tf.tasks.classification.serving import ClassificationServing, RegressionServing
from bert_tf.tasks.predictions import ClassPrediction
from pipelines.common.errors import InputError
from pipelines.labelled.features import FeatureColumn, Features
from pipelines.labelled.schema import TextExample, have_labels
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    import matplotlib.figure

PredictionT = TypeVar("PredictionT")


def text_features(
    examples: Sequence[TextExample], tokenizer: Tokenizer, max_length: int
) -> tuple[dict[str, FeatureColumn], dict[str, int]]:
    """Columns of packed single texts or pairs, and how many of them were cut."""
    first = [example.text_a for example in examples]
    pair = examples[0].text_b is not None
    second = [example.text_b or "" for example in examples] if pair else None
    packed, lengths = packing.pack_texts(tokenizer, first, second, max_length)
    cut = int(tf.reduce_sum(tf.cast(lengths > max_length, tf.int32)))
    columns = {
        "input_word_ids": FeatureColumn.of(packed.word_ids),
        "input_type_ids": FeatureColumn.of(packed.type_ids),
    }
    return columns, {f"texts longer than --max_length={max_length}, cut": cut}


@dataclasses.dataclass(frozen=True)
class _TextTask(Task[TextExample, PredictionT]):
    """What classification and regression have in common.

    Attributes:
      pair: whether examples are pairs of texts; found in the training data. None: of a model
        of another program, which does not say so.
      submission: file names of a submission, by split.
    """

    described: ClassVar[tuple[str, ...]] = ("pair",)

    pair: bool | None = False
    submission: tuple[tuple[str, str], ...] = ()

    def problem(self, example: TextExample) -> str | None:
        """An empty text."""
        return base.empty_text(example, "text_a", "text_b")

    def check(self, examples: Sequence[TextExample]) -> None:
        """Checks that texts are single, or pairs, as the task has them."""
        for example in examples:
            if self.pair not in (None, example.text_b is not None):
                has, takes = ("single texts", "pairs") if self.pair else ("pairs", "single texts")
                raise InputError(
                    f"{example.place}: the file has {has}, the task {self.name} takes {takes}; "
                    "name its columns with --columns=, or when predicting, its layout with --kind=."
                )

    @property
    def segments(self) -> int:
        """One for each text."""
        return 2 if self.pair else 1


@dataclasses.dataclass(frozen=True)
class Classification(_TextTask[ClassPrediction]):
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
        messages.check_labels(numbers, examples[0].place, "label")
        named = [name for _, name in self.label_map if name in numbers]
        labels = self.labels or tuple(named or sorted(numbers, key=_order))
        counts = np.array([numbers[label] for label in labels])
        if (counts > 0).sum() < 2:
            path = messages.file_of(examples[0].place)
            raise InputError(
                f"{path}: all {len(examples)} examples have the label "
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
        columns, counts = text_features(examples, tokenizer, self.max_length)
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

    def files(
        self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction], split: str
    ) -> dict[str, str]:
        """A table of keys and labels; GLUE's submission file where the task is of GLUE."""
        submission = dict(self.submission).get(split)
        numbers = {label: str(number) for number, label in enumerate(self.labels)}
        if submission:
            rows = [["index", "prediction"]]
            for index, prediction in enumerate(predictions):
                label = prediction.label if self.submit_labels else numbers[prediction.label]
                rows.append([str(index), label])
            return {f"{submission}.tsv": base.table(rows, "\t")}
        rows = [["id", "label", *(f"p({label})" for label in self.labels)]]
        for example, prediction in zip(examples, predictions, strict=True):
            shares = [f"{value:.6f}" for value in prediction.probabilities]
            rows.append([example.key, prediction.label, *shares])
        return {f"predictions.{split}.tsv": base.table(rows, "\t")}

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
            + show_text(example)
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
        base.draw_matrix(figure.subplots(), matrix, self.labels)


def _order(label: str) -> tuple[int, int, str]:
    """Numbers by their value, before words."""
    return (0, int(label), label) if re.fullmatch(r"-?[0-9]{1,18}", label) else (1, 0, label)


def _is_number(text: str) -> bool:
    try:
        return bool(abs(float(text)) <= np.finfo(np.float32).max)
    except ValueError:
        return False


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


def show_text(example: TextExample) -> str:
    """The texts of an example, indented, for reports."""
    texts = [example.text_a] if example.text_b is None else [example.text_a, example.text_b]
    return "\n".join(f"    {messages.shorten(text)}" for text in texts)


@dataclasses.dataclass(frozen=True)
class Regression(_TextTask[float]):
    """A score, by the mean squared error.

    Attributes:
      bounds: the least and the greatest score, to which predictions are cut in files.
    """

    bounds: tuple[float, float] | None = None
    shape: str = dataclasses.field(default="regression", init=False)
    main_metric: str = dataclasses.field(default="pearson_spearman", init=False)

    @property
    def units(self) -> int:
        """One: the score."""
        return 1

    def fit(self, examples: Sequence[TextExample]) -> Self:
        """Checks that scores differ."""
        fitted = dataclasses.replace(self, pair=examples[0].text_b is not None)
        fitted.check(examples)
        if len({float(example.truth) for example in examples}) < 2:
            path = messages.file_of(examples[0].place)
            raise InputError(
                f"{path}: all {len(examples)} scores are the same; give "
                "examples of different scores."
            )
        return fitted

    def check(self, examples: Sequence[TextExample]) -> None:
        """As usual, and for scores that are no numbers."""
        super().check(examples)
        for example in examples:
            if example.label is not None and not _is_number(example.label):
                raise InputError(
                    f"{example.place}: the score {example.label!r} is not a number; write one, "
                    "such as 2.5, or leave the example out."
                )

    def features(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> Features:
        """Packed sequences, and scores where known."""
        columns, counts = text_features(examples, tokenizer, self.max_length)
        if have_labels(examples):
            columns["labels"] = FeatureColumn.of(
                np.array([float(e.truth) for e in examples], np.float32)
            )
        return Features(columns, counts)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Squared errors."""
        return tf.square(logits[:, 0] - batch["labels"])

    def serving(self) -> RegressionServing:
        """See `signatures.texts`."""
        return RegressionServing(self.name, bool(self.pair), self.max_length)

    def predict(
        self, examples: Sequence[TextExample], features: Features, logits: Sequence[np.ndarray]
    ) -> list[float]:
        """The scores."""
        return [float(row[0]) for row in logits]

    def metrics(
        self, examples: Sequence[TextExample], predictions: Sequence[float]
    ) -> dict[str, float]:
        """Pearson's and Spearman's correlation, and their mean; 0 where all scores are the same."""
        truth = [float(example.truth) for example in examples]
        pearson = spearman = 0.0
        if len(set(truth)) > 1 and len(set(predictions)) > 1:
            found = (scipy.stats.pearsonr, scipy.stats.spearmanr)
            # Scores that are the same but for rounding have no correlation either.
            pearson, spearman = (
                float(np.nan_to_num(f(truth, predictions).statistic)) for f in found
            )
        return {
            "pearson_spearman": (pearson + spearman) / 2,
            "pearson": pearson,
            "spearman": spearman,
        }

    def files(
        self, examples: Sequence[TextExample], predictions: Sequence[float], split: str
    ) -> dict[str, str]:
        """A table of keys and scores; GLUE's submission file where the task is of GLUE."""
        submission = dict(self.submission).get(split)
        low, high = self.bounds or (-np.inf, np.inf)
        rows = [["index", "prediction"] if submission else ["id", "score"]]
        for index, (example, score) in enumerate(zip(examples, predictions, strict=True)):
            key = str(index) if submission else example.key
            rows.append([key, f"{min(max(score, low), high):.3f}"])
        name = f"{submission}.tsv" if submission else f"predictions.{split}.tsv"
        return {name: base.table(rows, "\t")}

    def mistakes(
        self, examples: Sequence[TextExample], predictions: Sequence[float], count: int
    ) -> list[str]:
        """The scores that are farthest off."""
        pairs = sorted(
            zip(predictions, examples, strict=True), key=lambda p: -abs(p[0] - float(p[1].truth))
        )
        return [
            f"{example.place}: {score:.2f} is {float(example.truth):.2f}\n{show_text(example)}"
            for score, example in pairs[:count]
        ]

    def draw(
        self,
        figure: "matplotlib.figure.Figure",
        examples: Sequence[TextExample],
        predictions: Sequence[float],
    ) -> None:
        """Predicted against true scores."""
        axes = figure.subplots()
        axes.scatter([float(e.truth) for e in examples], predictions, s=8, alpha=0.4)
        axes.set_xlabel("true")
        axes.set_ylabel("predicted")
        axes.grid(alpha=0.3)
