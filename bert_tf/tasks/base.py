"""The interface of tasks.

A task says how files become examples, examples features, features batches;
what its head is and its loss; and how logits become predictions, metrics,
official files and a picture. It is immutable: what it learns from the training
data (labels) or the dev data (a threshold) makes a new one.
"""

import abc
import dataclasses
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    NotRequired,
    Self,
    TypedDict,
    TypeVar,
)

import msgspec
import numpy as np
import tensorflow as tf

from bert_tf.models.head_config import HeadConfig
from bert_tf.tasks.signatures import Serving
from pipelines.labelled import bucketing
from pipelines.labelled.columns import ColumnNames
from pipelines.labelled.features import Features, layer_names, pad
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS

if TYPE_CHECKING:
    import matplotlib.figure

ExampleT = TypeVar("ExampleT")
PredictionT = TypeVar("PredictionT")
Batch = dict[str, np.ndarray]
Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class TaskEntry(TypedDict):
    """The description of a task in a file; those of other programs say less.

    Each shape adds those of its fields that `Task.described` names.
    """

    name: str
    shape: str
    labels: list[str]
    kind: NotRequired[str]
    max_length: NotRequired[Size]
    columns: NotRequired[dict[str, str]]
    label_map: NotRequired[dict[str, str]]
    head: NotRequired[dict[str, str | int]]


class LabelScores(TypedDict):
    """How well one label is told from the others; `count` of examples have it."""

    precision: float
    recall: float
    f1: float
    count: int


@dataclasses.dataclass(frozen=True)
class TaskFiles:
    """How the files of a kind of task are found and read.

    Attributes:
      splits: patterns of file names by split, the first that matches counts.
        Splits whose names begin with "dev" are scored, with "test" predicted.
      read: reads (path, split, labelled, columns, skipped): examples of a
        file; lines for what had to be skipped are put into `skipped`.
      folder: the usual name of the folder within a collection, such as "MRPC".
      named_columns: whether the user may name columns.
      test_labelled: whether test files may have labels; those that have are scored, once, at
        the end.
    """

    splits: Mapping[str, tuple[str, ...]]
    read: Callable[[str, str, bool, ColumnNames, list[str]], list[Any]]
    folder: str | None = None
    named_columns: bool = True
    test_labelled: bool = True


# Between the names of tasks that were trained jointly, in the name of their folder.
JOINT = "+"
# What would end a cell or a line of a table without quotes, by what separates its cells, and what
# stands for it. Where spaces separate, many readers split at any white space.
_BREAKS = {"\t": (re.compile(r"[\t\r\n]"), " "), " ": (re.compile(r"\s"), "_")}


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC, Generic[ExampleT, PredictionT]):
    """One task, with one head.

    Attributes:
      name: of the head and of the signature.
      kind: a name of `catalogue.KINDS`, such as "mrpc" or "tagging".
      max_length: tokens of a sequence, special ones included.
      labels: names of the labels, in the order of ids.
      fixed_length: pad every batch to `max_length`, for devices that compile
        each shape at length (TPUs); otherwise to the longest of the batch.
      columns: names of columns by role, as the user named them for training.
      label_map: names of the labels that its files have.
      head: what the head reads, and through what.
      described: the fields of a shape that its description keeps besides; their types are
        checked when it is read.
    """

    described: ClassVar[tuple[str, ...]] = ()

    name: str
    kind: str
    source: TaskFiles = dataclasses.field(repr=False, compare=False)
    max_length: int = 128
    labels: tuple[str, ...] = ()
    fixed_length: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    label_map: tuple[tuple[str, str], ...] = ()
    head: HeadConfig = HeadConfig()

    # The shape of the task: "classification", "regression", "tagging", "span" or "choice".
    shape: str = dataclasses.field(default="", init=False)
    # Whether the head has logits for every token.
    per_token: bool = dataclasses.field(default=False, init=False)

    @property
    @abc.abstractmethod
    def main_metric(self) -> str:
        """The metric by which runs are compared."""

    @property
    @abc.abstractmethod
    def units(self) -> int:
        """Logits of the head."""

    @property
    def segments(self) -> int:
        """Segments of a sequence, at the most."""
        return 1

    def fit(self, examples: Sequence[ExampleT]) -> Self:
        """Learns the labels from training examples.

        Raises:
          InputError: there is nothing to tell apart.
        """
        return self

    def tune(self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]) -> Self:
        """Sets what is chosen on dev data, such as a threshold."""
        return self

    def problem(self, example: ExampleT) -> str | None:
        """Why an example cannot be learned from, such as an empty text; None if it can."""
        return None

    def check(self, examples: Sequence[ExampleT]) -> None:
        """Raises InputError for an example that must not be, such as one of an unknown label."""

    def describe(self) -> dict[str, Any]:
        """What, beside the weights, a trained task is; JSON values for `catalogue.load`."""
        files = {"columns": dict(self.columns), "label_map": dict(self.label_map)}
        return {
            "name": self.name,
            "kind": self.kind,
            "shape": self.shape,
            "max_length": self.max_length,
            "labels": list(self.labels),
            **{name: value for name, value in files.items() if value},
            **({} if self.head.is_plain else {"head": self.head.to_dict()}),
            **{field: getattr(self, field) for field in self.described},
        }

    def restore(self, description: Mapping[str, Any]) -> Self:
        """The task that `describe` described."""
        known = {field: description[field] for field in self.described if field in description}
        return dataclasses.replace(
            self,
            max_length=description["max_length"],
            labels=tuple(description["labels"]),
            columns=tuple(description.get("columns", {}).items()),
            label_map=tuple(description.get("label_map", {}).items()),
            head=HeadConfig.from_dict(description.get("head", {})),
            **known,
        )

    @classmethod
    def entry(cls) -> type:
        """The type of the described fields of a shape, for `json_files.check`."""
        types = typing.get_type_hints(cls, include_extras=True)
        return msgspec.defstruct(
            f"{cls.__name__}Entry", [(field, types[field], None) for field in cls.described]
        )

    def feature_settings(self) -> dict[str, Any]:
        """All of the task that decides its features, as JSON values."""
        return {"kind": self.kind, "max_length": self.max_length, "labels": list(self.labels)}

    @abc.abstractmethod
    def features(self, examples: Sequence[ExampleT], tokenizer: Tokenizer) -> Features:
        """Makes features, among them `input_word_ids` and `input_type_ids`."""

    def sequence_splits(self, features: Features) -> np.ndarray:
        """Where each sequence begins among the tokens of all rows, and the end; int64."""
        return features["input_word_ids"].splits

    def row_lengths(self, features: Features) -> np.ndarray:
        """The length of each row's sequence, for bucketing; int64 [rows]."""
        return features["input_word_ids"].lengths

    def padded_length(self, longest: int) -> int:
        """The length of a batch by that of its longest sequence."""
        return bucketing.padded_length(
            self.max_length if self.fixed_length else longest, self.max_length
        )

    def assemble(self, features: Features, rows: np.ndarray, size: int) -> Batch:
        """Makes a batch of some rows, filled up with rows of weight 0.

        Args:
          features: of `self.features`.
          rows: their numbers.
          size: rows of the batch.

        Returns:
          int32 [size, length] `input_word_ids`, `input_mask` and
          `input_type_ids`, float32 [size] `weights`, and the labels; of features
          that have outputs of layers these too, float32 [size, length, width].
        """
        words = [features["input_word_ids"].row(row) for row in rows]
        types = [features["input_type_ids"].row(row) for row in rows]
        length = self.padded_length(max(map(len, words)))
        masks = [np.ones(len(row), np.int64) for row in words]
        weights = np.zeros(size, np.float32)
        weights[: len(rows)] = 1
        batch = {
            "input_word_ids": pad(words, size, length, features.pad_id),
            "input_mask": pad(masks, size, length),
            "input_type_ids": pad(types, size, length),
            "weights": weights,
        }
        for name in layer_names(features.columns).values():
            batch[name] = pad([features[name].row(row) for row in rows], size, length)
        return batch | self.batch_labels(features, rows, size, length)

    def batch_labels(self, features: Features, rows: np.ndarray, size: int, length: int) -> Batch:
        """The labels of a batch; nothing where examples have none."""
        if "labels" not in features:
            return {}
        values = features["labels"].values[rows]
        labels = np.zeros(size, np.float32 if values.dtype == np.float32 else np.int32)
        labels[: len(rows)] = values
        return {"labels": labels}

    def encoder_inputs(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The encoder's inputs, int32 [sequences, length] each."""
        return {name: batch[name] for name in MODEL_INPUTS}

    def layer_outputs(self, batch: dict[str, tf.Tensor]) -> dict[int, tf.Tensor]:
        """The outputs of layers that a batch has, by number, [sequences, length, width]."""
        return {index: batch[name] for index, name in layer_names(batch).items()}

    def logits(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """The head's logits of sequences as logits of the rows of the batch, [size, ...]."""
        return logits

    @abc.abstractmethod
    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Losses, float32, of the shape of `loss_weights`."""

    def loss_weights(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """The weight of each loss; the mean is over them. float32, [size] or [size, length]."""
        return batch["weights"]

    @abc.abstractmethod
    def serving(self) -> Serving:
        """What the exported model does for the task."""

    @abc.abstractmethod
    def predict(
        self,
        examples: Sequence[ExampleT],
        features: Features,
        logits: Sequence[np.ndarray],
    ) -> list[PredictionT]:
        """Turns the logits of feature rows into one prediction an example."""

    @abc.abstractmethod
    def metrics(
        self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]
    ) -> dict[str, float]:
        """Scores predictions of labelled examples; fractions of 1."""

    @abc.abstractmethod
    def baseline(
        self, training: Sequence[ExampleT], examples: Sequence[ExampleT]
    ) -> list[PredictionT]:
        """What is guessed without a model, from the labels of training examples alone."""

    @abc.abstractmethod
    def answers(self, prediction: PredictionT) -> Sequence[str]:
        """What a prediction says, as text; a model that says one thing only learned nothing."""

    def by_label(
        self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT]
    ) -> dict[str, LabelScores]:
        """Scores of each label; nothing where the labels are none of a few."""
        return {}

    @abc.abstractmethod
    def files(
        self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT], split: str
    ) -> dict[str, str]:
        """The prediction files, text by file name: a readable table, and the official ones."""

    @abc.abstractmethod
    def mistakes(
        self, examples: Sequence[ExampleT], predictions: Sequence[PredictionT], count: int
    ) -> list[str]:
        """The worst mistakes in readable form, the worst first."""

    @abc.abstractmethod
    def draw(
        self,
        figure: "matplotlib.figure.Figure",
        examples: Sequence[ExampleT],
        predictions: Sequence[PredictionT],
    ) -> None:
        """Draws the task's own picture, such as a confusion matrix."""


def table(rows: Iterable[Sequence[str]], separator: str) -> str:
    """A table without quotes, whose cells stay where they are, whatever they hold.

    Args:
      rows: their cells; no cells make a blank line.
      separator: a tab or a space.

    Returns:
      Its text. White space that would end a cell is replaced; so is an empty cell where spaces
      separate.
    """
    pattern, stand_in = _BREAKS[separator]
    empty = stand_in.strip()
    lines = (separator.join(pattern.sub(stand_in, cell) or empty for cell in row) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def balancing_weights(counts: np.ndarray) -> tuple[float, ...]:
    """The weight of each label in the loss: the inverse of its frequency, 1 if all are alike."""
    return tuple((counts.sum() / (np.maximum(counts, 1) * len(counts))).tolist())


def label_scores(
    names: Sequence[str], columns: Iterable[Sequence[float] | np.ndarray]
) -> dict[str, LabelScores]:
    """Scores by label, of columns of precision, recall, F1 and count."""
    return {
        name: {"precision": float(p), "recall": float(r), "f1": float(f1), "count": int(count)}
        for name, p, r, f1, count in zip(names, *columns, strict=True)
    }


def empty_text(example: Any, *names: str) -> str | None:
    """Says which of these fields of an example is empty; None if none is."""
    for name in names:
        if getattr(example, name) is not None and not getattr(example, name).strip():
            return f"the {name} is empty"
    return None
