"""Answers of tasks, as pages show them."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np
import tensorflow as tf

from bert_tf.inspection.attribution import Score
from bert_tf.inspection.sequences import TokenizedTexts, TokenSequence
from bert_tf.tasks import Task
from pipelines.common.errors import InputError

# Float32 logits of a sequence: [units], or of heads of tokens [length, units].
Logits = Callable[[TokenSequence], np.ndarray]
PLACE = "--text"  # of examples


class Row(TypedDict):
    """One of the possible answers; `share` is its probability."""

    name: str
    share: float


class Tag(TypedDict):
    """The tag of the word whose first token stands at `position`, and its probability."""

    position: int
    tag: str
    share: float


@dataclasses.dataclass(frozen=True)
class Target:
    """A score that is attributed to tokens, [rows] of the logits of so many sequences."""

    name: str
    score: Score


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a task says of some texts.

    Attributes:
      sequence: that the answer is from; of several, that of the best.
      texts: that its tokens stand in.
      text: the answer.
      rows: all possible answers, or the best ones, the best first.
      targets: the scores that explain it, that of the answer first.
      measure: what these scores are.
      tags: of words.
      span: the first and the last position of the answer in the sequence.
      notes: what else is to be known.
    """

    sequence: TokenSequence
    texts: tuple[str, ...]
    text: str
    rows: tuple[Row, ...]
    targets: tuple[Target, ...]
    measure: str
    tags: tuple[Tag, ...] = ()
    span: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()


def log_odds(logits: tf.Tensor, label: int) -> tf.Tensor:
    """ln(p / (1 - p)) of a label, [rows] of logits [rows, labels]."""
    others = tf.concat([logits[:, :label], logits[:, label + 1 :]], 1)
    return logits[:, label] - tf.reduce_logsumexp(others, 1)


def check_count(task: Task, texts: Sequence[str], count: int) -> None:
    """Raises InputError unless there are one or two texts, as the task takes them."""
    if len(texts) != count:
        takes = "two texts (--text and --text_b)" if count == 2 else "one text (--text)"
        raise InputError(f"the task {task.name} takes {takes}, not {len(texts)}.")


def cut_note(
    tokenized: TokenizedTexts, sequence: TokenSequence, max_length: int
) -> tuple[str, ...]:
    """Says how many tokens of the texts did not fit, where some did not."""
    total = sum(int(numbers.row_lengths()[0]) for numbers in tokenized.numbers)
    lost = total - int((~sequence.special).sum())
    return (f"Cut to fit {max_length} tokens: {lost} of {total}.",) if lost else ()
