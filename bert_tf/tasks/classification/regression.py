"""Regression of single texts and of pairs, to one number or several (paper, section 4.1: STS-B)."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import scipy.stats
import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.base import Batch, Task
from bert_tf.tasks.classification.texts import TextTask, glue_files, show_texts, text_files
from bert_tf.tasks.reports import file_of
from bert_tf.tasks.signatures import Arrays, Method, ServedModel, Signature
from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.labelled import glue
from pipelines.labelled.features import FeatureColumn, Features
from pipelines.labelled.schema import TextExample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = {"id", "text", "text_a", "text_b", "true_scores"}  # of predictions
Examples = Sequence[TextExample]
Predictions = Sequence[float | np.ndarray]  # [numbers] if there are several


@dataclasses.dataclass(frozen=True)
class Regression(TextTask):
    """A score, or several with names (`labels`), by the mean squared error.

    Attributes:
      bounds: the lowest and the highest score, to which predictions in files are clipped.
      activation: what makes the logit a score, as rerankers of other programs state it; None:
        nothing does.
    """

    shape: ClassVar[str] = "regression"
    described: ClassVar[tuple[str, ...]] = (*TextTask.described, "activation")
    method: ClassVar[Method] = Method.REGRESS
    main_metric = "pearson_spearman"

    bounds: tuple[float, float] | None = None
    activation: Literal["identity", "sigmoid"] | None = None

    @property
    def units(self) -> int:
        """One for each number."""
        return max(1, len(self.labels))

    def describe(self) -> dict[str, Any]:
        """As usual; `activation` if it is stated."""
        found = super().describe()
        return {k: v for k, v in found.items() if (k, v) != ("activation", None)}

    def scores(self, logits: Any) -> Any:
        """The scores that logits [batch, numbers] stand for, of which rerankers have sigmoids."""
        return signatures.sigmoid(logits) if self.activation == "sigmoid" else logits

    def outputs(self, logits: Any) -> dict[str, Any]:
        """The scores: `score` [batch], or `scores` [batch, numbers] if there are several."""
        scores = self.scores(logits)
        return {"scores": scores} if self.labels else {"score": scores[:, 0]}

    def begin_with(self, known: Iterable[Task]) -> Self:
        """A head that is trained further keeps what makes its logit a score."""
        form = (self.name, self.labels, self.head)
        regressions = (task for task in known if isinstance(task, Regression))
        same = (task for task in regressions if (task.name, task.labels, task.head) == form)
        found = next((task.activation for task in same), None)
        return dataclasses.replace(self, activation=found)

    def signatures(self, model: ServedModel) -> list[Signature]:
        """As for all texts; TensorFlow Serving's interface for regression has one number."""
        found = super().signatures(model)
        return found[:-1] if self.labels else found

    def fit(self, examples: Examples) -> Self:
        """Finds the names of several numbers, and checks that scores differ."""
        names = dict(self.columns).get("label", "").split("+")
        if taken := _COLUMNS & set(names if len(names) > 1 else ()):
            raise InputError(
                f"--columns=label={'+'.join(names)}: predictions have a column {min(taken)!r} of "
                "their own; rename yours."
            )
        fitted = dataclasses.replace(
            self, pair=examples[0].text_b is not None, labels=tuple(names) if len(names) > 1 else ()
        )
        fitted.check(examples)
        for name, column in zip(names, fitted.scores_of(examples).T, strict=True):
            if len(set(column)) < 2:
                raise InputError(
                    f"{file_of(examples[0].place)}: every example ({len(examples):,} in all) has "
                    f"the same score{f' {name}' if fitted.labels else ''}; give examples of "
                    "different scores."
                )
        return fitted

    def check(self, examples: Examples) -> None:
        """Checks the number of texts, and that scores are numbers."""
        super().check(examples)
        for example in examples:
            found = [] if example.label is None else [example.label]
            if self.labels and found:
                found = found[0].split()
            for number in found:
                if not _is_number(number):
                    raise InputError(
                        f"{example.place}: the score {number!r} is not a number; write one, "
                        "such as 2.5, or leave the example out. Several have columns of their own: "
                        "--columns=label=FIRST+SECOND."
                    )
                if self.activation == "sigmoid" and not 0 <= float(number) <= 1:
                    raise InputError(
                        f"{example.place}: the score {number} is not from 0 to 1, and the "
                        "model's scores are; give --task another name, so that a new head is "
                        "trained, or divide the scores by the largest."
                    )
            if found and len(found) != self.units:
                raise InputError(
                    f"{example.place}: has {counted(len(found), 'score')}, and the task "
                    f"{self.units}; write one in each column."
                )

    def scores_of(self, examples: Examples) -> np.ndarray:
        """The true scores, float64 [examples, numbers]."""
        return np.array([list(map(float, example.truth.split())) for example in examples])

    def label_column(self, examples: Sequence[Any]) -> FeatureColumn:
        """The scores, as many in each row as there are numbers."""
        values = self.label_values(examples)
        return FeatureColumn(values, np.arange(0, len(values) + 1, self.units))

    def label_values(self, examples: Examples) -> np.ndarray:
        """The scores of all examples, one after the other."""
        return self.scores_of(examples).astype(np.float32).ravel()

    def batch_labels(self, features: Features, rows: np.ndarray, size: int, length: int) -> Batch:
        """float32 [size, numbers]."""
        if "labels" not in features:
            return {}
        labels = np.zeros((size, self.units), np.float32)
        labels[: len(rows)] = features["labels"].values.reshape(-1, self.units)[rows]
        return {"labels": labels}

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Squared errors, the means of all numbers."""
        return tf.reduce_mean(tf.square(self.scores(logits) - batch["labels"]), -1)

    def teacher_losses(self, logits: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
        """Squared differences from the teacher's scores, the means of all numbers."""
        return tf.reduce_mean(tf.square(self.scores(logits) - teacher), -1)

    def from_outputs(self, examples: Examples, outputs: Arrays) -> list[float | np.ndarray]:
        """The scores."""
        return list(outputs["scores"]) if self.labels else outputs["score"].astype(float).tolist()

    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Pearson's and Spearman's correlation, and their mean; 0 where all scores are the same.

        Of several numbers, the means, and the Pearson correlation of each.
        """
        columns = zip(self.scores_of(examples).T, self._columns(predictions), strict=True)
        pearson, spearman = np.array([_correlations(*pair) for pair in columns]).T
        found = {
            "pearson_spearman": float(pearson.mean() + spearman.mean()) / 2,
            "pearson": float(pearson.mean()),
            "spearman": float(spearman.mean()),
        }
        each = zip(self.labels, pearson.tolist(), strict=False)
        return found | {f"pearson:{name}": value for name, value in each}

    def baseline(self, training: Examples, examples: Examples) -> list[float | np.ndarray]:
        """The mean score."""
        mean = self.scores_of(training).mean(0)
        return [mean if self.labels else float(mean[0])] * len(examples)

    def answers(self, prediction: float | np.ndarray) -> Sequence[str]:
        """The score, to three digits."""
        return [", ".join(f"{score:.3g}" for score in np.atleast_1d(prediction))]

    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """A table of ids, scores and texts; for GLUE, the submission too."""
        names = self.labels or ("score",)
        columns = self._columns(predictions).clip(*(self.bounds or (-np.inf, np.inf)))
        # With the digits of the submission to GLUE; of scores of any scale, those of float32.
        form = ".3f" if self.submission else ".7g"
        shown = [[f"{score:{form}}" for score in column] for column in columns]
        found = dict(zip(names, shown, strict=True))
        return self.tables(examples, split, "scores" if self.labels else "score", found, shown[0])

    def errors(
        self, example: TextExample, prediction: float | np.ndarray
    ) -> Iterable[tuple[float, str]]:
        """The difference from the true score, the largest of several."""
        true, found = self.scores_of([example])[0], np.atleast_1d(prediction)
        shown = [", ".join(f"{score:.2f}" for score in each) for each in (found, true)]
        text = f"{example.place}: {shown[0]} is {shown[1]}\n{show_texts(example)}"
        yield -float(np.abs(found - true).max()), text

    def draw(self, figure: "Figure", examples: Examples, predictions: Predictions) -> None:
        """Predicted against true scores, and the line on which they are equal."""
        axes = figure.subplots()
        truth, found = self.scores_of(examples).T, self._columns(predictions)
        ends = [min(truth.min(), found.min()), max(truth.max(), found.max())]
        axes.plot(ends, ends, color="gray", linewidth=0.8)
        for name, xs, ys in zip(self.labels or ("score",), truth, found, strict=True):
            axes.scatter(xs, ys, s=8, alpha=0.4, label=name)
        if self.labels:
            axes.legend(fontsize=8)
        axes.set_xlabel("true")
        axes.set_ylabel("predicted")
        axes.grid(alpha=0.3)

    def _columns(self, predictions: Predictions) -> np.ndarray:
        """The scores, float64 [numbers, examples]."""
        return np.array(predictions, np.float64).reshape(len(predictions), self.units).T


def _correlations(truth: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """Pearson's and Spearman's correlation of scores that differ; otherwise 0."""
    if len(set(truth)) < 2 or len(set(found)) < 2:
        return 0.0, 0.0
    # Scores that are the same but for rounding have no correlation either.
    pearson, spearman = (
        float(np.nan_to_num(correlation(truth, found).statistic))
        for correlation in (scipy.stats.pearsonr, scipy.stats.spearmanr)
    )
    return pearson, spearman


def _is_number(text: str) -> bool:
    try:
        return "_" not in text and bool(abs(float(text)) <= np.finfo(np.float32).max)
    except ValueError:
        return False


TASKS = (
    Regression(
        "stsb",
        glue_files("stsb"),
        pair=True,
        symmetric=True,
        bounds=(0.0, 5.0),
        submission=tuple(glue.SETS["stsb"].submission.items()),
    ),
    Regression("regression", text_files()),
)
