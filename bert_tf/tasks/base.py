"""The interface of tasks.

A task defines how files become examples, examples features, and features batches; its head and its
loss; and how logits become predictions, metrics, official files and a picture. It is immutable:
what it learns from training data (labels) or dev data (a threshold) makes a new one.
"""

import abc
import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NotRequired, Self, TypedDict

import msgspec
import numpy as np
import tensorflow as tf

from bert_tf.generation.settings import GenerationSettings
from bert_tf.models.head_config import HeadConfig
from bert_tf.objectives.distillation import TEMPERATURE, divergence
from bert_tf.tasks.signatures import Arrays, ServedModel, Signature
from pipelines.labelled import bucketing, splits
from pipelines.labelled.features import Features, layer_names, pad
from pipelines.labelled.source import Source
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Each shape has types of its own for examples and predictions.
Examples = Sequence[Any]
Predictions = Sequence[Any]
Batch = dict[str, np.ndarray]
Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class TaskEntry(TypedDict):
    """The description of a task in a file; those of other programs have the first keys only.

    Each shape adds the fields that its `Task.described` names.
    """

    name: str
    shape: str
    labels: list[str]
    kind: NotRequired[str]
    max_seq_length: NotRequired[Size]
    columns: NotRequired[dict[str, str]]
    label_map: NotRequired[dict[str, str]]
    head: NotRequired[dict[str, str | int | bool]]


class LabelScores(TypedDict):
    """Scores of one label against all others; `count` is the number of examples that have it."""

    precision: float
    recall: float
    f1: float
    count: int


@dataclasses.dataclass(frozen=True)
class TaskFiles:
    """How the files of a kind of task are found and read.

    Attributes:
      splits: patterns of file names by split; the first pattern that matches counts. Splits whose
        names begin with "dev" are scored, those with "test" predicted.
      read: (source, split, labelled, skipped) to examples; `skipped` gets a line for each left out.
      folder: the usual name of the folder within a collection, such as "MRPC".
      named_columns: whether the user may name columns.
      test_labelled: whether test files may have labels. Those that do are scored once, at the end.
      label_forms: from (source, known) to forms of labels that fit a file; None: there is one.
    """

    splits: Mapping[str, tuple[str, ...]]
    read: Callable[[Source, str, bool, list[str]], list[Any]]
    folder: str | None = None
    named_columns: bool = True
    test_labelled: bool = True
    label_forms: Callable[[Source, Sequence[str]], Sequence[str]] | None = None

    @classmethod
    def of_user(
        cls,
        read: Callable[[Source, bool], Iterable[Any]],
        endings: tuple[str, ...] = (),
        prefixes: tuple[str, ...] = ("",),
    ) -> Self:
        """The user's own files: train.*, dev.* and test.*.

        Args:
          read: reads (source, labelled).
          endings: further endings of their names, which are preferred.
          prefixes: patterns of what may precede their names.
        """
        return cls(
            splits.of_user(endings, prefixes),
            lambda file, split, labelled, _: list(read(file, labelled)),
        )


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC):
    """One task, with one head.

    Attributes:
      kind: name of its kind, such as "mrpc" or "tagging".
      source: how its files are found and read.
      name: name of the task, of its head and of its signature.
      max_seq_length: maximum number of tokens in a sequence, special tokens included.
      labels: names of the labels, in the order of their ids.
      fixed_length: whether batches are padded to `max_seq_length`: TPUs compile each shape anew.
      columns: names of columns by role, as the user named them for training.
      label_map: names of the labels that its files have.
      label_form: one of `TaskFiles.label_forms`, from the training data; "": each file decides.
      head: which outputs of the encoder the head reads, and through which layers.
      shape: name of its `TaskShape`.
      per_token: whether the head has logits for every token.
      own_head: whether training makes a head with weights of its own.
      has_chain: whether its labels follow one another, so that the head may have a CRF.
      described: further fields of its description; their types are checked when it is read.
      unknown_elsewhere: values of those fields, not the defaults, for models of other programs.
      feature_fields: further fields that its features depend on.
    """

    shape: ClassVar[str]
    per_token: ClassVar[bool] = False
    own_head: ClassVar[bool] = True
    has_chain: ClassVar[bool] = False
    described: ClassVar[tuple[str, ...]] = ()
    unknown_elsewhere: ClassVar[Mapping[str, Any]] = {}
    feature_fields: ClassVar[tuple[str, ...]] = ()

    kind: str
    source: TaskFiles = dataclasses.field(repr=False, compare=False)
    name: str = ""
    max_seq_length: int = 128
    labels: tuple[str, ...] = ()
    fixed_length: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    label_map: tuple[tuple[str, str], ...] = ()
    label_form: str = ""
    head: HeadConfig = HeadConfig()

    @property
    @abc.abstractmethod
    def main_metric(self) -> str:
        """Name of the metric by which runs are compared."""

    @property
    @abc.abstractmethod
    def units(self) -> int:
        """Number of logits of the head; 0 if it has no weights of its own."""

    @property
    def reads_pooled(self) -> bool:
        """Whether the head reads the pooled output, rather than those of tokens."""
        return self.head.reads_pooled(self.per_token)

    @property
    def generation(self) -> GenerationSettings | None:
        """How texts are written; None: predictions are not texts of the model's own."""
        return None

    def with_generation(self, changes: Mapping[str, Any]) -> Self:
        """The task with other settings of how texts are written, if it writes texts."""
        return self

    @property
    def max_sequences(self) -> int | None:
        """The number of sequences that no row exceeds; None: that of the data."""
        return 1

    @property
    def segments(self) -> int:
        """Maximum number of segments in a sequence."""
        return 1

    def begin_with(self, known: Iterable["Task"]) -> Self:
        """The task as it is trained from a model that was trained for known tasks."""
        return self

    def fit(self, examples: Examples) -> Self:
        """Learns the labels from training examples.

        Raises:
          InputError: all examples have the same label, or labels look like something else.
        """
        return self

    def fit_features(self, training: Features) -> Self:
        """Learns from the features of training examples, such as how long answers may be."""
        return self

    def tune(self, examples: Examples, predictions: Predictions) -> Self:
        """Sets what is chosen on dev data, such as a threshold."""
        return self

    def clean(self, examples: Examples, skipped: list[str]) -> Examples:
        """Leaves out labelled examples of a file that cannot be used; `skipped` gets a line each.

        Raises:
          InputError: the labels have a form that the task cannot learn.
        """
        return examples

    def problem(self, example: Any) -> str | None:
        """Why an example cannot be learned from, such as an empty text; None if it can."""
        return None

    def check(self, examples: Examples) -> None:
        """Raises InputError for an invalid example, such as one with an unknown label."""
        return

    def classes(self, example: Any) -> set[str]:
        """The labels of an example that training data must have if dev data does."""
        return set()

    def describe(self) -> dict[str, Any]:
        """The trained task without its weights, as JSON values for `registry.load`."""
        return {
            "name": self.name,
            "kind": self.kind,
            "shape": self.shape,
            "max_seq_length": self.max_seq_length,
            "labels": list(self.labels),
            **({"columns": dict(self.columns)} if self.columns else {}),
            **({"label_map": dict(self.label_map)} if self.label_map else {}),
            **({} if self.head == HeadConfig() else {"head": self.head.to_dict()}),
            **{field: getattr(self, field) for field in self.described},
        }

    def restore(self, description: Mapping[str, Any]) -> Self:
        """The task that `describe` described."""
        given = {field: description[field] for field in self.described if field in description}
        known: Any = {name: tuple(x) if isinstance(x, list) else x for name, x in given.items()}
        return dataclasses.replace(
            self,
            max_seq_length=description["max_seq_length"],
            labels=tuple(description["labels"]),
            columns=tuple(description.get("columns", {}).items()),
            label_map=tuple(description.get("label_map", {}).items()),
            head=HeadConfig.from_dict(description.get("head", {}), "the head"),
            **known,
        )

    @classmethod
    def entry(cls) -> type:
        """The type of the described fields of a shape, for `json_files.check`."""
        types = typing.get_type_hints(cls, include_extras=True)
        fields = [(field, types[field], None) for field in cls.described]
        return msgspec.defstruct(f"{cls.__name__}Entry", fields)

    @abc.abstractmethod
    def features(self, examples: Examples, tokenizer: Tokenizer) -> Features:
        """Makes features, among them those of `packed_columns`."""

    def sequence_splits(self, features: Features) -> np.ndarray:
        """Where each sequence begins among the tokens of all rows, and the end; int64."""
        return features["input_word_ids"].splits

    def row_lengths(self, features: Features) -> np.ndarray:
        """The length of each row's longest sequence, for bucketing; int64 [rows]."""
        return features["input_word_ids"].lengths

    def padded_length(self, longest: int) -> int:
        """The length of a batch, given the length of its longest sequence."""
        longest = self.max_seq_length if self.fixed_length else longest
        return bucketing.padded_length(longest, self.max_seq_length)

    def assemble(self, features: Features, rows: np.ndarray, size: int) -> Batch:
        """Makes a batch of `size` rows: those of these indices, and others of weight 0.

        Returns:
          int32 [size, length] `input_word_ids`, `input_mask` and `input_type_ids`, float32 [size]
          `weights`, and the labels. If the features have outputs of layers, the batch has them
          too, float32 [size, length, width].
        """
        splits = features["input_word_ids"].splits
        batch = self.padded(features, [(splits[row], splits[row + 1]) for row in rows], size)
        batch["weights"] = (np.arange(size) < len(rows)).astype(np.float32)
        return batch | self.batch_labels(features, rows, size, batch["input_mask"].shape[-1])

    def padded(self, features: Features, sequences: Sequence[tuple[int, int]], count: int) -> Batch:
        """Inputs of the encoder, [count, length] each, padded to the longest sequence.

        Args:
          features: features of `self.features`.
          sequences: the first token of each sequence among those of all rows, and the end.
          count: number of sequences in the result; empty ones are appended.
        """
        lengths = np.zeros(count, np.int64)
        lengths[: len(sequences)] = [end - start for start, end in sequences]
        length = self.padded_length(int(lengths.max()))
        fills = {"input_word_ids": features.pad_id, "input_type_ids": 0}
        batch = {"input_mask": (np.arange(length) < lengths[:, np.newaxis]).astype(np.int32)}
        for name in (*fills, *layer_names(features.columns).values()):
            parts = [features[name].values[start:end] for start, end in sequences]
            batch[name] = pad(parts, count, length, fills.get(name, 0))
        return batch

    def batch_labels(self, features: Features, rows: np.ndarray, size: int, length: int) -> Batch:
        """The labels of a batch; empty if the examples have none."""
        if "labels" not in features:
            return {}
        values = features["labels"].values[rows]
        labels = np.zeros([size, *values.shape[1:]], f"{values.dtype.kind}4")  # of 32 bits
        labels[: len(rows)] = values
        return {"labels": labels}

    def encoder_inputs(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The encoder's inputs, int32 [sequences, length] each."""
        return {name: batch[name] for name in MODEL_INPUTS}

    def layer_outputs(self, batch: dict[str, tf.Tensor]) -> dict[int, tf.Tensor]:
        """The outputs of layers that a batch has, by number, [sequences, length, width]."""
        return {index: batch[name] for index, name in layer_names(batch).items()}

    def logits(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Logits of the rows of a batch, [size, ...], from the head's logits of its sequences."""
        return logits

    def scores(self, logits: Any) -> Any:
        """What logits of rows stand for, which a student learns of a teacher: themselves."""
        return logits

    @abc.abstractmethod
    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Losses, float32, of the shape of `loss_weights`."""

    def teacher_losses(self, logits: tf.Tensor, teacher: tf.Tensor) -> tf.Tensor:
        """Divergences from a teacher's logits, float32, of the shape of `losses`."""
        return divergence(logits, teacher, TEMPERATURE)

    def loss_weights(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Weights of the losses in their mean, float32 [size] or [size, length]."""
        return batch["weights"]

    @abc.abstractmethod
    def signatures(self, model: ServedModel) -> list[Signature]:
        """Signatures of an exported model; the first takes raw text and has the task's name."""

    @property
    def request_signature(self) -> str:
        """Name of the signature that `requests` and `from_outputs` are for."""
        return self.name

    @abc.abstractmethod
    def requests(self, examples: Examples) -> dict[str, Any]:
        """Inputs of a signature for a batch of examples, lists of str by name."""

    @abc.abstractmethod
    def from_outputs(self, examples: Examples, outputs: Arrays) -> list[Any]:
        """Predictions from the outputs of a signature."""

    @abc.abstractmethod
    def predict(
        self, examples: Examples, features: Features, logits: Sequence[np.ndarray]
    ) -> list[Any]:
        """Turns the results of feature rows (`TaskObjective.results`) into one prediction each."""

    @abc.abstractmethod
    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Scores of predictions of labelled examples, as fractions of 1."""

    @abc.abstractmethod
    def baseline(self, training: Examples, examples: Examples) -> list[Any]:
        """Predictions without a model, from the labels of training examples alone."""

    def bag_of_words(self, training: Examples, examples: Examples) -> list[Any]:
        """Predictions from the words of the texts alone; empty if the shape has none."""
        return []

    @abc.abstractmethod
    def answers(self, prediction: Any) -> Sequence[str]:
        """A prediction as text. A model whose predictions all have one answer learned nothing."""

    def by_label(self, examples: Examples, predictions: Predictions) -> dict[str, LabelScores]:
        """Scores of each label; empty if the task has no fixed set of labels."""
        return {}

    @abc.abstractmethod
    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """Texts of the prediction files by file name: a readable table, and the official ones."""

    @abc.abstractmethod
    def errors(self, example: Any, prediction: Any) -> Iterable[tuple[Any, str]]:
        """The errors of a prediction: a sort key, lowest for the worst, and a readable text."""

    def mistakes(self, examples: Examples, predictions: Predictions, count: int) -> list[str]:
        """The texts of the worst errors, the worst first."""
        pairs = zip(examples, predictions, strict=True)
        found = [error for pair in pairs for error in self.errors(*pair)]
        return [text for _, text in sorted(found, key=lambda error: error[0])[:count]]

    @abc.abstractmethod
    def draw(self, figure: "Figure", examples: Examples, predictions: Predictions) -> None:
        """Draws the task's own picture, such as a confusion matrix."""
