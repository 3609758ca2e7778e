"""What a page of `bert-tf inspect` shows of a task.

The package of a shape may have a module `inspection` with a function

    inspect(task: Task, texts: Sequence[str], reader: Reader) -> InspectedAnswer

It makes an example of the texts that the user gives, lets the reader read it, and returns the
answer and the scores to explain. Without it, a page shows what the encoder does, without an answer.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict

import tensorflow as tf

from bert_tf.tasks.base import Task
from bert_tf.tasks.numbered import NumberedTokenizer, TokenSequence
from pipelines.common.errors import InputError
from pipelines.labelled.features import Features

PLACE = "--sentence"  # the place of examples, for errors
# A score of each sequence, float32 [rows], of logits [rows, units] or [rows, length, units].
Score = Callable[[tf.Tensor], tf.Tensor]


class Reading(NamedTuple):
    """An example that a model has read.

    Attributes:
      features: its features; token ids are numbers of pieces.
      sequences: its sequences.
      logits: the logits of each sequence, float32 [units], or [length, units] of heads of tokens;
        with a CRF see `TaskObjective.results`.
    """

    features: Features
    sequences: list[TokenSequence]
    logits: list[Any]


class Reader:
    """Reads examples with a model.

    Args:
      tokenizer: numbers the pieces of the texts.
      logits: returns the logits of a sequence, as in `Reading`.
    """

    def __init__(self, tokenizer: NumberedTokenizer, logits: Callable[[TokenSequence], Any]):
        self._tokenizer, self._logits = tokenizer, logits

    def split_words(self, text: str) -> list[str]:
        """The words of a text, split as an export splits them, for an example of these words."""
        return self._tokenizer.split_words(text)

    def read(self, task: Task, example: Any) -> Reading:
        """Makes the sequences of an example, and computes their logits."""
        features = task.features([example], self._tokenizer)
        numbers, segments = (features[name].values for name in ("input_word_ids", "input_type_ids"))
        sequences = [
            self._tokenizer.sequence(numbers[start:end], segments[start:end])
            for start, end in itertools.pairwise(task.sequence_splits(features).tolist())
        ]
        return Reading(features, sequences, [self._logits(sequence) for sequence in sequences])


class AnswerRow(TypedDict):
    """A possible answer, and its probability."""

    name: str
    share: float


class WordTag(TypedDict):
    """The position of a word's first token, its tag, and the probability of the tag."""

    position: int
    tag: str
    share: float


class Target(NamedTuple):
    """A score to attribute to tokens, and its name."""

    name: str
    score: Score


@dataclasses.dataclass(frozen=True)
class InspectedAnswer:
    """The answer of a task, as a page shows it.

    Attributes:
      sequence: the sequence that the answer is from.
      texts: the texts of its tokens.
      text: the answer.
      rows: all possible answers, or the best ones, the best first.
      targets: the scores that explain the answer, the most important first.
      measure: description of these scores.
      tags: tags of words.
      span: the first and the last position of the answer in the sequence.
      notes: further remarks.
    """

    sequence: TokenSequence
    texts: tuple[str, ...]
    text: str
    rows: tuple[AnswerRow, ...]
    targets: tuple[Target, ...]
    measure: str
    tags: tuple[WordTag, ...] = ()
    span: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()


def log_odds(logits: tf.Tensor, label: int) -> tf.Tensor:
    """ln(p / (1 - p)) of a label, [rows] of logits [rows, labels]."""
    others = tf.concat([logits[:, :label], logits[:, label + 1 :]], 1)
    return logits[:, label] - tf.reduce_logsumexp(others, 1)


def check_count(task: Task, texts: Sequence[str], count: int) -> None:
    """Raises InputError unless there are as many texts as the task takes, one or two."""
    if len(texts) != count:
        takes = "two texts (--sentence and --second)" if count == 2 else "one text (--sentence)"
        raise InputError(f"the task {task.name} takes {takes}, not {len(texts)}.")


def window_notes(count: int) -> tuple[str, ...]:
    """A note if the sequence that is shown is one of several windows."""
    if count == 1:
        return ()
    return (f"This is the first of {count} windows; the answer is the mean of all.",)


def cut_notes(max_seq_length: int, sequence: TokenSequence) -> tuple[str, ...]:
    """A note with the number of tokens that were cut, if there are any."""
    cut = sequence.uncut - int((~sequence.special).sum())
    return (f"Cut to fit {max_seq_length} tokens: {cut} of {sequence.uncut}.",) if cut else ()
