"""What tasks of single texts and of pairs have in common."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import tensorflow as tf

from bert_tf.tasks import base, messages
from bert_tf.tasks.base import Task
from pipelines.common.errors import InputError
from pipelines.labelled.features import FeatureColumn
from pipelines.labelled.schema import TextExample, have_labels
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

PredictionT = TypeVar("PredictionT")


def text_features(
    examples: Sequence[TextExample], tokenizer: Tokenizer, max_length: int
) -> tuple[dict[str, FeatureColumn], dict[str, int]]:
    """Columns of packed single texts or pairs, and how many of them were cut."""
    first = [example.text_a for example in examples]
    pair = examples[0].text_b is not None
    second = [example.text_b or "" for example in examples] if pair else None
    packed, lengths = packing.pack_texts(tokenizer, first, second, max_length)
    cut = int(tf.reduce_sum(tf.cast(lengths > max_length, tf.int32)))
    columns = {
        "input_word_ids": FeatureColumn.of(packed.word_ids),
        "input_type_ids": FeatureColumn.of(packed.type_ids),
    }
    return columns, {f"texts longer than --max_length={max_length}, cut": cut}


@dataclasses.dataclass(frozen=True)
class TextTask(Task[TextExample, PredictionT]):
    """What classification and regression have in common: a single text or a pair.

    Attributes:
      pair: whether examples are pairs of texts; found in the training data. None: of a model
        of another program, which does not say so.
      submission: file names of a submission, by split.
    """

    described: ClassVar[tuple[str, ...]] = ("pair",)

    pair: bool | None = False
    submission: tuple[tuple[str, str], ...] = ()

    def problem(self, example: TextExample) -> str | None:
        """An empty text."""
        return base.empty_text(example, "text_a", "text_b")

    def check(self, examples: Sequence[TextExample]) -> None:
        """Checks that texts are single, or pairs, as the task has them."""
        for example in examples:
            if self.pair not in (None, example.text_b is not None):
                has, takes = ("single texts", "pairs") if self.pair else ("pairs", "single texts")
                raise InputError(
                    f"{example.place}: the file has {has}, the task {self.name} takes {takes}; "
                    "name its columns with --columns=, or when predicting, its layout with --kind=."
                )

    @property
    def segments(self) -> int:
        """One for each text."""
        return 2 if self.pair else 1


def beside(examples: Sequence[TextExample], what: str) -> list[list[str]]:
    """The columns of a table of predictions that are the user's own, a header first.

    Args:
      examples: a row each.
      what: is predicted, "label" or "score": true ones are shown where all are known.
    """
    known = have_labels(examples)
    paired = any(example.text_b is not None for example in examples)
    rows = [[f"true_{what}"] * known + (["text_a", "text_b"] if paired else ["text"])]
    for example in examples:
        second = [example.text_b or ""] if paired else []
        rows.append([*([example.truth] if known else []), example.text_a, *second])
    return rows


def show_text(example: TextExample) -> str:
    """The texts of an example, indented, for reports."""
    texts = [example.text_a] if example.text_b is None else [example.text_a, example.text_b]
    return "\n".join(f"    {messages.shorten(text)}" for text in texts)
