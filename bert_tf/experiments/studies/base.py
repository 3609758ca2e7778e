"""The interface of studies, and the jobs that several of them use."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from bert_tf.experiments.jobs import (
    MASKS,
    SCORE,
    FineTuningJob,
    Job,
    JobOutcome,
    ModelJob,
    PretrainingJob,
)
from bert_tf.experiments.plan import ExperimentPlan, ExperimentTask, ModelSize
from bert_tf.experiments.scores import Finding, Pairs, SeedScores, finding
from pipelines.pretraining.settings import Objective

Outcomes = Mapping[str, JobOutcome]  # by the name of the job


class Cell(NamedTuple):
    """The source of a figure: one job, or several that differ in the seed of pre-training.

    The values of one job are those of its seeds; of several jobs, the mean of each.
    """

    jobs: tuple[Job, ...]
    metric: str = SCORE

    def score(self, outcomes: Outcomes) -> SeedScores:
        """The figure, from the jobs that are done."""
        done = [outcomes[job.name] for job in self.jobs if job.name in outcomes]
        if not done:
            return SeedScores(note="not done")
        found = [
            [metrics[self.metric] for metrics in each["scores"].values() if self.metric in metrics]
            for each in done
        ]
        values = found[0] if len(self.jobs) == 1 else [fmean(each) for each in found if each]
        diverged = sum(len(each.get("diverged", {})) for each in done)
        return SeedScores(tuple(values), f"{diverged} diverged" if diverged else "")


Rows = Mapping[str, Mapping[str, Cell]]  # by the label of the row, then by column
ScoreTable = Mapping[str, Mapping[str, SeedScores]]


class PaperTable(NamedTuple):
    """Results of the paper."""

    source: str  # the table of the paper, or a sentence where it has none
    columns: Sequence[str] = ()
    rows: Mapping[str, Sequence[float]] = {}  # figures by model, as printed


class PlotAxes(NamedTuple):
    """The x axis of a study's picture."""

    label: str
    points: Mapping[str, Sequence[tuple[float, str]]]  # by line: x values and their rows
    logarithmic: bool = False


class Study(abc.ABC):
    """One study.

    Attributes:
      name: its name, for --only.
      title: heading of its section of the report.
      question: what it asks, in a sentence.
      paper: the paper's figures.
      plain_columns: columns that are not fractions of 1.
      claims: findings of the paper, with the row that it finds higher and the other one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    paper: ClassVar[PaperTable]
    plain_columns: ClassVar[frozenset[str]] = frozenset()
    claims: ClassVar[Sequence[tuple[str, str, str]]] = ()

    @abc.abstractmethod
    def rows(self, plan: ExperimentPlan) -> Rows:
        """The table: the source of each figure."""

    def findings(self, scores: ScoreTable) -> list[Finding]:
        """Whether the paper's findings are seen in the figures; of `claims`, unless overridden."""
        return [finding(claim, pairs_of(scores, *rows)) for claim, *rows in self.claims]

    def axes(self, plan: ExperimentPlan) -> PlotAxes | None:
        """The x axis of its picture; None: a dot for each row."""
        del plan
        return None

    def jobs(self, plan: ExperimentPlan) -> Iterator[Job]:
        """All jobs that its table needs."""
        for cells in self.rows(plan).values():
            for cell in cells.values():
                yield from cell.jobs

    def scores(self, plan: ExperimentPlan, outcomes: Outcomes) -> ScoreTable:
        """The figures."""
        return {
            label: {column: cell.score(outcomes) for column, cell in cells.items()}
            for label, cells in self.rows(plan).items()
        }


def pretrained(
    plan: ExperimentPlan,
    objective: Objective = Objective.MLM_NSP,
    size: ModelSize | None = None,
    masks: tuple[float, float] = MASKS,
    seed: int = 1,
) -> PretrainingJob:
    """The job that pre-trains a model; of the main size unless another is given."""
    return PretrainingJob(size or plan.size, objective, masks, seed)


def tuned(
    plan: ExperimentPlan,
    task: ExperimentTask,
    init: ModelJob,
    examples: int | None = None,
    **options: Any,
) -> FineTuningJob:
    """The job that fine-tunes a model.

    Args:
      plan: the plan.
      task: the task.
      init: the model.
      examples: for training, at most; None: as many as the plan has.
      **options: other fields of the job.
    """
    return FineTuningJob(task, init, plan.examples_of(task, examples), **options)


def tuned_row(
    plan: ExperimentPlan, tasks: Sequence[ExperimentTask], init: ModelJob, **options: Any
) -> dict[str, Cell]:
    """A row of a table: a model fine-tuned for several tasks; options as of `tuned`."""
    return {task.name: Cell((tuned(plan, task, init, **options),)) for task in tasks}


def pairs_of(scores: ScoreTable, higher: str, lower: str) -> Pairs:
    """The figures of two rows in the columns that both have."""
    if higher not in scores or lower not in scores:
        return []
    columns = [name for name in scores[higher] if name in scores[lower]]
    return [(scores[higher][name], scores[lower][name]) for name in columns]
