"""What a fine-tuning run is asked to do."""

import dataclasses
import enum
from typing import ClassVar

from bert_tf.training.settings import TrainingSettings
from pipelines.common.errors import InputError
from pipelines.common.settings import setting


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
    epochs: float = setting(3.0, "Passes over the training data.", above=0)
    batch_size: int = setting(32, "Examples of a step.", least=1)
    learning_rates: tuple[float, ...] = setting(
        (5e-5,),
        "Peak learning rate, or a grid; the best on dev wins.",
        flag="learning_rate",
        above=0,
    )
    seeds: tuple[int, ...] = setting(
        (1,), "A run for each; the median is reported.", least=0, below=1 << 31
    )
    warmup_share: float = setting(0.1, "Share of the steps.", least=0, below=1)
    layer_decay: float = setting(
        1.0, "Learning rate's factor from layer to layer.", above=0, most=1
    )
    bias_correction: bool = setting(True, "Of Adam; the reference has none.")
    balanced: bool = setting(False, "Weigh classes by the inverse of their frequency.")
    max_length: int | None = setting(None, "Tokens of a sequence: 128, of SQuAD 384.", least=8)
    document_context: bool = setting(False, "Tagging: fill up with the document.")
    fixed_length: bool = setting(False, "Pad every batch to max_length, for TPUs.")
    dev_share: float = setting(
        0.1, "Of the training data, where there is no dev file.", least=0, below=1
    )
    evaluations: int = setting(1, "On dev, in each epoch.", least=1)
    patience: int = setting(0, "Evaluations without gain to stop after; 0: never.", least=0)
    selection: Selection = setting(Selection.BEST, "Which weights to keep.", flag="select")
    keep_runs: bool = setting(False, "Keep the weights of the other runs too.")

    _FREE: ClassVar[tuple[str, ...]] = (*TrainingSettings._FREE, "keep_runs")

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        super().check()
        if len({request.name for request in self.tasks}) < len(self.tasks):
            raise InputError("two tasks have the same name; give names as NAME=KIND.")
