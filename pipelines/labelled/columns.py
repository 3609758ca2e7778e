"""Which column of a table means what: by its usual name, or as the user says.

A column is named as the header has it, by its number counted from 1, as the path within a nested
JSON object (labels.label), or as several, joined by spaces (title+text, 2+3).
"""

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

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
_NUMBER = re.compile(r"[-+]?[0-9]+([.,;|][0-9]+)*")  # or several
_MOST_WORDS = 4  # of a column's name
_LONGEST_NAME = 60  # characters of a column's name
_SAMPLE = 30  # characters of a cell, in messages
_SHOWN = 8  # columns that are not read, in messages
_ONE_HOT = 3  # columns of 0 and 1 that look like labels


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
        self.usual = usual or {}
        self.header = header
        self._headers: dict[str, bool] = {}  # by path: a file may be read more than once
        self._logged: set[str] = set()

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
        if self.header is not None:
            return self.header
        first, *rest = lines
        names = {name.strip() for name in first}
        asked = [*self.chosen.values(), *self.usual.values()]
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

    def find(self, role: str, row: tables.Row) -> str | None:
        """The column of a role in a row; None if there is none.

        Raises:
          InputError: the column that the user chose is not there.
        """
        if role in self.chosen:
            row.get(self.chosen[role])
            return self.chosen[role]
        wanted = _USUAL[role]
        # A column that the user named as the label is not a text, whatever its name.
        free = tuple(name for name in row.values if name not in self.chosen.values())
        if role in self.usual:
            if "+" in self.usual[role] or "." in self.usual[role]:
                return self.usual[role] if row.has(self.usual[role]) else None
            wanted = (self.usual[role], *wanted)
        if role == "text" and tuple(row.values) == ("1",):
            return "1"  # a file of texts without a header
        return _first(wanted, free)

    def need(self, role: str, row: tables.Row) -> str:
        """As `find`; an error where there is none."""
        found = self.find(role, row)
        if found is None:
            self.check_found({role: None}, row)
        assert found is not None
        return found

    def find_only(self, role: str, row: tables.Row) -> str | None:
        """As `find`, of a role that several columns may be meant for.

        Raises:
          InputError: several have usual names, and the user chose none.
        """
        names = [name for name in row.values if name.lower() in _USUAL[role]]
        if role in self.chosen or role in self.usual or len(names) < 2:
            return self.find(role, row)
        answers = [*names, "+".join(names)] if role == "context" else names
        raise InputError(
            f"{row.place}: which column is meant for {role}? Name one with "
            f"{' or '.join(f'--columns={role}={name}' for name in answers)}."
        )

    def check_found(self, roles: Mapping[str, str | None], row: tables.Row) -> None:
        """Checks that all roles have a column.

        Args:
          roles: columns by role; None where none was found.
          row: the first one of the file.

        Raises:
          InputError: some have none; all of them are named, and what can be done.
        """
        missing = [role for role, column in roles.items() if column is None]
        if not missing:
            return
        listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        pronoun = "it" if len(missing) == 1 else "them"
        if len(row.cells) == 1 and _is_numbered(row):
            raise InputError(
                f"{row.place}: has one column, {_sample(row.cells[0])}, so none for {listed}; put "
                "tabs between the columns of a .tsv, commas between those of a .csv (a file of "
                "labels and one of texts: paste LABELS TEXTS > NEW.tsv)."
            )
        one_hot = [name for name, value in row.values.items() if str(value) in ("0", "1")]
        hint = ""
        if "label" in missing and len(one_hot) >= _ONE_HOT:
            hint = (
                f" Are {one_hot[-2]}, {one_hot[-1]} and others labels? A text has one label: write "
                "it in one column, or name one of these, to learn whether it is there."
            )
        if _is_numbered(row):
            cells = ", ".join(f"{n} ({_sample(value)})" for n, value in row.values.items())
            message = (
                f"which column{' is the' if len(missing) == 1 else 's are'} {listed}? There is no "
                f"header; the columns are {cells}. Name {pronoun} with {_flag(missing, 'NUMBER')}."
                f"{hint}"
            )
        else:
            header = " If the first line is data, give --no_header." if row.cells else ""
            message = (
                f"has no column for {listed}; it has {', '.join(row.names())}. Name {pronoun} with "
                f"{_flag(missing, 'NAME')}.{header}{hint}"
            )
        raise InputError(f"{row.place}: {message}")

    def report(self, path: str, row: tables.Row, roles: Mapping[str, str | None]) -> None:
        """Logs, once for a file, which columns were taken for what, with the first row.

        Args:
          path: the file.
          row: its first one.
          roles: columns by role; None where a role has none.
        """
        used = {role: column for role, column in roles.items() if column is not None}
        parts = {part for column in used.values() for part in (column, *column.split("+"))}
        parts.add(self.find("id", row) or "")
        rest = [name for name in row.values if name and not _is_part(name, parts)]
        kinds = {".csv": "comma-separated", ".jsonl": "JSON", ".json": "JSON"}
        kind = kinds.get(tables.ending(path), "tab-separated")
        kind += ", no header" if _is_numbered(row) else ""
        not_read = f"; not read: {_listed(rest)}" if rest else ""
        values = ", ".join(
            f"{role} {_sample(row.get(name))}" for role, name in used.items() if row.has(name)
        )
        self.log_once(
            path,
            f"{kind}; {', '.join(f'{role} = {_named(name)}' for role, name in used.items())}"
            f"{not_read}; first row: {values}",
        )

    def log_once(self, path: str, message: str) -> None:
        """Logs how a file is read, but once: it may be read more than once."""
        if path not in self._logged:
            self._logged.add(path)
            logging.info("%s: %s", path, message)

    def is_pair(self, row: tables.Row) -> bool:
        """Whether a row has two texts.

        A question with a sentence or an answer is none if there is a text besides.
        """
        first, second = self.find("text_a", row), self.find("text_b", row)
        named = {*self.chosen, *(role for role, name in self.usual.items() if row.has(name))}
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
        if len(cell) > _LONGEST_NAME or len(cell.split()) > _MOST_WORDS:
            return f"{_sample(cell)} is too long for a name"
        if cell and any(number < len(cells) and cells[number].strip() == cell for cells in rest):
            return f"{_sample(cell)} stands in other lines of its column too"
    return None


def _is_numbered(row: tables.Row) -> bool:
    """Whether the columns have no names."""
    return tuple(row.values) == tuple(map(str, range(1, len(row.values) + 1)))


def _is_part(name: str, parts: Collection[str]) -> bool:
    """Whether a column is read: it is one of these, or has the field of one."""
    return name in parts or any(part.startswith(f"{name}.") for part in parts)


def _flag(roles: Sequence[str], value: str) -> str:
    """The flag that names the columns of roles, and how make is given it."""
    flag = f"--columns={','.join(f'{role}={value}' for role in roles)}"
    return f"{flag} (with make: TUNE_FLAGS={flag})"


def _named(column: str) -> str:
    return f"column {column}" if column.replace("+", "").isdecimal() else column


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _sample(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= _SAMPLE else f"{text[:_SAMPLE]}…")


@functools.lru_cache
def _first(wanted: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """The first of the wanted ones among names as they are, else as they are without capitals."""
    folded = {name.lower(): name for name in names}
    as_written = (name for name in wanted if name in names)
    return next(as_written, None) or next((folded[n] for n in wanted if n in folded), None)
