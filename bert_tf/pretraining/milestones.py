"""Milestones of a run: guesses for a few held-out sentences, and metrics.

They are appended to `milestones.jsonl` in the folder of the run: a line with the sentences, then a
line for each milestone.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import NotRequired, TypedDict

from bert_tf.objectives.base import PretrainingObjective
from bert_tf.pretraining import masked_sentences
from pipelines.common import files, json_files

MILESTONES = "milestones.jsonl"  # in the folder of a run


class Line(TypedDict):
    """A line of the file: `sentences` alone, or `step` with `guesses` or `held_out` metrics."""

    step: NotRequired[int]
    sentences: NotRequired[list[masked_sentences.MaskedSentence]]
    guesses: NotRequired[list[masked_sentences.Guess]]
    held_out: NotRequired[dict[str, float | None]]


class Milestones:
    """Records the milestones of a run.

    Args:
      folder: folder of the run.
      start: the step that the run was resumed from, or 0. Lines of later steps, or all of them, are
        dropped: the folder may have them from an attempt with other settings.
      write: whether this process writes.
    """

    def __init__(self, folder: str, start: int, write: bool = True):
        self._path = f"{folder}/{MILESTONES}"
        self._write = write
        found = read(folder) if write else []
        kept = [line for line in found if start and line.get("step", 0) <= start]
        if len(kept) < len(found):
            files.write_text(self._path, "".join(map(_text, kept)))
        self._known = set(map(_key, kept))
        self._ask: Callable[[], list[masked_sentences.Guess]] | None = None

    def ask(
        self,
        model: PretrainingObjective,
        questions: masked_sentences.Questions,
        tokens: tuple[str, ...],
    ) -> None:
        """Sets the sentences to guess in at each milestone.

        Args:
          model: the model, which predicts masked tokens.
          questions: the sentences.
          tokens: tokens of the vocabulary.
        """
        if self._write:
            self._ask = lambda: masked_sentences.guess(model, questions, tokens)
            self._add({"sentences": questions.sentences})

    def guess(self, step: int) -> None:
        """Records the guesses at a step."""
        if self._ask and (step, "guesses") not in self._known:
            self._add({"step": step, "guesses": self._ask()})

    def score(self, step: int, metrics: Mapping[str, float]) -> None:
        """Records the held-out metrics at a step, unless all are NaN."""
        if not all(map(math.isnan, metrics.values())):
            self._add({"step": step, "held_out": json_files.as_json(dict(metrics))})

    def _add(self, line: Line) -> None:
        if not self._write or _key(line) in self._known:
            return
        if not self._known:
            files.write_text(self._path, "")
        self._known.add(_key(line))
        with files.gfile.GFile(self._path, "a") as file:
            file.write(_text(line))


def read(folder: str) -> list[Line]:
    """The lines of a run's file; none if there is no file."""
    path = f"{folder}/{MILESTONES}"
    return json_files.read_lines(path, Line)


def _text(line: Line) -> str:
    """The line break comes first, as a killed run may have left an incomplete last line."""
    return f"\n{json.dumps(line, ensure_ascii=False)}"


def _key(line: Line) -> tuple[int, str]:
    """The step and the kind of a line, which identify it."""
    kinds = ("sentences", "guesses", "held_out")
    return line.get("step", 0), next((kind for kind in kinds if kind in line), "")
