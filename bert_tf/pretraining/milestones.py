"""What a run could do at its milestones: guesses for a few held-out sentences, and metrics.

They are in `milestones.jsonl` in the folder of the run, which only grows: a line with the
sentences, then a line for each milestone. A run that goes on repeats steps to the bit, so that
what was noted of them stays.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import NotRequired, TypedDict

from bert_tf.objectives.base import PretrainingObjective
from bert_tf.pretraining import masked_sentences
from pipelines.common import files, json_files
from pipelines.common.errors import InputError

MILESTONES = "milestones.jsonl"  # in the folder of a run


class Sentence(TypedDict):
    """A held-out sentence: the text round its mask, and the token that was masked."""

    text: str
    original: str


class SentenceGuess(TypedDict):
    """The best guesses of a step for a sentence, and the probability of the right one."""

    tokens: dict[str, float]
    right: float


class Line(TypedDict):
    """A line of the file: `sentences` alone, or `step` with `guesses` or `held_out` metrics."""

    step: NotRequired[int]
    sentences: NotRequired[list[Sentence]]
    guesses: NotRequired[list[SentenceGuess]]
    held_out: NotRequired[dict[str, float | None]]


class Milestones:
    """The milestones of a run.

    Args:
      folder: of the run.
      write: whether this process writes.
    """

    def __init__(self, folder: str, write: bool = True):
        self._path = f"{folder}/{MILESTONES}"
        self._write = write
        self._known = {_key(line) for line in read(folder)} if write else set()
        self._ask: Callable[[], list[masked_sentences.Guess]] | None = None

    def ask(
        self,
        model: PretrainingObjective,
        questions: masked_sentences.Questions,
        tokens: tuple[str, ...],
    ) -> None:
        """Takes the sentences to guess in at each milestone.

        Args:
          model: that is trained, and guesses masked tokens.
          questions: the sentences.
          tokens: of the vocabulary.
        """
        if self._write:
            self._ask = lambda: masked_sentences.guess(model, questions, tokens)
            told: list[Sentence] = [
                {"text": sentence.text, "original": sentence.original}
                for sentence in questions.sentences
            ]
            self._add({"sentences": told})

    def guess(self, step: int) -> None:
        """Notes what is guessed after so many steps."""
        if self._ask and (step, "guesses") not in self._known:
            found = [SentenceGuess(tokens=one.tokens, right=one.right) for one in self._ask()]
            self._add({"step": step, "guesses": found})

    def score(self, step: int, metrics: Mapping[str, float]) -> None:
        """Notes the metrics of held-out examples after so many steps; nothing where all are NaN."""
        if not all(map(math.isnan, metrics.values())):
            self._add({"step": step, "held_out": json_files.as_json(dict(metrics))})

    def _add(self, line: Line) -> None:
        if not self._write or _key(line) in self._known:
            return
        if not self._known:
            files.write_text(self._path, "")
        self._known.add(_key(line))
        with files.gfile.GFile(self._path, "a") as file:
            # The line break comes first: the last line may be one that a killed run was writing.
            file.write(f"\n{json.dumps(line, ensure_ascii=False)}")


def read(folder: str) -> list[Line]:
    """The lines of a run; none of one of before there were any."""
    path = f"{folder}/{MILESTONES}"
    if not files.gfile.exists(path):
        return []
    lines = map(_parse, files.read_whole(path).decode(errors="replace").split("\n"))
    return [line for line in lines if line]


def _parse(text: str) -> Line | None:
    try:
        return json_files.check(json_files.parse(text, ""), Line, "")
    except InputError:
        return None  # the line that a killed run was writing, or an empty one


def _key(line: Line) -> tuple[int, str]:
    """What tells a line from the others: its step, and what it has of it."""
    kinds = ("sentences", "guesses", "held_out")
    return line.get("step", 0), next((kind for kind in kinds if kind in line), "")
