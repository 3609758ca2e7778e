"""The interface of studies."""

import abc
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import ClassVar, Self

from bert_tf.experiments.jobs import SCORE, Job, Outcome
from bert_tf.experiments.pretraining_jobs import Examples, Pretraining
from bert_tf.experiments.scale import Inputs, Scale
from bert_tf.experiments.scores import Finding, Score
from bert_tf.experiments.size import Size
from pipelines.pretraining.settings import Objective

Outcomes = Mapping[str, Outcome]  # by key of the job


@dataclasses.dataclass(frozen=True)
class Cell:
    """Where a figure comes from: a metric of a job; or of several, one for each model.

    Of one job the values are those of its seeds, of several the mean of each.
    """

    jobs: tuple[Job, ...]
    metric: str = SCORE

    @classmethod
    def of(cls, job: Job, metric: str = SCORE) -> Self:
        """The cell of one job."""
        return cls((job,), metric)

    def score(self, outcomes: Outcomes) -> Score:
        """The figure, as far as the jobs are done."""
        done = [outcomes[job.key] for job in self.jobs if job.key in outcomes]
        if not done:
            return Score(note="not done")
        found = [
            [metrics[self.metric] for metrics in each["scores"].values() if self.metric in metrics]
            for each in done
        ]
        values = found[0] if len(self.jobs) == 1 else [fmean(each) for each in found if each]
        diverged = sum(len(each.get("diverged", {})) for each in done)
        return Score(tuple(values), f"{diverged} diverged" if diverged else "")


@dataclasses.dataclass(frozen=True)
class PaperTable:
    """What the paper found.

    Attributes:
      source: where, such as "Table 5".
      columns: what was measured.
      rows: figures of each model, as the paper prints them.
    """

    source: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float | None, ...]]


Rows = Mapping[str, Mapping[str, Cell]]  # cells by column, by the label of the row
Scores = Mapping[str, Mapping[str, Score]]


@dataclasses.dataclass(frozen=True)
class Axes:
    """How a study is drawn: scores over numbers, a line for each of several rows.

    Attributes:
      label: of the numbers.
      points: for each line, the number and the row of each of its points.
      logarithmic: whether the numbers' logarithm is drawn.
    """

    label: str
    points: Mapping[str, Sequence[tuple[float, str]]]
    logarithmic: bool = False


class Study(abc.ABC):
    """One study.

    Attributes:
      name: for ONLY=.
      title: of its part of the report.
      question: what it asks, in a sentence.
      paper: the paper's figures.
      plain_columns: columns whose figures are no shares of 1.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    paper: ClassVar[PaperTable]
    plain_columns: ClassVar[frozenset[str]] = frozenset()

    @abc.abstractmethod
    def rows(self, inputs: Inputs, scale: Scale) -> Rows:
        """The table: where each figure comes from."""

    @abc.abstractmethod
    def findings(self, scores: Scores) -> list[Finding]:
        """What of the paper's findings is seen in the figures."""

    def axes(self, inputs: Inputs, scale: Scale) -> Axes | None:
        """How it is drawn; None: a dot for each row."""
        return None

    def jobs(self, inputs: Inputs, scale: Scale) -> Iterator[Job]:
        """All jobs whose outcomes it reads."""
        for cells in self.rows(inputs, scale).values():
            for cell in cells.values():
                yield from cell.jobs

    def scores(self, inputs: Inputs, scale: Scale, outcomes: Outcomes) -> Scores:
        """The figures."""
        return {
            label: {column: cell.score(outcomes) for column, cell in cells.items()}
            for label, cells in self.rows(inputs, scale).items()
        }


def pretrained(
    inputs: Inputs,
    scale: Scale,
    objective: Objective = Objective.MLM_NSP,
    size: Size | None = None,
    shares: tuple[float, float] = (0.8, 0.1),
    keep_at: tuple[float, ...] = (),
    seed: int = 1,
) -> Pretraining:
    """The job that pre-trains a model.

    Args:
      inputs: what the user brings.
      scale: of everything.
      objective: of pre-training.
      size: of the model; None: the main one.
      shares: of the tokens to predict, those that become the mask, and a random token.
      keep_at: shares of the steps whose checkpoints are kept.
      seed: of its first weights and the order of the examples.
    """
    examples = Examples(inputs.corpus, inputs.vocabulary, objective, scale.length, *shares)
    rate = dataclasses.replace(scale, main=size or scale.main).pretraining_rate
    return Pretraining(
        examples, size or scale.main, scale.steps, scale.batch_size, rate, keep_at, seed
    )


def pairs_of(
    scores: Scores, higher: str, lower: str, columns: Sequence[str] | None = None
) -> list[tuple[Score, Score]]:
    """The figures of two rows side by side, column by column."""
    if higher not in scores or lower not in scores:
        return []
    chosen = columns or [name for name in scores[higher] if name in scores[lower]]
    return [(scores[higher][name], scores[lower][name]) for name in chosen]
