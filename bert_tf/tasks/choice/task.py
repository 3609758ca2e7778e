"""Multiple choice: one score per choice, softmax over the choices (paper, section 4.4)."""

import collections
import csv
import dataclasses
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import scipy.special
import tensorflow as tf

from bert_tf.tasks import reports, sequences, signatures
from bert_tf.tasks.base import Batch, TaskFiles
from bert_tf.tasks.sequences import SequencesTask
from bert_tf.tasks.signatures import Arrays, Prepared, ServedModel, Signature, Tensors
from pipelines.common.texts import shorten
from pipelines.labelled import multiple_choice, text_lines
from pipelines.labelled.features import FeatureColumn, Features
from pipelines.labelled.schema import ChoiceExample, have_labels
from pipelines.labelled.source import Source
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ChoicePrediction(NamedTuple):
    """The index of the chosen one, and the probabilities of all choices."""

    choice: int
    probabilities: np.ndarray


Examples = Sequence[ChoiceExample]
Predictions = Sequence[ChoicePrediction]


@dataclasses.dataclass(frozen=True)
class Choice(SequencesTask):
    """One of any number of choices, each a sequence of the row of its example.

    Attributes:
      windows: how many windows of a longer context are read at most, each with every choice; the
        score of a choice is the mean of those of its windows.
    """

    shape: ClassVar[str] = "choice"
    described: ClassVar[tuple[str, ...]] = ("windows", "label_form")
    feature_fields: ClassVar[tuple[str, ...]] = ("windows",)

    windows: int = 1
    label_form: multiple_choice.LabelForm = ""

    main_metric = "accuracy"
    segments = 2  # the context and a choice
    units = 1  # the score of a choice

    def problem(self, example: ChoiceExample) -> str | None:
        """An empty text."""
        if not all(map(str.strip, example.choices)):
            return "a choice is empty"
        return reports.empty_text(example, "context")

    def features(self, examples: Examples, tokenizer: Tokenizer) -> Features:
        """Packed pairs of context and choice."""
        counts = np.array([len(example.choices) for example in examples])
        owner = np.repeat(np.arange(len(examples)), counts)
        first = tokenizer.tokenize([example.context for example in examples])
        second = tokenizer.tokenize([_full(e, choice) for e in examples for choice in e.choices])
        packed, row, cut = self._packed(tokenizer, first, second, owner)
        columns = self.sequence_columns(packed, np.bincount(owner[row]))
        columns["choices"] = FeatureColumn.of(counts)
        if have_labels(examples):
            columns["labels"] = FeatureColumn.of(np.array([example.label for example in examples]))
        limit, remedy = f"--max_seq_length={self.max_seq_length}", "see --windows"
        if self.windows > 1:
            limit, remedy = f"{limit} and --windows={self.windows}", "raise them"
        return Features(columns, {f"choices longer than {limit}, cut ({remedy})": int(np.sum(cut))})

    def _packed(
        self, tokenizer: Tokenizer, first: tf.RaggedTensor, second: tf.RaggedTensor, owner: Any
    ) -> tuple[packing.Packed, tf.Tensor, tf.Tensor]:
        """Sequences of contexts [batch, (tokens)] and choices [choices, (tokens)].

        `owner`, int64 [choices], is the example of each choice.

        Returns:
          The sequences of all choices; the choice of each, int64 [sequences]; and whether choices
          are cut, bool [choices]. All choices of an example have as many sequences.
        """
        limit = self.max_seq_length
        # Cut first: a context is repeated for each choice.
        first = tf.gather(first[:, : limit * self.windows], owner)
        if self.windows > 1:
            return packing.cut_into_windows(tokenizer, first, second, limit, self.windows, owner)
        cut = first.row_lengths() + second.row_lengths() + tokenizer.overhead[1] > limit
        packed = packing.pack(tokenizer, first, second, limit)
        return packed, tf.range(second.nrows()), cut

    def assemble(self, features: Features, rows: np.ndarray, size: int) -> Batch:
        """As usual, with `choice_mask`, float32 [size, choices], and the `windows` of a choice."""
        batch = super().assemble(features, rows, size)
        every = features["choices"].values
        counts = np.append(every[rows], np.zeros(size - len(rows), every.dtype))
        most = (every if self.fixed_length else counts).max()
        batch["choice_mask"] = (np.arange(most) < counts[:, np.newaxis]).astype(np.float32)
        if self.windows > 1:
            of_rows = batch["input_mask"].max(-1).sum(-1) // np.maximum(counts, 1)
            batch["windows"] = np.maximum(of_rows, 1).astype(np.int32)
        return batch

    def logits(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Scores of the choices, [size, choices]; absent ones have a very low one."""
        mask = batch["choice_mask"]
        if self.windows > 1:
            shape = tf.shape(batch["input_mask"])
            choice = tf.range(shape[1]) // batch["windows"][:, tf.newaxis]
            part = tf.one_hot(choice, tf.shape(mask)[1]) / tf.cast(
                batch["windows"][:, tf.newaxis, tf.newaxis], tf.float32
            )
            logits = tf.linalg.matvec(part, tf.reshape(logits, shape[:2]), transpose_a=True)
        return tf.where(mask > 0, tf.reshape(logits, tf.shape(mask)), sequences.ABSENT)

    def losses(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Negative log-likelihood of the right choices."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits)

    def signatures(self, model: ServedModel) -> list[Signature]:
        """`<task>` and `<task>_ids`; empty choices fill up rows that have fewer."""
        specs = signatures.text_specs("context") | {
            "choices": tf.TensorSpec([None, None], tf.string, "choices")
        }
        return [
            Signature(
                self.name,
                specs,
                {"context": ["It rained."], "choices": [["We got wet.", "It was dry."]]},
                lambda inputs: self._pack(model, signatures.same_batch(inputs)),
                model.logits,
                _outputs,
                sequence_axes=2,
            ),
            Signature(
                f"{self.name}_ids",
                model.ids_specs(rank=3),
                model.ids_sample(pair=True, rank=3),
                lambda inputs: _flat(model, model.checked(inputs)),
                model.logits,
                _outputs,
                sequence_axes=2,
            ),
        ]

    def _pack(self, model: ServedModel, inputs: Tensors) -> Prepared:
        choices = inputs["choices"]
        choices = sequences.some_present(model, choices, choices != "", "choice")
        shape = tf.shape(choices, tf.int64)
        owner = tf.repeat(tf.range(shape[0]), shape[1])
        tokenize = model.tokenizer.functions.tokenize
        first, second = tokenize(inputs["context"]), tokenize(tf.reshape(choices, [-1]))
        packed, row, _ = self._packed(model.tokenizer, first, second, owner)
        state = {"row": row} if self.windows > 1 else {}
        return Prepared(model.padded(packed), {"present": choices != "", **state})

    def describe(self) -> dict[str, Any]:
        """As usual, without what is as usual."""
        usual = (("windows", 1), ("label_form", ""))
        return {k: v for k, v in super().describe().items() if (k, v) not in usual}

    def requests(self, examples: Examples) -> dict[str, Any]:
        """Contexts and choices; rows are filled up to the same number of choices."""
        most = max(len(example.choices) for example in examples)
        choices = [
            [_full(example, choice) or signatures.EMPTY_TEXT for choice in example.choices]
            + [""] * (most - len(example.choices))
            for example in examples
        ]
        return {"context": [example.context for example in examples], "choices": choices}

    def from_outputs(self, examples: Examples, outputs: Arrays) -> list[ChoicePrediction]:
        """Choices, and the probabilities of those that each example has."""
        rows = zip(examples, outputs["choice"], outputs["probabilities"], strict=True)
        return [
            ChoicePrediction(int(choice), probabilities[: len(example.choices)])
            for example, choice, probabilities in rows
        ]

    def predict(
        self, examples: Examples, features: Features, logits: Sequence[np.ndarray]
    ) -> list[ChoicePrediction]:
        """The choices of the highest scores."""
        found = []
        for example, scores in zip(examples, logits, strict=True):
            probabilities = scipy.special.softmax(scores[: len(example.choices)])
            found.append(ChoicePrediction(int(probabilities.argmax()), probabilities))
        return found

    def metrics(self, examples: Examples, predictions: Predictions) -> dict[str, float]:
        """Accuracy."""
        return {"accuracy": float(_right(examples, predictions).mean())}

    def baseline(self, training: Examples, examples: Examples) -> list[ChoicePrediction]:
        """The place that is right most often."""
        places = collections.Counter(example.truth for example in training)
        usual = places.most_common(1)[0][0]
        guesses = []
        for example in examples:
            choice = min(usual, len(example.choices) - 1)
            guesses.append(ChoicePrediction(choice, np.eye(len(example.choices))[choice]))
        return guesses

    def answers(self, prediction: ChoicePrediction) -> Sequence[str]:
        """The place of the choice, from 1."""
        return [f"choice {prediction.choice + 1}"]

    def files(self, examples: Examples, predictions: Predictions, split: str) -> dict[str, str]:
        """A csv table of ids, choices (from 0), their probabilities, true ones and texts."""
        table = {
            "id": [example.key for example in examples],
            "pred": [str(guess.choice) for guess in predictions],
            "probability": [f"{guess.probabilities.max():.6f}" for guess in predictions],
        }
        if have_labels(examples):
            table["true"] = [str(example.truth) for example in examples]
        table["context"] = [example.context for example in examples]
        pairs = zip(examples, predictions, strict=True)
        table["chosen"] = [_full(example, example.choices[g.choice]) for example, g in pairs]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([table, *zip(*table.values(), strict=True)])
        return {f"predictions.{split}.csv": text.getvalue()}

    def errors(
        self, example: ChoiceExample, prediction: ChoicePrediction
    ) -> Iterable[tuple[float, str]]:
        """A wrong choice; the worst are those where the right one has the lowest probability."""
        if prediction.choice != example.label:
            probability = float(prediction.probabilities[example.truth])
            yield (
                probability,
                f"{example.place}: {shorten(example.context)}\n"
                f"    chosen: {example.choices[prediction.choice]}\n"
                f"    right ({probability:.0%}): {example.choices[example.truth]}",
            )

    def draw(self, figure: "Figure", examples: Examples, predictions: Predictions) -> None:
        """Accuracy by how sure the model was."""
        sure = np.array([guess.probabilities.max() for guess in predictions])
        right = _right(examples, predictions)
        edges = np.linspace(0, 1, 11)
        bins = np.clip(np.digitize(sure, edges) - 1, 0, 9)
        fractions = [
            right[bins == index].mean() if (bins == index).any() else 0 for index in range(10)
        ]
        axes = figure.subplots()
        axes.bar(edges[:-1] + 0.05, fractions, width=0.09)
        axes.plot([0, 1], [0, 1], color="gray", linewidth=0.8)
        axes.set_xlabel("probability of the choice")
        axes.set_ylabel("fraction that is right")


def _full(example: ChoiceExample, choice: str) -> str:
    """A choice behind the text that begins all choices."""
    return f"{example.stem} {choice}" if example.stem else choice


def _right(examples: Examples, predictions: Predictions) -> np.ndarray:
    """Whether each prediction is right, bool [examples]."""
    return np.array([g.choice == e.label for e, g in zip(examples, predictions, strict=True)])


def _flat(model: ServedModel, inputs: Tensors) -> Prepared:
    """Token ids [batch, choices, length] as one sequence for each choice."""
    present = tf.reduce_any(inputs["input_mask"] > 0, -1)
    ids = sequences.some_present(model, inputs["input_word_ids"], present, "choice")
    shape = tf.shape(ids)
    inputs = inputs | {"input_word_ids": ids}
    flat = {name: tf.reshape(x, [shape[0] * shape[1], shape[2]]) for name, x in inputs.items()}
    return Prepared(flat, {"present": present})


def _outputs(results: Sequence[tf.Tensor], state: Tensors) -> Tensors:
    present, scores = state["present"], results[0]
    if "row" in state:
        scores = sequences.window_means(scores, state["row"], tf.size(present, tf.int64))
    scores = tf.reshape(scores[:, 0], tf.shape(present))
    best, logits = sequences.best_present(scores, present)
    return {"choice": best, "probabilities": tf.nn.softmax(logits), "logits": logits}


def _is_keyed(source: Source) -> bool:
    may_be = text_lines.ending(source.path) == ".csv" and not source.chosen and not source.header
    return may_be and multiple_choice.is_keyed(source.path, source.encoding)


def _label_forms(source: Source, known: Sequence[str]) -> Sequence[str]:
    """The forms of labels that fit a file; keys have one of their own."""
    return known if _is_keyed(source) else multiple_choice.label_forms(source, known)


def _read(source: Source, split: str, labelled: bool, skipped: list[str]) -> list[Any]:
    if _is_keyed(source):
        source.log_once(
            "no header; context = column 1, label = the last column, a letter or a "
            "number from 1, choices = those between"
        )
        return multiple_choice.read_keyed(source.path, skipped, source.encoding, labelled)
    return list(multiple_choice.read_choices(source, labelled))


_FILES = dataclasses.replace(
    TaskFiles.of_user(multiple_choice.read_choices, prefixes=("", "*")),
    read=_read,
    label_forms=_label_forms,
)
TASKS = (Choice("swag", _FILES), Choice("choice", _FILES))
