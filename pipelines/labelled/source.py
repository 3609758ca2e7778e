"""A file with labels or texts, and how it is read: its encoding, header and columns.

A column is named by its name in the header, its number from 1, its path in a nested JSON object
(labels.label), or as several columns, joined by spaces (title+text, 2+3).
"""

import dataclasses
import functools
import re
from collections.abc import Collection, Mapping, Sequence

from absl import logging

from pipelines.common.errors import InputError
from pipelines.common.texts import UTF8, listed, shorten
from pipelines.labelled.columns import ALIASES, CHOICE, HEADERS, INDICATORS, ROLES, USUAL
from pipelines.labelled.table_rows import TableRow
from pipelines.labelled.text_lines import check_encoding, ending

_TEXTS = ("text_a", "text_b")
_TRUTHS = {"label", "labels", "tags", "entities", "answer", "answer_start", "target"}
_QUESTIONS = ("question", "query")
_NUMBERS = re.compile(r"[-+]?[0-9]+([.,;|][0-9]+)*")
_MAX_NAME_WORDS, _MAX_NAME_CHARACTERS = 4, 60  # in the name of a column
_MIN_LINES, _USUAL_FRACTION, _MIN_WORDS = 10, 0.95, 3  # of texts below the name of their column
_MAX_SAMPLE = 30  # characters of a cell, in messages
_MAX_SHOWN = 8  # unread columns, in messages
_MIN_INDICATORS = 3  # columns of 0 and 1 that look like labels


@dataclasses.dataclass(frozen=True)
class Source:
    """A file and how it is read.

    Attributes:
      path: the file, plain or compressed; data.json#train is a list of the object in it.
      columns: names of columns by role (or another name of it), chosen by the user.
      header: whether the first line of a table names the columns; None: it is detected.
      encoding: the encoding of the file.
      usual: names to look for first if the user chose none.
      part: the split whose rows are read, if a column names the split of each.
      label_names: names of labels that are places in vectors of 0 and 1.
      label_form: how labels are written in the training data; "": the file decides.
      shared: whether some of the roles are for other files.
      has_quotes: whether the cells of a .tsv may be in quotes.

    Raises:
      InputError: a role or the encoding is unknown.
    """

    path: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    header: bool | None = None
    encoding: str = UTF8
    usual: Mapping[str, str] = dataclasses.field(default_factory=dict, kw_only=True)
    part: str | None = dataclasses.field(default=None, kw_only=True)
    label_names: Sequence[str] = dataclasses.field(default=(), kw_only=True)
    label_form: str = dataclasses.field(default="", kw_only=True)
    shared: bool = dataclasses.field(default=False, kw_only=True)
    has_quotes: bool = dataclasses.field(default=True, kw_only=True)
    _logged: set[str] = dataclasses.field(
        default_factory=set, kw_only=True, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        unknown = sorted(self.chosen.keys() - set(ROLES))
        if unknown:
            raise InputError(
                f"--columns: {unknown[0]!r} is not a role of a column; roles are "
                f"{', '.join((*ROLES, *ALIASES))}."
            )
        check_encoding(self.encoding)

    @functools.cached_property
    def chosen(self) -> dict[str, str]:
        """The names of columns that the user chose, by role."""
        return {ALIASES.get(role, role): name for role, name in self.columns.items()}

    @property
    def _asked(self) -> list[str]:
        """The columns that were named."""
        return [*self.chosen.values(), *self.usual.values()]

    def has_known(self, cells: Sequence[str]) -> bool:
        """Whether cells are names of columns, or those that the user numbered exist."""
        numbers = [n for name in self.chosen.values() for n in name.split("+") if n.isdecimal()]
        return self.has_names(cells) or any(1 < int(n) <= len(cells) for n in numbers)

    def has_names(self, cells: Sequence[str]) -> bool:
        """Whether one of the cells is the name of a column, a usual one or as the user gave it."""
        return bool(self._names_in(cells))

    def _names_in(self, cells: Sequence[str]) -> list[str]:
        """Returns the cells that are usual names of columns, or names that the user gave."""
        # A number that the user gives is the position of a column, not its name.
        parts = {p for name in self._asked for p in (name, *name.split("+")) if not p.isdecimal()}
        return [
            name
            for name in map(str.strip, cells)
            if name in parts or name.lower() in HEADERS or CHOICE.fullmatch(name.lower())
        ]

    def is_header(self, lines: Sequence[Sequence[str]]) -> bool:
        """Whether the first line names the columns; logs why it does not."""
        if self.header is not None:
            return self.header
        first, *rest = lines
        names, asked = self._names_in(first), self._asked
        by_number = bool(asked) and all(re.fullmatch(r"[0-9+]+", name) for name in asked)
        # A single one, such as "positive", may be a label.
        is_single = len(names) == 1 and not _repeated(first, rest)
        if len(names) > 1 or (is_single and not (by_number and len(first) > 1)):
            if by_number:
                message = f"it has {', '.join(names)}; otherwise use --no_header."
                self.log_once(f"the first line is a header: {message}", "header")
            return True
        if (name := _unlike(first, rest)) is not None:
            message = f"{name!r} is unlike the rest of its column; otherwise use --no_header."
            self.log_once(f"the first line is a header: {message}", "header")
            return True
        if by_number:
            reason: str | None = "columns are named by number"
        elif not asked and len(first) == 1 and ending(self.path) == ".txt":
            reason = "a .txt of one column has a text in each line"
        else:
            reason = _why_data(first, rest)
        if reason:
            message = f"the first line is data and not a header ({reason}); otherwise use --header."
            self.log_once(message, "header")
        return not reason

    def find(self, role: str, row: TableRow, more: tuple[str, ...] = ()) -> str | None:
        """Returns the column of a role, or None; raises InputError if a chosen one is missing.

        Args:
          role: the role.
          row: the first row.
          more: further usual names of it.
        """
        if role in self.chosen:
            row.get(self.chosen[role])
            return self.chosen[role]
        wanted = (*USUAL[role], *more)
        # A column that the user named for another role is not a candidate.
        taken = {part for name in self.chosen.values() for part in (name, *name.split("+"))}
        free = tuple(name for name in row.values if name not in taken)
        if role in self.usual:
            if "+" in self.usual[role] or "." in self.usual[role]:
                return self.usual[role] if row.has(self.usual[role]) else None
            wanted = (self.usual[role], *wanted)
        if role == "text" and tuple(row.values) == ("1",):
            return "1"  # a file of texts without a header
        return _first(wanted, free)

    def need(self, role: str, row: TableRow) -> str:
        """Returns the column of a role; raises InputError if there is none."""
        found = self.find(role, row)
        if found is None:
            self.check_found({role: None}, row)
        assert found is not None
        return found

    def indicators(self, row: TableRow, others: Collection[str | None]) -> list[str]:
        """Returns the columns that are labels: those chosen, or those of 0 and 1 in a row.

        Args:
          row: the first row.
          others: columns that have another role.
        """
        named = self.chosen.get("labels") or self.usual.get("labels", "")
        if "+" in named and row.has(named):
            return named.split("+")
        found = [
            name
            for name, value in row.values.items()
            if name not in others and str(value).strip().lower() in INDICATORS
        ]
        return found if len(found) >= _MIN_INDICATORS else []

    def find_only(self, role: str, row: TableRow) -> str | None:
        """Returns the column of a role; raises InputError if several have usual names of it."""
        names = [name for name in row.values if name.lower() in USUAL[role]]
        if role in self.chosen or role in self.usual or len(names) < 2:
            return self.find(role, row)
        raise InputError(
            f"{row.place}: which column is meant for {role}? Name one with "
            f"{' or '.join(f'--columns={role}={name}' for name in names)}."
        )

    def check_found(self, roles: Mapping[str, str | None], row: TableRow) -> None:
        """Raises InputError if a role has no column; names all missing ones and the remedy."""
        missing = [role for role, column in roles.items() if column is None]
        if not missing:
            return
        listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        pronoun = "it" if len(missing) == 1 else "them"
        if len(row.cells) == 1 and _is_numbered(row):
            raise InputError(
                f"{row.place}: has one column, {_sample(row.cells[0])}, and none for {listed}; put "
                "tabs between the columns of a .tsv, commas between those of a .csv (a file of "
                "labels and one of texts: paste LABELS TEXTS > NEW.tsv)."
            )
        one_hot = self.indicators(row, ()) if "label" in missing else []
        hint = ""
        if one_hot:
            hint = (
                f" Are {one_hot[-2]}, {one_hot[-1]} and others labels, of which a text may have "
                "several? Then give --task=multilabel."
            )
        if _is_numbered(row):
            cells = ", ".join(f"{n} ({_sample(value)})" for n, value in row.values.items())
            message = (
                f"which column{' is the' if len(missing) == 1 else 's are'} {listed}? There is no "
                f"header; the columns are {cells}. Name {pronoun} with {_flag(missing, 'NUMBER')}, "
                f"or give --header if the first line is one.{hint}"
            )
        else:
            header = " If the first line is data, give --no_header." if row.cells else ""
            message = (
                f"has no column for {listed}; it has {', '.join(row.names())}. Name {pronoun} with "
                f"{_flag(missing, 'NAME')}.{header}{hint}"
            )
        raise InputError(f"{row.place}: {message}")

    def check(self, row: TableRow, roles: Mapping[str, str | None]) -> dict[str, str]:
        """Checks that all roles have a column in a first row (`check_found`), and reports them.

        Raises:
          InputError: some have none, or the user chose columns for other roles.
        """
        self.check_found(roles, row)
        self._check_used(roles)
        self.report(row, roles)
        return {role: column for role, column in roles.items() if column is not None}

    def _check_used(self, roles: Mapping[str, str | None]) -> None:
        allowed = {*roles, "id"}
        if allowed.isdisjoint(_TRUTHS):  # which are not read, perhaps to predict them
            allowed |= _TRUTHS
        for role, column in self.chosen.items():
            if not (self.shared or role in allowed or column in roles.values()):
                raise InputError(
                    f"--columns: {role!r} is not a role of a column here; roles are "
                    f"{', '.join(roles)} and id."
                )

    def report(self, row: TableRow, roles: Mapping[str, str | None]) -> None:
        """Logs, once, which columns are used for which roles, with the first row."""
        used = {role: column for role, column in roles.items() if column is not None}
        parts = {part for column in used.values() for part in (column, *column.split("+"))}
        parts.add(self.find("id", row) or "")
        rest = [
            name
            for number, name in enumerate(row.values, 1)
            if name and not _is_part(name, parts) and str(number) not in parts
        ]
        kind = row.format + (", no header" if _is_numbered(row) else "")
        not_read = f"; not read: {listed(rest, _MAX_SHOWN)}" if rest else ""
        values = ", ".join(
            f"{role} {_sample(row.get(name))}" for role, name in used.items() if row.has(name)
        )
        read = (
            f"{role} = {'column ' * name.replace('+', '').isdecimal()}{name}"
            for role, name in used.items()
        )
        self.log_once(f"{kind}; {', '.join(read)}{not_read}; first row: {values}")

    def log_once(self, message: str, topic: str = "columns") -> None:
        """Logs how the file is read, once per topic even if it is read several times."""
        if topic not in self._logged:
            self._logged.add(topic)
            logging.info("%s: %s", self.path, message)

    def is_pair(self, row: TableRow) -> bool:
        """Whether a row has two texts; a question and an answer are not, next to a text."""
        first, second = self.find("text_a", row), self.find("text_b", row)
        named = {*self.chosen, *(role for role, name in self.usual.items() if row.has(name))}
        if "text" in named or first is None or second is None or first == second:
            return False
        if not named.isdisjoint(_TEXTS) or first.lower() not in _QUESTIONS:
            return True
        return self.find("text", row) in (None, first, second)

    def key(self, row: TableRow, index: int) -> str:
        """Returns the identifier of an example: the value of an id column, or its number."""
        found = self.find("id", row)
        return row.text(found) if found else str(index)


def _repeated(first: Sequence[str], rest: Sequence[Sequence[str]]) -> str | None:
    """Returns a cell of a first line that occurs in other lines of its column, too."""
    for number, cell in enumerate(map(str.strip, first)):
        if cell and any(number < len(cells) and cells[number].strip() == cell for cells in rest):
            return cell
    return None


def _why_data(first: Sequence[str], rest: Sequence[Sequence[str]]) -> str | None:
    """Returns why a first line cannot be a header, or None if it can."""
    for cell in map(str.strip, first):
        if _NUMBERS.fullmatch(cell):
            return f"{cell!r} is a number"
        if len(cell) > _MAX_NAME_CHARACTERS or len(cell.split()) > _MAX_NAME_WORDS:
            return f"{_sample(cell)} is too long for a name"
    repeated = _repeated(first, rest)
    return f"{_sample(repeated)} occurs in other lines of its column, too" if repeated else None


def _unlike(first: Sequence[str], rest: Sequence[Sequence[str]]) -> str | None:
    """Returns a word of a first line below which almost all lines have texts, or all numbers."""
    for number, name in enumerate(map(str.strip, first)):
        below = [cells[number].strip() for cells in rest if number < len(cells)]
        if len(below) < _MIN_LINES or not re.fullmatch(r"[^\W\d]\w*", name):
            continue
        texts = sum(len(cell.split()) >= _MIN_WORDS for cell in below)
        if texts >= _USUAL_FRACTION * len(below) or all(map(_NUMBERS.fullmatch, below)):
            return name
    return None


def _is_numbered(row: TableRow) -> bool:
    """Whether the columns have no names."""
    return tuple(row.values) == tuple(map(str, range(1, len(row.values) + 1)))


def _is_part(name: str, parts: Collection[str]) -> bool:
    """Whether a column, or a field of it, is read."""
    return name in parts or any(part.startswith(f"{name}.") for part in parts)


def _flag(roles: Sequence[str], value: str) -> str:
    """Returns the flag that names the columns of roles, also for make."""
    flag = f"--columns={','.join(f'{role}={value}' for role in roles)}"
    return f"{flag} (with make: ARGS={flag})"


def _sample(value: object) -> str:
    return repr(shorten(value, _MAX_SAMPLE))


@functools.lru_cache
def _first(wanted: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """Returns the first wanted name among the names, by exact match, else ignoring case."""
    folded = {name.lower(): name for name in names}
    as_written = (name for name in wanted if name in names)
    return next(as_written, None) or next((folded[n] for n in wanted if n in folded), None)
