"""What a fine-tuning run is asked to do."""

import dataclasses
import enum
from typing import Any, ClassVar

from bert_tf.models.head_config import MAX_LAYERS, HeadConfig, HeadLayers
from bert_tf.training.settings import TrainingSettings
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group
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
    epochs: float = setting(
        3.0,
        "Passes over the training data; 0.5 is half of one.",
        above=0,
    )
    batch_size: int = setting(32, "Examples of a step, over all devices.", minimum=1)
    learning_rates: tuple[float, ...] = setting(
        (5e-5,),
        "Peak learning rate, from which it falls linearly to 0. Of several, each is tried, and the "
        "best on dev wins.",
        flag="learning_rate",
        above=0,
    )
    seeds: tuple[int, ...] = setting(
        (1,),
        "Seeds of the head's first weights, the order of the data and dropout. There is a run for "
        "each; the report has their median.",
        minimum=0,
        below=1 << 31,
    )
    warmup_share: float = setting(
        0.1,
        "Share of the steps in which the learning rate rises linearly from 0 to its peak.",
        minimum=0,
        below=1,
    )
    layer_decay: float = setting(
        1.0,
        "Factor of the learning rate from each layer to the one below it; 1: all learn alike.",
        above=0,
        maximum=1,
    )
    balanced: bool = setting(
        False,
        "Weigh the classes of the loss by the inverse of their frequency.",
    )
    max_length: int | None = setting(
        None,
        "Tokens of a sequence, special ones included; longer texts are cut, or read in several "
        "parts. Not given: 128, of SQuAD and other spans 384.",
        group=Group.MODEL,
        minimum=8,
    )
    document_context: bool = setting(
        False,
        "In tagging, fill up each sequence with the sentences round it in its document.",
        group=Group.MODEL,
    )
    fixed_length: bool = False  # pads every batch to `max_length`; always so on TPUs
    head_layers: HeadLayers = setting(
        HeadLayers.LAST,
        "Which outputs of the encoder the head reads: the last layer's, the embeddings, those of "
        "the second to last, or of the last four, all layers, or each and the embeddings, side by "
        "side (concat) or summed with weights that are learned (weighted).",
        group=Group.MODEL,
    )
    bilstm_layers: int = setting(
        0,
        "Layers of a BiLSTM between the encoder and the output of each task; 0: none. Of whole "
        "texts it takes the place of the pooler.",
        group=Group.MODEL,
        minimum=0,
        maximum=MAX_LAYERS,
    )
    bilstm_width: int = HeadConfig.bilstm_width  # of each direction
    freeze: str | None = setting(
        None,
        "What of the encoder is not trained: `embeddings`, layers by number from 0 (the lowest), "
        "such as embeddings,0-3, or `all`: then its outputs are computed once and kept in --cache. "
        "Not given: nothing.",
    )
    train_examples: int | None = setting(
        None,
        "Training examples to use, drawn at random; a smaller number draws some of a larger one's. "
        "Not given: all.",
        minimum=1,
    )
    dev_share: float = setting(
        0.1,
        "Share of the training data that becomes dev where there is no dev file; 0: none.",
        group=Group.SAVING,
        minimum=0,
        below=1,
    )
    evaluations: int = setting(
        1,
        "Evaluations on dev in each epoch; 0: one alone, at the end.",
        group=Group.SAVING,
        minimum=0,
    )
    patience: int = setting(
        0,
        "A run stops after so many evaluations that bring no better score; 0: it never does.",
        group=Group.SAVING,
        minimum=0,
    )
    selection: Selection = Selection.BEST  # the weights to keep
    keep_runs: bool = setting(
        False,
        "Keep the weights of all runs (learning rates, seeds), not the best one's only.",
        group=Group.SAVING,
    )

    _FREE: ClassVar[tuple[str, ...]] = (*TrainingSettings._FREE, "keep_runs", "fixed_length")

    @property
    def head(self) -> HeadConfig:
        """What the heads read, and through what."""
        return HeadConfig(self.head_layers, self.bilstm_layers, self.bilstm_width)

    def check(self) -> None:
        """Raises InputError where a value makes no sense."""
        super().check()
        if self.patience and not self.evaluations:
            raise InputError("--patience: counts --evaluations, of which there are 0.")
        if len({request.name for request in self.tasks}) < len(self.tasks):
            raise InputError("two tasks have the same name; give names as NAME=KIND.")
