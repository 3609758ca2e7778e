"""Rows of text files without columns: labels in files of their own, or before each text."""

import itertools
import os
import re
from collections.abc import Iterator, Mapping

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.labelled.table_rows import TableRow
from pipelines.labelled.text_lines import ending, read_lines

TEXTS = "_text.txt"  # the end of the name of a file of texts, as in TweetEval (2020)
_LABELS = "_labels.txt"
# The file of texts, and those of their tags and labels, as in SNIPS and ATIS (Goo et al. 2018).
WORDS = "seq.in"
_TAGS, _INTENTS = "seq.out", "label"
# A label, its subdivision and a text, as in TREC's questions (Li and Roth 2002).
_QUESTION = re.compile(r"([A-Z]+):([a-z]+) +(\S.*)")
# Labels and a text, as fastText reads them.
_FAST_TEXT = re.compile(r"((?:__label__\S+\s+)+)(.*)")
_FAST_TEXT_ENDINGS = (".txt", ".train", ".valid", ".test", ".tsv", ".csv")
_HEAD = 1001  # lines that decide whether a file has questions


def labels_of(path: str) -> dict[str, str]:
    """Returns the files of labels and tags next to a file of texts, by the name of their column."""
    folder, name = os.path.split(path)
    if name == WORDS:
        found = {"label": os.path.join(folder, _INTENTS), "tags": os.path.join(folder, _TAGS)}
    elif path.endswith(TEXTS):
        found = {"label": path.removesuffix(TEXTS) + _LABELS}
    else:
        return {}
    return {column: file for column, file in found.items() if files.gfile.exists(file)}


def read_together(path: str, others: Mapping[str, str], encoding: str) -> Iterator[TableRow]:
    """Yields the lines of a file of texts with those of `labels_of`.

    Raises:
      InputError: the files have different numbers of lines.
    """
    form = f"texts, with labels in {' and '.join(others.values())}"
    lines = (read_lines(each, encoding) for each in (path, *others.values()))
    for number, cells in enumerate(itertools.zip_longest(*lines), 1):
        if None in cells:
            count, *counts = (
                sum(1 for _ in read_lines(each, encoding)) for each in (path, *others.values())
            )
            other, wrong = next(
                pair for pair in zip(others.values(), counts, strict=True) if pair[1] != count
            )
            raise InputError(
                f"{path}: has {counted(count, 'line')}, but {other} has {wrong:,}; each text needs "
                "a label in the same line."
            )
        text, *labels = cells
        text = text.strip("\r\n")
        values = {"words" if "tags" in others else "text": text}
        values |= {"text": text, **dict(zip(others, map(str.strip, labels), strict=True))}
        yield TableRow(values, f"{path}: line {number}", format=form)


def is_fast_text(path: str, encoding: str) -> bool:
    """Returns whether the first line of a file has a label of fastText before its text."""
    if ending(path) not in _FAST_TEXT_ENDINGS:
        return False
    first = next((line for line in read_lines(path, encoding) if line.strip()), "")
    return _FAST_TEXT.match(first) is not None


def read_fast_text(path: str, encoding: str) -> Iterator[TableRow]:
    """Yields the lines with their label, a list if there are several, and their text.

    Raises:
      InputError: a line has no label.
    """
    wrong = (
        "does not begin with __label__, as the lines before; write __label__NAME before its text."
    )
    for place, match in _matches(path, encoding, _FAST_TEXT, wrong):
        labels = [label.removeprefix("__label__") for label in match[1].split()]
        values = {"text": match[2], "label": labels if len(labels) > 1 else labels[0]}
        yield TableRow(values, place, format="lines of __label__NAME and a text")


def _matches(
    path: str, encoding: str, form: re.Pattern[str], wrong: str
) -> Iterator[tuple[str, re.Match[str]]]:
    """Yields the place and the match of each line that is not blank.

    Raises:
      InputError: a line has another form, for the reason `wrong`.
    """
    for number, line in enumerate(read_lines(path, encoding), 1):
        if line.strip():
            place = f"{path}: line {number}"
            match = form.fullmatch(line.strip())
            if match is None:
                raise InputError(f"{place}: {wrong}")
            yield place, match


def has_questions(path: str, encoding: str) -> bool:
    """Returns whether the first lines of a file are labels and questions as in TREC."""
    if ending(path) not in (".txt", ".label"):
        return False
    head = list(itertools.islice(read_lines(path, encoding), _HEAD))
    lines = [line.strip() for line in head if line.strip()]
    return bool(lines) and all(map(_QUESTION.fullmatch, lines))


def read_questions(path: str, encoding: str) -> Iterator[TableRow]:
    """Yields the lines with their coarse label, their fine one ("ENTY:animal") and their text.

    Raises:
      InputError: a line has another form.
    """
    wrong = (
        "is not LABEL:detail and a text, as the lines before; write it so, or convert the file to "
        ".tsv."
    )
    for place, match in _matches(path, encoding, _QUESTION, wrong):
        coarse, detail, text = match.groups()
        values = {"label": coarse, "fine_label": f"{coarse}:{detail}", "text": text}
        yield TableRow(values, place, format="lines of LABEL:detail and a text")
