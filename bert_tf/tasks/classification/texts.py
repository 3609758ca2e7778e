"""Base of tasks whose examples are single texts or pairs of texts, and how their files are read."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from bert_tf.tasks import reports, sequences, signatures
from bert_tf.tasks.base import TaskFiles
from bert_tf.tasks.sequences import SequencesTask
from bert_tf.tasks.signatures import Method, PlainTexts, Prepared, ServedModel, Signature, Tensors
from pipelines.common.errors import InputError
from pipelines.common.texts import shorten
from pipelines.labelled import glue, user_files
from pipelines.labelled.features import FeatureColumn, Features, packed_columns
from pipelines.labelled.schema import MultiLabelExample, TextExample, have_labels
from pipelines.labelled.source import Source
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.settings import Keep

_SAMPLE = ("A sentence to warm up with.", "Another one, a little longer than the first.")


Examples = Sequence[TextExample]


@dataclasses.dataclass(frozen=True)
class TextTask(SequencesTask):
    """What classification and regression share: examples are single texts or pairs.

    Attributes:
      windows: how many windows of a text, or of the longer one of a pair, are read at most, if it
        is longer than `max_seq_length`; the logits of a text are the means of those of its windows.
      keep: what is kept of a single text that is longer, with one window.
      pair: whether examples are pairs, found in the training data; None: unknown, of a model of
        another program.
      symmetric: whether it means nothing which text of a pair comes first.
      submission: names of GLUE's submission files, by split.
    """

    described: ClassVar[tuple[str, ...]] = ("pair", "windows", "keep")
    unknown_elsewhere: ClassVar[dict[str, Any]] = {"pair": None}
    feature_fields: ClassVar[tuple[str, ...]] = ("windows", "keep")
    method: ClassVar[Method] = Method.CLASSIFY  # TensorFlow Serving's interface for tf.Examples

    windows: int = 1
    keep: Keep = Keep.HEAD
    pair: bool | None = False
    symmetric: bool = False
    submission: tuple[tuple[str, str], ...] = ()

    @property
    def segments(self) -> int:
        """One for each text."""
        return 2 if self.pair else 1

    def problem(self, example: TextExample) -> str | None:
        """An empty text."""
        return reports.empty_text(example, "text_a", "text_b")

    def check(self, examples: Examples) -> None:
        """Checks that texts are single, or pairs, as the task has them."""
        if self.windows > 1 and self.keep != Keep.HEAD:
            raise InputError(
                f"--keep={self.keep}: is for one window, and --windows={self.windows} read a text "
                "from its beginning; give one of them."
            )
        for example in examples:
            if self.keep != Keep.HEAD and example.text_b is not None:
                raise InputError(
                    f"{example.place}: --keep={self.keep} is for single texts, and this is a pair; "
                    "leave it out; --windows reads all of it."
                )
            if self.pair not in (None, example.text_b is not None):
                has, takes = ("single texts", "pairs") if self.pair else ("pairs", "single texts")
                raise InputError(
                    f"{example.place}: the file has {has}, the task {self.name} takes {takes}; "
                    "name its columns with --columns=, or when predicting, its layout with --kind=."
                )

    def features(self, examples: Examples, tokenizer: Tokenizer) -> Features:
        """Packed single texts or pairs, and labels where known."""
        texts = [example.text_a for example in examples]
        pair = examples[0].text_b is not None
        second = [example.text_b or "" for example in examples] if pair else None
        if self.windows > 1:
            first, other = tokenizer.tokenize(texts), second and tokenizer.tokenize(second)
            packed, row, cut = packing.cut_into_windows(
                tokenizer, first, other, self.max_seq_length, self.windows
            )
            columns = self.sequence_columns(packed, np.bincount(row.numpy()))
        else:
            packed, lengths = tokenizer.pack_texts(texts, second, self.max_seq_length, self.keep)
            columns = packed_columns(packed)
            cut = lengths > self.max_seq_length
        if have_labels(examples):
            columns["labels"] = self.label_column(examples)
        limit, remedy = (
            f"--max_seq_length={self.max_seq_length}",
            "see --windows" if pair else "see --windows and --keep",
        )
        if self.windows > 1:
            limit, remedy = f"{limit} and --windows={self.windows}", "raise them"
        return Features(columns, {f"texts longer than {limit}, cut ({remedy})": int(np.sum(cut))})

    @property
    def max_sequences(self) -> int:
        """The number of windows."""
        return self.windows

    def row_lengths(self, features: Features) -> np.ndarray:
        """The tokens of each example, windows together."""
        return features["input_word_ids"].lengths

    def logits(self, logits: tf.Tensor, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """The logits of each example, [size, units]; means over windows."""
        mask = batch["input_mask"]
        if mask.shape.rank == 2:
            return logits
        present = tf.cast(tf.reduce_max(mask, -1, keepdims=True), tf.float32)
        windows = tf.reshape(logits, tf.concat([tf.shape(mask)[:2], [-1]], 0))
        return tf.math.divide_no_nan(tf.reduce_sum(windows * present, 1), tf.reduce_sum(present, 1))

    def describe(self) -> dict[str, Any]:
        """As usual, without what is as usual."""
        usual = (("windows", 1), ("keep", Keep.HEAD), ("metric", ""))
        return {name: x for name, x in super().describe().items() if (name, x) not in usual}

    def label_column(self, examples: Sequence[Any]) -> FeatureColumn:
        """The labels of examples as features."""
        return FeatureColumn.of(self.label_values(examples))

    @abc.abstractmethod
    def label_values(self, examples: Sequence[Any]) -> np.ndarray:
        """The labels of examples as numbers, int64 or float32."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of its signatures."""
        return ("text_a", "text_b") if self.pair else ("text",)

    @abc.abstractmethod
    def outputs(self, logits: Any) -> dict[str, Any]:
        """The outputs of a signature for logits [batch, units]; tensors or arrays."""

    def predict(
        self, examples: Examples, features: Features, logits: Sequence[np.ndarray]
    ) -> list[Any]:
        """What signatures answer."""
        return self.from_outputs(examples, self.outputs(np.stack(logits)))

    def signatures(self, model: ServedModel) -> list[Signature]:
        """`<task>` of raw text, `<task>_ids` of token ids, `<task>_<method>` of tf.Examples."""
        names = self.inputs

        def pack(inputs: Tensors) -> Prepared:
            texts = signatures.same_batch(inputs)
            tokens = [model.tokenizer.functions.tokenize(texts[name]) for name in names]
            first, second = tokens if len(tokens) > 1 else (tokens[0], None)
            if self.windows > 1:
                packed, row, _ = packing.cut_into_windows(
                    model.tokenizer, first, second, self.max_seq_length, self.windows
                )
                return Prepared(model.padded(packed), {"row": row, "batch": first.nrows()})
            packed = packing.pack(model.tokenizer, first, second, self.max_seq_length, self.keep)
            return Prepared(model.padded(packed), {})

        def logits(results: Sequence[Any], state: Tensors) -> Any:
            return sequences.window_means(results[0], **state) if state else results[0]

        def finish(results: Sequence[Any], state: Tensors) -> dict[str, Any]:
            return self.outputs(logits(results, state))

        def of_examples(results: Sequence[Any], state: Tensors) -> Tensors:
            found = finish(results, state)
            if self.method is Method.REGRESS:
                return {"outputs": found["score"]}
            scores = found["probabilities"]
            labels = tf.constant(list(self.labels))
            return {"classes": tf.broadcast_to(labels, tf.shape(scores)), "scores": scores}

        sample = dict(zip(names, _SAMPLE, strict=False))
        plain = self.windows == 1 and self.keep == Keep.HEAD
        return [
            Signature(
                self.name,
                signatures.text_specs(*names),
                {name: [text] for name, text in sample.items()},
                pack,
                model.logits,
                finish,
                plain=PlainTexts(names, self.max_seq_length) if plain else None,
            ),
            model.ids_signature(self.name, finish, pair=len(names) > 1),
            Signature(
                f"{self.name}_{self.method.rpartition('/')[2]}",
                signatures.EXAMPLES,
                signatures.example_sample(**sample),
                lambda inputs: pack(signatures.parse(inputs["inputs"], *names)),
                model.logits,
                of_examples,
                self.method,
            ),
        ]

    def requests(self, examples: Examples) -> dict[str, Any]:
        """The texts."""
        texts = [[example.text_a for example in examples], [example.text_b for example in examples]]
        return dict(zip(self.inputs, texts, strict=False))

    def tables(
        self,
        examples: Sequence[TextExample | MultiLabelExample],
        split: str,
        role: str,
        columns: dict[str, list[str]],
        submitted: Sequence[str],
    ) -> dict[str, str]:
        """Prediction files: a table with ids and texts, and GLUE's submission of the split, if any.

        Args:
          examples: a row each.
          split: name of the split.
          role: what is predicted, "label", "labels" or "score". The truth is shown if known.
          columns: predictions, by the name of their column.
          submitted: predictions as GLUE takes them.
        """
        found = {"id": [example.key for example in examples], **columns}
        if have_labels(examples):
            found[f"true_{role}"] = [example.truth for example in examples]
        paired = any(example.text_b is not None for example in examples)
        found["text_a" if paired else "text"] = [example.text_a for example in examples]
        if paired:
            found["text_b"] = [example.text_b or "" for example in examples]
        files = {f"predictions.{split}.tsv": reports.tsv(found)}
        if name := dict(self.submission).get(split):
            numbers = map(str, range(len(examples)))
            files[f"{name}.tsv"] = reports.tsv({"index": numbers, "prediction": submitted})
        return files


def show_texts(example: TextExample | MultiLabelExample) -> str:
    """The texts of an example on indented lines."""
    texts = [example.text_a] if example.text_b is None else [example.text_a, example.text_b]
    return "\n".join(f"    {shorten(text)}" for text in texts)


def glue_files(kind: str) -> TaskFiles:
    """The files of one of GLUE's sets."""
    data = glue.SETS[kind]

    def read(source: Source, split: str, labelled: bool, skipped: list[str]) -> list[Any]:
        return glue.read(kind, source, split, labelled, skipped)

    names = ("train", *data.dev, *data.test) if data.dev else data.test
    patterns = {name: (f"{name}.tsv",) for name in names}
    return TaskFiles(patterns, read, data.folder, named_columns=False, test_labelled=False)


def text_files(pair: bool | None = None) -> TaskFiles:
    """The user's own files of pairs (True), or of single texts or pairs as found in them (None)."""
    return TaskFiles.of_user(lambda source, labelled: user_files.read_texts(source, pair, labelled))
