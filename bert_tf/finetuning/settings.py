"""Settings of fine-tuning."""

import dataclasses
import enum
from typing import Annotated, Any, ClassVar

from bert_tf.models.head_config import MAX_LAYERS, MAX_WIDTH, HeadConfig, HeadLayers
from bert_tf.training.settings import TrainingSettings
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Count, Group, Name, Path, Range
from pipelines.common.texts import UTF8
from pipelines.tokenizers.settings import Keep

_FOLDERS = ("checkpoint", "runs")  # of a run


class Selection(enum.StrEnum):
    """Which weights of a run are kept."""

    BEST = "best"  # those with the best score on dev
    LAST = "last"


@dataclasses.dataclass(frozen=True)
class TaskRequest:
    """A task, and where its files are.

    Attributes:
      kind: kind of the task, one of `tasks.kinds()`.
      name: name of the task.
      data: a folder with files named as usual, or one file, part of which becomes dev.
      files: files by split ("train", "dev", "test"), which take precedence over those in `data`.
      columns: names of columns by role.
      split_columns: the same for a split ("dev", "test") with columns of its own.
      header: whether the first line of a table names its columns; None: to be detected.
      encoding: the encoding of the files.
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
    encoding: str = UTF8
    label_map: tuple[tuple[str, str], ...] = ()
    label_names: tuple[str, ...] = ()

    def columns_of(self, split: str) -> dict[str, str]:
        """The names of the columns of a split, by role."""
        return dict(dict(self.split_columns).get(split, self.columns))

    def layout(self) -> dict[str, Any]:
        """The user's settings of how its files are read, as JSON values."""
        given = {
            "split_columns": {split: dict(names) for split, names in self.split_columns},
            "header": self.header,
            "encoding": None if self.encoding == UTF8 else self.encoding,
            "label_map": dict(self.label_map),
            "label_names": list(self.label_names),
        }
        return {"columns": dict(self.columns)} | {
            name: value for name, value in given.items() if value not in (None, {}, [])
        }


@dataclasses.dataclass(frozen=True)
class FineTuningSettings(TrainingSettings):
    """Everything besides the data that decides the weights. Defaults are the paper's (A.3).

    Flags:
      epochs: Passes over the training data; 0.5 is half a pass.
      batch_size: Examples per step, over all devices.
      learning_rates: Peak learning rate, which then falls linearly to 0. Of several, each is tried,
        and the best on dev is kept.
      seeds: Seeds of the head's initial weights, the order of the data and dropout. Each is a run;
        the report has their median.
      warmup_fraction: Fraction of the steps in which the learning rate rises linearly from 0 to its
        peak.
      layer_decay: Factor of the learning rate from each layer to the one below; 1: one rate for
        all.
      balanced: Weight the classes in the loss by the inverse of their frequency.
      metric: In classification and multilabel, the metric that chooses epoch, learning rate, search
        trial and early stop: accuracy, balanced_accuracy, macro_f1, weighted_f1, matthews, kappa;
        micro_f1, macro_f1, exact_match of several labels; auroc, average_precision; or of one
        label, such as f1:spam (f1, precision, recall, auroc, average_precision). Not given:
        accuracy, or micro_f1 of several labels.
      max_seq_length: Maximum number of tokens in a sequence, special tokens included; longer texts
        are cut, or read in several parts. Not given: 128; for SQuAD and other spans 384.
      windows: In classification, multilabel, regression and multiple choice: how many windows of
        --max_seq_length tokens are read of a longer text at most; what the model says of each is
        averaged. Of a pair, they are those of the longer text, each with the other one; of choices,
        those of the context. Not given: 1.
      keep: In classification and regression of single texts, what is kept of a longer text: its
        beginning (head), its end (tail), or both, a quarter of the tokens from the beginning and
        the rest from the end. Not given: head.
      dimensions: For embeddings: numbers of dimensions that are trained to do alone, such as
        256,128,64. Not given: only all dimensions together.
      max_target_length: In generation, maximum number of tokens in a target, special tokens
        included: longer ones are cut, and texts that the model writes end there. Not given: 64.
      document_context: In tagging, fill up each sequence with the sentences around it in its
        document.
      head_layers: Outputs of the encoder that the head reads: of the last layer, the embeddings, or
        the second-to-last layer; or of the last four, of all layers, or of each layer and the
        embeddings, as a concatenation (concat) or a learned weighted sum (weighted).
      bilstm_layers: Layers of a BiLSTM between the encoder and the output layer of each task; 0:
        none. In tasks on whole texts it replaces the pooler.
      bilstm_width: Width of each direction of the --bilstm_layers.
      crf: In tagging, learn a conditional random field: how likely each tag follows another, by the
        probability of all tags of a sentence.
      freeze: Parts of the encoder that are not trained: `embeddings`, layers by number from 0 (the
        lowest), such as embeddings,0-3, or `all`: then its outputs are computed once and kept in
        --cache. Not given: none.
      teacher: A model fine-tuned for the same task: half of the loss is the divergence from its
        logits (distillation). Not given: none.
      unlabelled: A file of further texts without labels, to learn from the --teacher. Not given:
        none.
      train_examples: Number of training examples to use, drawn at random; fewer are a subset of
        more. Not given: all.
      folds: Score the settings by cross-validation, too: the training data are split into so many
        parts, each is scored by a model trained on the others, and the report has mean and range.
        Not given: no cross-validation.
      dev_fraction: Fraction of the training data that becomes dev if there is no dev file; 0: none.
      evaluations: Evaluations on dev per epoch; 0: only one, at the end.
      patience: Stop a run after this many evaluations without a better score; 0: never.
      keep_runs: Keep the weights of all runs (learning rates, seeds), not only those of the best.
    """

    tasks: tuple[TaskRequest, ...]
    init: str  # a model in any format that the command convert reads
    epochs: Annotated[float, Range(above=0)] = 3.0
    batch_size: Count = 32
    learning_rates: Annotated[tuple[float, ...], Range(above=0), Name("learning_rate")] = (5e-5,)
    seeds: Annotated[tuple[int, ...], Range(minimum=0, below=1 << 31)] = (1,)
    warmup_fraction: Annotated[float, Range(minimum=0, below=1)] = 0.1
    layer_decay: Annotated[float, Range(above=0, maximum=1)] = 1.0
    balanced: bool = False
    metric: str | None = None
    max_seq_length: Annotated[int | None, Range(minimum=8), Group.MODEL] = None
    windows: Annotated[int | None, Range(minimum=1, maximum=1000), Group.MODEL] = None
    keep: Annotated[Keep | None, Group.MODEL] = None
    dimensions: Annotated[tuple[int, ...] | None, Range(minimum=1), Group.MODEL] = None
    max_target_length: Annotated[int | None, Range(minimum=8), Group.MODEL] = None
    document_context: Annotated[bool, Group.MODEL] = False
    fixed_length: bool = False  # pads every batch to `max_seq_length`; always so on TPUs
    head_layers: Annotated[HeadLayers, Group.MODEL] = HeadLayers.LAST
    bilstm_layers: Annotated[int, Range(minimum=0, maximum=MAX_LAYERS), Group.MODEL] = 0
    bilstm_width: Annotated[int, Range(minimum=1, maximum=MAX_WIDTH), Group.MODEL] = (
        HeadConfig.bilstm_width
    )
    crf: Annotated[bool, Group.MODEL] = False
    freeze: str | None = None
    teacher: Path | None = None
    unlabelled: Path | None = None
    train_examples: Count | None = None
    folds: Annotated[int | None, Range(minimum=2, maximum=100)] = None
    fold: tuple[int, int] | None = None  # of a run of cross-validation: its number, their number
    dev_fraction: Annotated[float, Range(minimum=0, below=1), Group.SAVING] = 0.1
    evaluations: Annotated[int, Range(minimum=0), Group.SAVING] = 1
    patience: Annotated[int, Range(minimum=0), Group.SAVING] = 0
    selection: Selection = Selection.BEST  # the weights to keep
    keep_runs: Annotated[bool, Group.SAVING] = False

    _FREE: ClassVar[tuple[str, ...]] = (*TrainingSettings._FREE, "keep_runs", "fixed_length")

    @property
    def head(self) -> HeadConfig:
        """The outputs that the heads read, and their layers."""
        sizes = self.bilstm_layers, self.bilstm_width
        return HeadConfig(self.head_layers, *sizes, crf=self.crf)

    def too_late(self, report: dict[str, Any]) -> list[str]:
        """As for all runs; and keep_runs, where the weights of all but the best are gone."""
        gone = self.keep_runs and not report["settings"]["keep_runs"]
        return [*super().too_late(report), *["keep_runs"] * gone]

    def check(self) -> None:
        """Raises InputError for invalid values."""
        super().check()
        if self.patience and not self.evaluations:
            raise InputError("--patience: counts evaluations, and --evaluations is 0.")
        if self.teacher and len(self.tasks) > 1:
            raise InputError("--teacher: is for one task at a time.")
        if self.unlabelled and not self.teacher:
            raise InputError("--unlabelled: texts without labels need a --teacher.")
        if self.folds and (len(self.learning_rates) > 1 or self.patience or len(self.tasks) > 1):
            raise InputError(
                "--folds: scores fixed settings of one task; give one --task and --learning_rate, "
                "and no --patience."
            )
        for name, values in (("seeds", self.seeds), ("learning_rate", self.learning_rates)):
            if len(set(values)) < len(values):
                raise InputError(
                    f"--{name}: has a value twice, which would be one run; give it once."
                )
        if len({request.name for request in self.tasks}) < len(self.tasks):
            raise InputError("two tasks have the same name; give names as NAME=KIND.")
        if self.bilstm_width != HeadConfig.bilstm_width and not self.bilstm_layers:
            raise InputError("--bilstm_width: there is no BiLSTM; give --bilstm_layers, too.")
        for name in [request.name for request in self.tasks if len(self.tasks) > 1]:
            if "." in name or name in _FOLDERS:
                raise InputError(
                    f"--task: results of {name!r} would be in a folder of this name, which may be "
                    "one of the run; give another name, without dots, as NAME=KIND."
                )
