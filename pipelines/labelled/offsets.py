"""Corrects the starts of answers that were counted in other units than characters."""

import dataclasses
from collections.abc import Callable, Sequence

from absl import logging

from pipelines.common.texts import counted
from pipelines.labelled.schema import AnswerSpan, SpanExample

MAX_SHIFT = 3  # characters
MIN_SHIFTED = 3  # answers


def _from_units(context: str, start: int, encoding: str, size: int) -> int:
    """Returns the character at a position in units of an encoding of `size` bytes."""
    return len(context.encode(encoding)[: size * start].decode(encoding, "ignore"))


def _from_long_breaks(context: str, start: int) -> int:
    """Returns the character at a position that counts each line break twice."""
    return len(context.replace("\n", "\r\n")[:start].replace("\r\n", "\n"))


# By what was counted: the character of a context at a start. A context has either line breaks.
UNITS: dict[str, Callable[[str, int], int]] = {
    "UTF-16 units": lambda context, start: _from_units(context, start, "utf-16-le", 2),
    "bytes of UTF-8": lambda context, start: _from_units(context, start, "utf-8", 1),
    "line breaks twice": _from_long_breaks,
    "line breaks once": lambda context, start: (
        start + context.replace("\r\n", "\n")[:start].count("\n") * ("\r\n" in context)
    ),
}


def corrected(examples: Sequence[SpanExample], path: str) -> list[SpanExample]:
    """Moves answers that are not at their starts to where they are, counted in other units.

    A start is changed if the answer is there in one of `UNITS`; or if most answers of the file are
    not at their starts, and those at the same small distance from them. The unit that explains most
    answers comes first. The log has their numbers.

    Args:
      examples: the examples of a file.
      path: the file.
    """
    answers = [(e, a) for e in examples for a in e.answers or ()]
    wrong = [(e, a) for e, a in answers if not _is_at(e, a, a.start)]
    starts = {
        unit: [convert(e.context, a.start) for e, a in wrong] for unit, convert in UNITS.items()
    }
    for shift in range(-MAX_SHIFT, MAX_SHIFT + 1):
        moved = [a.start - shift for _, a in wrong]
        fitting = sum(_is_at(*pair, start) for pair, start in zip(wrong, moved, strict=True))
        if 2 * len(wrong) > len(answers) and fitting >= max(MIN_SHIFTED, 0.9 * len(wrong)):
            starts[f"{shift:+d} throughout"] = moved
    found: dict[tuple[str, AnswerSpan], AnswerSpan] = {}
    fits = {
        unit: [i for i, pair in enumerate(wrong) if _is_at(*pair, each[i])]
        for unit, each in starts.items()
    }
    for unit in sorted(fits, key=lambda unit: -len(fits[unit])):
        left = [i for i in fits[unit] if (wrong[i][0].context, wrong[i][1]) not in found]
        for i in left:
            example, answer = wrong[i]
            found[example.context, answer] = AnswerSpan(answer.text, starts[unit][i])
        if left:
            logging.warning(
                "%s: the starts of %s of %d count %s; they are corrected.",
                *(path, counted(len(left), "answer"), len(answers), unit),
            )
    return [
        dataclasses.replace(e, answers=tuple(found.get((e.context, a), a) for a in e.answers))
        if found and e.answers
        else e
        for e in examples
    ]


def _is_at(example: SpanExample, answer: AnswerSpan, start: int) -> bool:
    return start >= 0 and example.context.startswith(answer.text, start)
