"""Rows of text files without columns: labels in a file of their own, or before each text."""

import itertools
import re
from collections.abc import Iterator

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.labelled.table_rows import TableRow
from pipelines.labelled.text_lines import ending, read_lines

TEXTS = "_text.txt"  # the end of the name of a file of texts, as in TweetEval (2020)
_LABELS = "_labels.txt"
# A label, its subdivision and a text, as in TREC's questions (Li and Roth 2002).
_QUESTION = re.compile(r"([A-Z]+):([a-z]+) +(\S.*)")
_HEAD = 1001  # lines that decide whether a file has questions


def labels_of(path: str) -> str | None:
    """Returns the file of labels next to a file of texts, or None."""
    labels = path.removesuffix(TEXTS) + _LABELS
    return labels if path.endswith(TEXTS) and files.gfile.exists(labels) else None


def read_both(path: str, labels: str, encoding: str) -> Iterator[TableRow]:
    """Yields the lines of a file of texts with those of the file of their labels.

    Raises:
      InputError: the files have different numbers of lines.
    """
    both = itertools.zip_longest(read_lines(path, encoding), read_lines(labels, encoding))
    for number, (text, label) in enumerate(both, 1):
        if text is None or label is None:
            rest = 1 + sum(1 for _ in both)
            counts = {path: number - 1, labels: number - 1}
            counts[labels if text is None else path] += rest
            raise InputError(
                f"{path}: has {counted(counts[path], 'line')}, but {labels} has "
                f"{counts[labels]:,}; each text needs a label in the same line."
            )
        values = {"text": text.strip("\r\n"), "label": label.strip()}
        yield TableRow(values, f"{path}: line {number}", format=f"texts, with labels in {labels}")


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
    for number, line in enumerate(read_lines(path, encoding), 1):
        if not line.strip():
            continue
        match = _QUESTION.fullmatch(line.strip())
        if match is None:
            raise InputError(
                f"{path}: line {number}: is not LABEL:detail and a text, as the lines before; "
                "write it so, or convert the file to .tsv."
            )
        coarse, detail, text = match.groups()
        values = {"label": coarse, "fine_label": f"{coarse}:{detail}", "text": text}
        yield TableRow(values, f"{path}: line {number}", format="lines of LABEL:detail and a text")
