"""What a fine-tuning run is asked to do."""

import dataclasses
import enum
from typing import Any, ClassVar

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

    Attributes:
      kind: of the task, a key of `tasks.KINDS`.
      name: of the task.
      data: a folder with files named as usual, or one file, of which a part becomes dev.
      files: files by split ("train", "dev", "test"), which count before those of `data`.
      columns: names of columns by role.
      split_columns: those of a split ("dev", "test") that has its own.
      header: whether the first line of a table names its columns; None: as it looks.
      label_map: names by label.
      label_names: names in the order of the labels, which are numbers.
    """

    kind: str
    name: str
    data: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    split_columns: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    header: bool | None = None
    label_map: tuple[tuple[str, str], ...] = ()
    label_names: tuple[str, ...] = ()

    def columns_of(self, split: str) -> dict[str, str]:
        """The names of columns by role, of a split."""
        return dict(dict(self.split_columns).get(split, self.columns))

    def layout(self) -> dict[str, Any]:
        """How its files are to be read, as far as the user said so."""
        said = {
            "split_columns": {split: dict(names) for split, names in self.split_columns},
            "header": self.header,
            "label_map": dict(self.label_map),
            "label_names": list(self.label_names),
        }
        return {"columns": dict(self.columns)} | {
            name: value for name, value in said.items() if value not in (None, {}, [])
        }


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
