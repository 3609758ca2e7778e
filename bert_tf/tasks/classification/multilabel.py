"""Classification of texts and pairs that may have several labels, or none of them."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import tensorflow as tf

from bert_tf.tasks import plots, signatures
from bert_tf.tasks.base import Batch, LabelScores, TaskFiles
from bert_tf.tasks.classification import metrics
from bert_tf.tasks.classification.texts import TextTask, show_texts
from bert_tf.tasks.labels import LabelTask, check_case, check_labels, label_scores
from bert_tf.tasks.reports import file_of
from bert_tf.tasks.signatures import Arrays
from pipelines.common.errors import InputError
from pipelines.labelled import user_files
from pipelines.labelled.features import FeatureColumn, Features
from pipelines.labelled.schema import MultiLabelExample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_THRESHOLD = 0.5  # of labels that are too rare in dev data to tune one
_MIN_COUNT = 5  # of a label in dev data
NO_LABEL = "(no label)"
_METRICS = ("micro_f1", "macro_f1", "exact_match")


class LabelProbabilities(NamedTuple):
    """The probability of each label, float32 [labels]."""

    probabilities: np.ndarray


Examples = Sequence[MultiLabelExample]
Predictions = Sequence[LabelProbabilities]


@dataclasses.dataclass(frozen=True)
class MultiLabel(LabelTask, TextTask):
    """Any number of labels: an independent yes or no for each.

    Attributes:
      thresholds: the probability from which on a text has a label, for each; tuned on dev data.
        Empty: 0.5.
      metric: the main metric, by which weights and runs are chosen; empty: micro F1.
    """

    shape: ClassVar[str] = "multilabel"
    role: ClassVar[str] = "labels"
    described: ClassVar[tuple[str, ...]] = (
        *TextTask.described,
        "thresholds",
        "metric",
        "label_form",
    )

    thresholds: tuple[float, ...] = ()
    metric: str = ""
    label_form: Literal["", "|", ";", ","] = ""

    @property
    def main_metric(self) -> str:
        """The chosen metric, or micro F1."""
        return self.metric or _METRICS[0]

    @property
    def limits(self) -> np.ndarray:
        """The thresholds, float32 [labels]."""
        return np.array(self.thresholds or [_THRESHOLD] * self.units, np.float32)

    def given(self, example: MultiLabelExample) -> Sequence[str]:
        """The labels."""
        return example.labels or ()

    def fit(self, examples: Examples) -> Self:
        """Finds the labels, sorted, and their weights."""
        counts = self.counted(examples)
        check_labels(counts, examples[0].place, "labels", named="labels" in dict(self.columns))
        if not self.label_map:
            check_case(counts, examples[0].place, "labels")
        named = dict.fromkeys(name for _, name in self.label_map if name in counts)
        labels = tuple(named or sorted(counts))
        if not labels:
            raise InputError(
                f"{file_of(examples[0].place)}: none of {len(examples):,} examples has a label; "
                "name their column, or columns of 0 and 1, with --columns=labels=COLUMN."
            )
        if self.metric:
            metrics.check(self.name, self.metric, _METRICS, labels)
        found = np.array([counts[label] for label in labels])
        odds = found / np.maximum(len(examples) - found, 1)
        # The root: full weights make rare labels far too frequent.
        weights = odds**-0.5 if self.balanced else np.ones(len(odds))
        return dataclasses.replace(
            self,
            pair=examples[0].text_b is not None,
            labels=labels,
            label_weights=tuple(weights.tolist()) if self.balanced else (),
            # From zeros, the encoder would learn that labels are rare, and nothing else (Lin et al.
            # 2017, arXiv 1708.02002, section 4.1).
            first_bias=tuple(np.log(weights * odds).tolist()),
        )

    def tune(self, examples: Examples, predictions: Predictions) -> Self:
        """Sets the threshold of each label to the one with the highest F1."""
        truth, probabilities = self._indicators(examples), _stacked(predictions)
        tuned = [_best_threshold(*pair) for pair in zip(truth.T, probabilities.T, strict=True)]
        return dataclasses.replace(self, thresholds=tuple(tuned))

    def label_column(self, examples: Examples) -> FeatureColumn:
        """The ids of the labels of each example, without those that training lacks."""
        known = [[x for x in self.given(example) if x in self.labels] for example in examples]
        ids = [self.labels.index(label) for labels in known for label in labels]
        return FeatureColumn(np.array(ids, np.int64), np.cumsum([0, *map(len, known)]))

    def batch_labels(self, features: Features, rows: np.ndarray, size: int, length: int) -> Batch:
        """float32 [size, labels]: 1 for the labels of a row."""
        if "labels" not in features:
            return {}
        labels = np.zeros((size, self.units), np.float32)
        for index, row in enumerate(rows):
            labels[index, features["labels"].row(row)] = 1
        return {"labels": labels}

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Negative log-likelihood of the labels: the sum of their binary cross-entropies."""
        weights = tf.constant(self.label_weights or [1.0] * self.units)
        return tf.reduce_sum(
            tf.nn.weighted_cross_entropy_with_logits(batch["labels"], logits, weights), -1
        )

    def teacher_losses(self, logits: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
        """Sum of the binary cross-entropies with a teacher's probabilities."""
        wanted = tf.sigmoid(teacher)
        return tf.reduce_sum(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits), -1
        )

    def outputs(self, logits: Any) -> dict[str, Any]:
        """The labels that reach their thresholds, and the probabilities of all."""
        probabilities = signatures.sigmoid(logits)
        return {
            "labels": signatures.above(self.labels, probabilities, self.limits),
            "probabilities": probabilities,
            "logits": logits,
        }

    def from_outputs(self, examples: Examples, outputs: Arrays) -> list[LabelProbabilities]:
        """The probabilities."""
        return [LabelProbabilities(row) for row in outputs["probabilities"]]

    def chosen(self, prediction: LabelProbabilities) -> list[str]:
        """The labels whose probability reaches their threshold."""
        reached = prediction.probabilities >= self.limits
        return [label for label, chosen in zip(self.labels, reached, strict=True) if chosen]

    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Micro and macro F1, and the fraction of examples with exactly the right labels.

        Labels that training lacks count as wrong.
        """
        truth, guesses = self._indicators(examples), self._guesses(predictions)
        hits, given = (truth & guesses).sum(), self.counted(examples)
        f1 = [scores["f1"] for scores in self.by_label(examples, predictions).values()]
        lacking = given.keys() - set(self.labels)
        extra = sum(given[label] for label in lacking)
        known = [lacking.isdisjoint(self.given(example)) for example in examples]
        values = (
            float(2 * hits / max(guesses.sum() + truth.sum() + extra, 1)),
            float(np.sum(f1) / (len(f1) + len(lacking))),
            float(((truth == guesses).all(-1) & known).mean()),
        )
        found = dict(zip(_METRICS, values, strict=True))
        main = self.main_metric
        if main not in found:
            found[main] = metrics.score(main, self, examples, predictions)
        return {main: found[main], **found}

    def baseline(self, training: Examples, examples: Examples) -> list[LabelProbabilities]:
        """The most frequent label."""
        counts = self.counted(training)
        usual = max(self.labels, key=lambda label: counts[label])
        certain = np.array([label == usual for label in self.labels], np.float32)
        return [LabelProbabilities(certain)] * len(examples)

    def answers(self, prediction: LabelProbabilities) -> Sequence[str]:
        """The chosen labels, as one answer."""
        return [", ".join(self.chosen(prediction)) or NO_LABEL]

    def by_label(self, examples: Examples, predictions: Predictions) -> dict[str, LabelScores]:
        """Scores of each label."""
        truth, guesses = self._indicators(examples), self._guesses(predictions)
        hits, guessed, true = (truth & guesses).sum(0), guesses.sum(0), truth.sum(0)
        precision, recall = hits / np.maximum(guessed, 1), hits / np.maximum(true, 1)
        f1 = 2 * hits / np.maximum(guessed + true, 1)
        return label_scores(self.labels, (precision, recall, f1, true))

    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """A table of ids, labels, probabilities and texts."""
        columns = {"labels": [", ".join(self.chosen(prediction)) for prediction in predictions]}
        for id_, label in enumerate(self.labels):
            columns[f"p({label})"] = [f"{each.probabilities[id_]:.6f}" for each in predictions]
        return self.tables(examples, split, "labels", columns, ())

    def errors(
        self, example: MultiLabelExample, prediction: LabelProbabilities
    ) -> Iterable[tuple[float, str]]:
        """Wrong labels; the worst are those with the least probable truth."""
        chosen = self.chosen(prediction)
        if set(chosen) != set(self.given(example)):
            truth = self._indicators([example])[0]
            wrong = float(np.abs(truth - prediction.probabilities).max())
            found, true = ", ".join(chosen) or NO_LABEL, example.truth or NO_LABEL
            yield -wrong, f"{example.place}: {found} is {true}\n{show_texts(example)}"

    def draw(self, figure: "Figure", examples: Examples, predictions: Predictions) -> None:
        """F1 of each label."""
        plots.draw_label_scores(figure, self.by_label(examples, predictions))

    def _indicators(self, examples: Examples) -> np.ndarray:
        """Whether examples have labels, int64 [examples, labels]."""
        given = [set(self.given(example)) for example in examples]
        return np.array([[label in names for label in self.labels] for names in given], np.int64)

    def _guesses(self, predictions: Predictions) -> np.ndarray:
        """Whether labels are chosen, int64 [examples, labels]."""
        return (_stacked(predictions) >= self.limits).astype(np.int64)


def _stacked(predictions: Predictions) -> np.ndarray:
    return np.stack([prediction.probabilities for prediction in predictions])


def _best_threshold(truth: np.ndarray, probabilities: np.ndarray) -> float:
    """The threshold of a label with the highest F1, halfway between two probabilities."""
    if truth.sum() < _MIN_COUNT:
        return _THRESHOLD
    order = np.argsort(-probabilities, kind="stable")
    sorted_, hits = probabilities[order], np.cumsum(truth[order])
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + hits[-1])
    # Equal probabilities cannot be told apart.
    f1[:-1][sorted_[:-1] == sorted_[1:]] = 0
    last = int(f1.argmax())
    below = sorted_[last + 1] if last + 1 < len(sorted_) else np.float32(0)
    middle = (sorted_[last] + below) / 2
    # Half of two neighbouring numbers may be the lower one.
    return float(middle if middle > below else sorted_[last])


_FILES = dataclasses.replace(
    TaskFiles.of_user(user_files.read_multilabel), label_forms=user_files.label_separators
)
TASKS = (MultiLabel("multilabel", _FILES),)
