"""Regression of single texts and of pairs (paper, section 4.1: STS-B)."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import scipy.stats
import tensorflow as tf

from bert_tf.tasks import base, messages
from bert_tf.tasks.classification import texts
from bert_tf.tasks.classification.serving import RegressionServing
from pipelines.common.errors import InputError
from pipelines.labelled.features import FeatureColumn, Features
from pipelines.labelled.schema import TextExample, have_labels
from pipelines.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    import matplotlib.figure


@dataclasses.dataclass(frozen=True)
class Regression(texts.TextTask[float]):
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
                f"{path}: every example ({len(examples):,} in all) has the same score; give "
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
        columns, counts = texts.text_features(examples, tokenizer, self.max_length)
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

    def baseline(
        self, training: Sequence[TextExample], examples: Sequence[TextExample]
    ) -> list[float]:
        """The mean score."""
        return [float(np.mean([float(e.truth) for e in training]))] * len(examples)

    def answers(self, prediction: float) -> Sequence[str]:
        """The score, to three digits."""
        return [f"{prediction:.3g}"]

    def files(
        self, examples: Sequence[TextExample], predictions: Sequence[float], split: str
    ) -> dict[str, str]:
        """A table of ids, scores and texts; where of GLUE, the submission too."""
        low, high = self.bounds or (-np.inf, np.inf)
        scores = [f"{min(max(score, low), high):.3f}" for score in predictions]
        own = texts.beside(examples, "score")
        keyed = zip(examples, scores, strict=True)
        rows = [["id", "score"], *([example.key, score] for example, score in keyed)]
        table = [[*row, *more] for row, more in zip(rows, own, strict=True)]
        found = {f"predictions.{split}.tsv": base.table(table, "\t")}
        submission = dict(self.submission).get(split)
        if submission:
            rows = [["index", "prediction"], *([str(i), s] for i, s in enumerate(scores))]
            found[f"{submission}.tsv"] = base.table(rows, "\t")
        return found

    def mistakes(
        self, examples: Sequence[TextExample], predictions: Sequence[float], count: int
    ) -> list[str]:
        """The scores that are farthest off."""
        pairs = sorted(
            zip(predictions, examples, strict=True), key=lambda p: -abs(p[0] - float(p[1].truth))
        )
        return [
            f"{example.place}: {score:.2f} is {float(example.truth):.2f}\n"
            + texts.show_text(example)
            for score, example in pairs[:count]
        ]

    def draw(
        self,
        figure: "matplotlib.figure.Figure",
        examples: Sequence[TextExample],
        predictions: Sequence[float],
    ) -> None:
        """Predicted against true scores, and the line on which they are equal."""
        axes = figure.subplots()
        truth = [float(example.truth) for example in examples]
        ends = [min(*truth, *predictions), max(*truth, *predictions)]
        axes.plot(ends, ends, color="gray", linewidth=0.8)
        axes.scatter(truth, predictions, s=8, alpha=0.4)
        axes.set_xlabel("true")
        axes.set_ylabel("predicted")
        axes.grid(alpha=0.3)


def _is_number(text: str) -> bool:
    try:
        return bool(abs(float(text)) <= np.finfo(np.float32).max)
    except ValueError:
        return False
