"""Regression of single texts and of pairs (paper, section 4.1: STS-B)."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf

from bert_tf.tasks import signatures
from bert_tf.tasks.classification.texts import TextTask, glue_files, show_texts, text_files
from bert_tf.tasks.reports import file_of
from bert_tf.tasks.signatures import Arrays, Method
from pipelines.common.errors import InputError
from pipelines.labelled import glue
from pipelines.labelled.schema import TextExample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Examples = Sequence[TextExample]
Predictions = Sequence[float]


@dataclasses.dataclass(frozen=True)
class Regression(TextTask):
    """A score, by the mean squared error.

    Attributes:
      bounds: the lowest and the highest score, to which predictions in files are clipped.
      activation: what makes the logit a score, as rerankers of other programs state it; None:
        nothing does.
    """

    shape: ClassVar[str] = "regression"
    described: ClassVar[tuple[str, ...]] = (*TextTask.described, "activation")
    method: ClassVar[Method] = Method.REGRESS
    main_metric = "pearson_spearman"
    units = 1  # the score

    bounds: tuple[float, float] | None = None
    activation: Literal["identity", "sigmoid"] | None = None

    def describe(self) -> dict[str, Any]:
        """As usual; `activation` if it is stated."""
        found = super().describe()
        return {k: v for k, v in found.items() if (k, v) != ("activation", None)}

    def outputs(self, logits: Any) -> dict[str, Any]:
        """The scores."""
        scores = logits[:, 0]
        return {"score": signatures.sigmoid(scores) if self.activation == "sigmoid" else scores}

    def fit(self, examples: Examples) -> Self:
        """Checks that scores differ."""
        fitted = dataclasses.replace(self, pair=examples[0].text_b is not None)
        fitted.check(examples)
        if len(set(_scores(examples))) < 2:
            raise InputError(
                f"{file_of(examples[0].place)}: every example ({len(examples):,} in all) has the "
                "same score; give examples of different scores."
            )
        return fitted

    def check(self, examples: Examples) -> None:
        """Checks the number of texts, and that scores are numbers."""
        super().check(examples)
        for example in examples:
            if example.label is not None and not _is_number(example.label):
                raise InputError(
                    f"{example.place}: the score {example.label!r} is not a number; write one, "
                    "such as 2.5, or leave the example out."
                )

    def label_values(self, examples: Examples) -> np.ndarray:
        """The scores."""
        return np.array(_scores(examples), np.float32)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Squared errors."""
        return tf.square(logits[:, 0] - batch["labels"])

    def teacher_losses(self, logits: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
        """Squared differences."""
        return tf.square(logits[:, 0] - teacher[:, 0])

    def from_outputs(self, examples: Examples, outputs: Arrays) -> list[float]:
        """The scores."""
        return [float(score) for score in outputs["score"]]

    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Pearson's and Spearman's correlation, and their mean; 0 where all scores are the same."""
        truth = _scores(examples)
        pearson = spearman = 0.0
        if len(set(truth)) > 1 and len(set(predictions)) > 1:
            # Scores that are the same but for rounding have no correlation either.
            pearson, spearman = (
                float(np.nan_to_num(correlation(truth, predictions).statistic))
                for correlation in (scipy.stats.pearsonr, scipy.stats.spearmanr)
            )
        return {
            "pearson_spearman": (pearson + spearman) / 2,
            "pearson": pearson,
            "spearman": spearman,
        }

    def baseline(self, training: Examples, examples: Examples) -> list[float]:
        """The mean score."""
        return [float(np.mean(_scores(training)))] * len(examples)

    def answers(self, prediction: float) -> Sequence[str]:
        """The score, to three digits."""
        return [f"{prediction:.3g}"]

    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """A table of ids, scores and texts; for GLUE, the submission too."""
        low, high = self.bounds or (-np.inf, np.inf)
        scores = [f"{min(max(score, low), high):.3f}" for score in predictions]
        return self.tables(examples, split, "score", {"score": scores}, scores)

    def errors(self, example: TextExample, prediction: float) -> Iterable[tuple[float, str]]:
        """The difference from the true score."""
        true = float(example.truth)
        text = f"{example.place}: {prediction:.2f} is {true:.2f}\n{show_texts(example)}"
        yield -abs(prediction - true), text

    def draw(self, figure: "Figure", examples: Examples, predictions: Predictions) -> None:
        """Predicted against true scores, and the line on which they are equal."""
        axes = figure.subplots()
        truth = _scores(examples)
        ends = [min(*truth, *predictions), max(*truth, *predictions)]
        axes.plot(ends, ends, color="gray", linewidth=0.8)
        axes.scatter(truth, predictions, s=8, alpha=0.4)
        axes.set_xlabel("true")
        axes.set_ylabel("predicted")
        axes.grid(alpha=0.3)


def _scores(examples: Examples) -> list[float]:
    return [float(example.truth) for example in examples]


def _is_number(text: str) -> bool:
    try:
        return bool(abs(float(text)) <= np.finfo(np.float32).max)
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
