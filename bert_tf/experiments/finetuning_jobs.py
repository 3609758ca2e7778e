"""Jobs that fine-tune."""

import dataclasses
import time
from typing import ClassVar

from bert_tf.experiments.jobs import SCORE, ModelJob, Outcome, Place
from bert_tf.experiments.size import Size
from bert_tf.experiments.speed import Speed
from bert_tf.finetuning import sweep
from bert_tf.finetuning.settings import FineTuningSettings, Selection, TaskRequest
from bert_tf.models.head_config import HeadConfig
from bert_tf.tasks import load, make
from bert_tf.training.loop import TrainingDivergedError
from bert_tf.weights import own

_EVALUATION = 1 / 3  # of what a token costs in training
_DROPOUT = 0.1  # as in the paper; pre-training had none


@dataclasses.dataclass(frozen=True)
class TaskSource:
    """A task of the user's.

    Attributes:
      name: of it.
      kind: a kind of tasks.
      data: folder of its files, or one file.
      files: files by split, which count before those of `data`.
      columns: names of columns by role.
      rows: training examples and those of dev, as they were counted.
      tokens: of an example, on the average.
    """

    name: str
    kind: str
    data: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    rows: tuple[int, int] = (0, 0)
    tokens: int = 0

    @property
    def per_token(self) -> bool:
        """Whether it has an answer for every token."""
        return make(self.kind).per_token

    def request(self) -> TaskRequest:
        """What fine-tuning is asked for."""
        return TaskRequest(self.kind, self.name, self.data, self.files, self.columns)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How models are fine-tuned.

    Attributes:
      rates: learning rates, the best of which on dev counts.
      epochs: over the training data.
      batch_size: examples of a step.
      max_length: tokens of a sequence.
    """

    rates: tuple[float, ...]
    epochs: float
    batch_size: int
    max_length: int


@dataclasses.dataclass(frozen=True)
class FineTuning(ModelJob):
    """Fine-tunes a model, once for each seed."""

    kind: ClassVar[str] = "finetune"

    task: TaskSource
    init: ModelJob
    recipe: Recipe
    seeds: tuple[int, ...]
    share: float | None = None  # of the steps of pre-training, after which it is taken
    head: HeadConfig = HeadConfig()
    frozen: bool = False
    train_examples: int | None = None

    @property
    def label(self) -> str:
        """Task and model."""
        parts = [self.task.name, "from", self.init.kind, self.init.label]
        if self.share is not None:
            parts.append(f"at {self.share:.0%}")
        if self.frozen:
            parts.append("frozen")
        if not self.head.is_plain:
            lstm = f" bilstm {self.head.bilstm_layers}" if self.head.bilstm_layers else ""
            parts.append(f"{self.head.layers}{lstm}")
        if self.train_examples is not None:
            parts.append(f"{self.train_examples} examples")
        return " ".join(parts)

    @property
    def size(self) -> Size:
        """Of the encoder."""
        return self.init.size

    def checkpoint(self, place: Place, share: float | None = None) -> str:
        """The model that is kept: the best run's."""
        return f"{place.folder(self)}/model"

    def cost(self, speed: Speed) -> float:
        """Training and evaluation of all its runs, and what each has besides."""
        train, dev = self.task.rows
        train = min(train, self.train_examples or train)
        trained, scored = train * self.task.tokens * self.recipe.epochs, dev * self.task.tokens
        encoder = speed.token_seconds(self.size)
        each = (trained + scored * _EVALUATION) * encoder
        once = 0.0
        if self.frozen:
            once, each = (train + dev) * self.task.tokens * encoder * _EVALUATION, 0.0
        if self.head.bilstm_layers:
            each += (trained + scored * _EVALUATION) * speed.lstm_seconds(self.size, self.head)
        runs = len(self.seeds) * len(self.recipe.rates)
        return once + speed.overhead + runs * (each + speed.run_overhead)

    def work(self, place: Place) -> Outcome:
        """Trains; scores are those on dev of the chosen learning rate."""
        begin = time.perf_counter()
        settings = FineTuningSettings(
            tasks=(self.task.request(),),
            init=self.init.checkpoint(place, self.share),
            epochs=self.recipe.epochs,
            batch_size=self.recipe.batch_size,
            learning_rates=self.recipe.rates,
            seeds=self.seeds,
            max_length=self.recipe.max_length,
            head_layers=self.head.layers,
            bilstm_layers=self.head.bilstm_layers,
            bilstm_width=self.head.bilstm_width,
            freeze="all" if self.frozen else None,
            train_examples=self.train_examples,
            precision=place.precision,
            dropout=_DROPOUT,
            # What is scored on dev must not be chosen by it.
            selection=Selection.LAST,
            evaluations=0,
        )
        try:
            report = sweep.finetune(settings, self.checkpoint(place), place.cache, False)
        except TrainingDivergedError as error:
            diverged = {str(seed): str(error) for seed in self.seeds}
            return {"seconds": time.perf_counter() - begin, "scores": {}, "diverged": diverged}
        (described,) = own.read_tasks(self.checkpoint(place))
        grid = [run for run in report["grid"] if run["learning_rate"] == report["learning_rate"]]
        whole = [run for run in grid if not run["diverged"]]
        return {
            "seconds": report["seconds"],
            "scores": {str(run["seed"]): {SCORE: run["score"], **run["metrics"]} for run in whole},
            "score_name": load(described).main_metric,
            "diverged": {str(run["seed"]): run["diverged"] for run in grid if run["diverged"]},
        }
