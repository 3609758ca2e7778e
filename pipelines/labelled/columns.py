"""Which column of a table means what: by its usual name, or as the user says.

A column is named as the header has it, by its number counted from 1, as the path within a nested
JSON object (labels.label), or as several, joined by spaces (title+text, 2+3).
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence

from absl import logging

from pipelines.common.errors import InputError
from pipelines.labelled import tables

# Names that columns usually have, by role.
_USUAL = {
    "id": ("id", "guid", "key", "index", "idx"),
    "text": ("text", "sentence", "document", "review", "content", "comment"),
    "text_a": ("text_a", "sentence1", "sentence_a", "question1", "premise", "question", "query"),
    "text_b": (
        "text_b",
        "sentence2",
        "sentence_b",
        "question2",
        "hypothesis",
        "sentence",
        "answer",
    ),
    "label": ("label", "score", "class", "category", "target", "gold_label"),
    "words": ("words", "tokens"),
    "tags": ("tags", "labels", "ner_tags", "pos_tags", "upos"),
    "question": ("question", "query"),
    "context": ("context", "passage", "paragraph", "question", "premise"),
    "answer": ("answer", "answer_text", "answers"),
    "answer_start": ("answer_start", "start"),
    "choices": ("choices", "options", "endings"),
}
ROLES = tuple(_USUAL)
# What a role may be called besides.
ALIASES = {
    "sentence": "text",
    "sentence1": "text_a",
    "sentence2": "text_b",
    "premise": "text_a",
    "hypothesis": "text_b",
}
_TEXTS = ("text_a", "text_b")
_QUESTIONS = ("question", "query")
# Headers that tell a table's columns, beside the names above.
_CHOICE = re.compile(r"(choice|option|ending)_?[0-9]+|sent[12]")
_HEADERS = frozenset(name for names in _USUAL.values() for name in names)
_NUMBER = re.compile(r"[-+]?[0-9]+([.,][0-9]+)?")
_LONGEST_NAME = 60  # characters of a column's name
_SAMPLE = 30  # characters of a cell, in messages


class ColumnNames:
    """Finds the columns of roles.

    Args:
      chosen: names of columns by role, or by an alias of it, where the user gave them.
      usual: names to look for first where the user gave none.
      header: whether the first line of a table names the columns; None: as it looks.

    Raises:
      InputError: there is no such role.
    """

    def __init__(
        self,
        chosen: Mapping[str, str],
        usual: Mapping[str, str] | None = None,
        header: bool | None = None,
    ):
        self.chosen = {ALIASES.get(role, role): name for role, name in chosen.items()}
        unknown = sorted(self.chosen.keys() - set(ROLES))
        if unknown:
            raise InputError(
                f"--columns: {unknown[0]!r} is no role of a column; roles are "
                f"{', '.join((*ROLES, *ALIASES))}."
            )
        self._usual = usual or {}
        self._header = header
        self._headers: dict[str, bool] = {}  # by path: a file may be read more than once

    def rows(self, path: str) -> list[tables.Row]:
        """The rows of a file; see `tables.read_rows`."""
        return list(self.iterate(path))

    def iterate(self, path: str) -> Iterator[tables.Row]:
        """Yields the rows of a file; see `tables.iterate_rows`."""

        def is_header(lines: Sequence[Sequence[str]]) -> bool:
            if path not in self._headers:
                self._headers[path] = self._is_header(path, lines)
            return self._headers[path]

        return tables.iterate_rows(path, is_header=is_header)

    def _is_header(self, path: str, lines: Sequence[Sequence[str]]) -> bool:
        """Whether the first of these lines names the columns; says so where it does not."""
        if self._header is not None:
            return self._header
        first, *rest = lines
        names = {name.strip() for name in first}
        asked = [*self.chosen.values(), *self._usual.values()]
        # A number that the user gives is rather a column's place than its name.
        parts = {p for name in asked for p in (name, *name.split("+")) if not p.isdecimal()}
        usual = [name for name in names if name.lower() in _HEADERS or _CHOICE.match(name.lower())]
        if usual or not names.isdisjoint(parts):
            return True
        if asked and all(re.fullmatch(r"[0-9+]+", name) for name in asked):
            reason: str | None = "columns are named by number"
        else:
            reason = _why_data(first, rest)
        if reason:
            logging.info(
                "%s: the first line is data and no header (%s); else give --header.", path, reason
            )
        return not reason

    def numbers(self) -> dict[str, str]:
        """The columns of a file whose columns have no names, by role, as far as they are named."""
        known = {role: name for role, name in self._usual.items() if name.isdecimal()}
        return known | self.chosen

    def find(self, role: str, row: tables.Row) -> str | None:
        """The column of a role in a row; None if there is none.

        Raises:
          InputError: the column that the user chose is not there.
        """
        if role in self.chosen:
            row.get(self.chosen[role])
            return self.chosen[role]
        wanted = _USUAL[role]
        if role in self._usual:
            if "+" in self._usual[role] or "." in self._usual[role]:
                return self._usual[role] if row.has(self._usual[role]) else None
            wanted = (self._usual[role], *wanted)
        if role == "text" and tuple(row.values) == ("1",):
            return "1"  # a file of texts without a header
        return _first(wanted, tuple(row.values))

    def need(self, role: str, row: tables.Row) -> str:
        """As `find`; an error where there is none."""
        found = self.find(role, row)
        if found is None:
            raise InputError(f"{row.place}: {self._missing(role, row)}")
        return found

    def _missing(self, role: str, row: tables.Row) -> str:
        """That a row has no column for a role, and what can be done."""
        name = f"(with make: TUNE_FLAGS=--columns={role}=%s)"
        if tuple(row.values) == tuple(map(str, range(1, len(row.values) + 1))):
            cells = ", ".join(f"{n} ({_sample(value)})" for n, value in row.values.items())
            return (
                f"which column is the {role}? There is no header; the columns are {cells}. Name "
                f"it with --columns={role}=NUMBER {name % 'NUMBER'}."
            )
        hint = " If the first line is data, give --no_header." if row.cells else ""
        return (
            f"has no column for {role}; it has {', '.join(row.values)}. Name it with "
            f"--columns={role}=NAME {name % 'NAME'}.{hint}"
        )

    def is_pair(self, row: tables.Row) -> bool:
        """Whether a row has two texts.

        A question with a sentence or an answer is none if there is a text besides.
        """
        first, second = self.find("text_a", row), self.find("text_b", row)
        named = {*self.chosen, *(role for role, name in self._usual.items() if row.has(name))}
        if "text" in named or first is None or second is None or first == second:
            return False
        if not named.isdisjoint(_TEXTS) or first.lower() not in _QUESTIONS:
            return True
        return self.find("text", row) in (None, first, second)

    def key(self, row: tables.Row, index: int) -> str:
        """The value that names an example: that of an id column, or its number."""
        found = self.find("id", row)
        return row.text(found) if found else str(index)


def _why_data(first: Sequence[str], rest: Sequence[Sequence[str]]) -> str | None:
    """Why a first line cannot be a header; None if it can."""
    for number, cell in enumerate(map(str.strip, first)):
        if _NUMBER.fullmatch(cell):
            return f"{cell!r} is a number"
        if len(cell) > _LONGEST_NAME:
            return f"{_sample(cell)} is too long for a name"
        if cell and any(number < len(cells) and cells[number].strip() == cell for cells in rest):
            return f"{_sample(cell)} stands in other lines of its column too"
    return None


def _sample(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= _SAMPLE else f"{text[:_SAMPLE]}…")


@functools.lru_cache
def _first(wanted: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """The first of the wanted ones among names as they are, else as they are without capitals."""
    folded = {name.lower(): name for name in names}
    as_written = (name for name in wanted if name in names)
    return next(as_written, None) or next((folded[n] for n in wanted if n in folded), None)
