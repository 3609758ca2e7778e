"""What a fine-tuning run is asked to do."""

import dataclasses
import enum
import math
from collections.abc import Iterator
from typing import Any, ClassVar

from bert_tf.training.settings import TrainingSettings
from pipelines.common.errors import InputError


class Selection(enum.StrEnum):
    """Which weights of a run are kept."""

    BEST = "best"  # those with the best score on dev
    LAST = "last"


@dataclasses.dataclass(frozen=True)
class TaskRequest:
    """A task, and where its files are.

    `data` is a folder with files named as usual, or one file, of which a part
    becomes dev; `files` name files by split ("train", "dev", "test") instead.
    """

    kind: str
    name: str
    data: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()  # names of columns by role


@dataclasses.dataclass(frozen=True)
class FineTuningSettings(TrainingSettings):
    """Everything that decides the weights, beside the data. Defaults are the paper's (A.3)."""

    tasks: tuple[TaskRequest, ...]
    init: str  # anything that the command convert reads
    epochs: float = 3.0
    batch_size: int = 32
    learning_rates: tuple[float, ...] = (5e-5,)  # several: a grid; the best on dev wins
    seeds: tuple[int, ...] = (1,)  # each is a run
    warmup_share: float = 0.1  # of all steps
    layer_decay: float = 1.0  # factor of the learning rate from a layer to the one below
    bias_correction: bool = True  # False as in the reference; True is steadier
    balanced: bool = False  # weigh labels by the inverse of their frequency
    max_length: int | None = None  # tokens of a sequence; None: the task's own
    document_context: bool = False  # for tagging
    fixed_length: bool = False  # pad every batch to max_length: one shape, as TPUs want it
    dev_share: float = 0.1  # of the training data, where there is no dev file
    evaluations: int = 1  # on dev, in each epoch
    patience: int = 0  # evaluations without a better score after which a run ends; 0: never
    selection: Selection = Selection.BEST
    keep_runs: bool = False  # keep the weights of all runs, not of the best one only

    _FREE: ClassVar[tuple[str, ...]] = (*TrainingSettings._FREE, "keep_runs")

    def ranges(self) -> Iterator[tuple[str, Any, bool]]:
        """Yields flags, values, and whether these make sense."""
        rates, seeds = self.learning_rates, self.seeds
        yield "epochs", self.epochs, 0 < self.epochs < math.inf
        yield "batch_size", self.batch_size, self.batch_size >= 1
        yield "learning_rate", rates, bool(rates) and all(0 < rate < math.inf for rate in rates)
        yield "seeds", seeds, bool(seeds) and all(0 <= seed < 1 << 31 for seed in seeds)
        yield "warmup_share", self.warmup_share, 0 <= self.warmup_share < 1
        yield "layer_decay", self.layer_decay, 0 < self.layer_decay <= 1
        yield "max_length", self.max_length, self.max_length is None or self.max_length >= 8
        yield "dev_share", self.dev_share, 0 <= self.dev_share < 1
        yield "evaluations", self.evaluations, self.evaluations >= 1
        yield "patience", self.patience, self.patience >= 0
        yield from super().ranges()

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        super().check()
        if len({request.name for request in self.tasks}) < len(self.tasks):
            raise InputError("two tasks have the same name; give names as NAME=KIND.")
