"""Rows of TSV, CSV and JSON Lines files, each with its place."""

import csv
import io
import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.common import files, json_files, texts
from pipelines.common.errors import InputError

_HEAD = 1001  # lines of a table that decide whether the first one is a header
_MAX_LINE = 1 << 28  # bytes; a gzipped file of a few kilobytes can contain more
_MAX_FIELDS = 5  # in messages


class TableRow(NamedTuple):
    """The values of a row by column name, and the place of the row.

    `cells` has all values of a table's row, including those of columns without a name.
    """

    values: Mapping[str, Any]
    place: str
    cells: Sequence[str] = ()

    def get(self, column: str) -> Any:
        """Returns the value of a column.

        A column is named by name, number from 1, path in JSON objects, or several joined by "+".

        Raises:
          InputError: the row has no such column.
        """
        if column in self.values:
            return self.values[column]
        if "+" in column:
            parts = (self.text(part) for part in column.split("+"))
            return " ".join(part for part in parts if part)
        number = whole_number(column)
        if number is not None and 1 <= number <= len(self.cells):
            return self.cells[number - 1]
        value: Any = self.values
        for key in column.split("."):
            items = value if isinstance(value, list) and value else [value]
            if not all(isinstance(item, Mapping) and key in item for item in items):
                raise InputError(
                    f"{self.place}: has no column {column!r}; it has {', '.join(self.names())}."
                )
            fields = [item[key] for item in items]
            value = fields if isinstance(value, list) else fields[0]
        return value

    def names(self) -> list[str]:
        """Returns the names of all columns; for objects in JSON, the paths of their fields."""
        return [path for name, value in self.values.items() for path in _paths(name, value)]

    def has(self, column: str) -> bool:
        """Returns whether there is such a column."""
        try:
            self.get(column)
        except InputError:
            return False
        return True

    def text(self, column: str) -> str:
        """Returns the text of a column without surrounding white space; raises InputError."""
        return self.verbatim(column).strip()

    def verbatim(self, column: str) -> str:
        """Returns the text of a column unchanged; raises InputError if it is not a text."""
        return _as_text(self.get(column), self.place, column)

    def texts(self, column: str) -> tuple[str, ...]:
        """Returns the texts of a column with one or a list; raises InputError for others."""
        value = self.get(column)
        if not isinstance(value, list):
            return (self.verbatim(column),)
        return tuple(_as_text(item, self.place, f"an item of {column}") for item in value)


def _paths(name: str, value: Any) -> list[str]:
    """Returns the path of a value, or the paths of the fields of an object or list of objects."""
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return [name]
    return [path for key, field in first.items() for path in _paths(f"{name}.{key}", field)]


def shorten(value: object, maximum: int) -> str:
    """Returns a value as a text of limited length, for messages."""
    text = str(value)
    return text if len(text) <= maximum else f"{text[:maximum]}…"


def listed(names: Sequence[str], maximum: int) -> str:
    """Returns the first names, and the number of others, for messages."""
    more = f" and {len(names) - maximum} more" if len(names) > maximum else ""
    return f"{', '.join(names[:maximum])}{more}"


def whole_number(text: str) -> int | None:
    """Returns the number of up to 18 decimal digits, or None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def numbered(names: Iterable[str], stem: str) -> list[str]:
    """Returns the names that consist of a stem (a pattern) and a number, sorted by the number."""
    found = [match for name in names if (match := re.fullmatch(rf"{stem}([0-9]{{1,18}})", name))]
    return [match[0] for match in sorted(found, key=lambda match: int(match[1]))]


def without_empty_end(cells: Sequence[str]) -> tuple[str, ...]:
    """Returns the cells up to the last one that is not empty."""
    return tuple(cells[: max((end for end, cell in enumerate(cells, 1) if cell), default=0)])


def ending(path: str) -> str:
    """Returns the extension of a file name, such as ".csv", also for "A.CSV" and "a.csv.gz"."""
    return os.path.splitext(path.lower().removesuffix(files.GZIP))[1]


def read_text(path: str) -> str:
    """Reads a UTF-8 file, plain or gzipped; an InputError names the line that is not UTF-8."""
    data = files.read_unpacked(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        place = f"{path}: line {line}: byte {error.start}"
        raise InputError(f"{place} is not UTF-8; {texts.TO_UTF8}.") from error
    # Without newlines, lines end with carriage returns, as on old Macs.
    return text if "\n" in text else text.replace("\r", "\n")


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of `read_text` with their ends, one at a time; none may be too long."""
    position = 0
    with files.open_unpacked(path) as file:
        for number, data in enumerate(iter(lambda: file.readline(_MAX_LINE + 1), b""), 1):
            if len(data) > _MAX_LINE:
                raise InputError(
                    f"{path}: line {number}: has more than {_MAX_LINE:,} bytes; break the text "
                    "into lines."
                )
            try:
                line = data.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                place = f"{path}: line {number}: byte {position + error.start}"
                raise InputError(f"{place} is not UTF-8; {texts.TO_UTF8}.") from error
            position += len(data)
            if number == 1 and not line.endswith("\n"):
                # The whole file: without newlines, lines end with carriage returns.
                yield from io.StringIO(line.replace("\r", "\n"), newline="\n")
            else:
                yield line


def read_rows(
    path: str,
    columns: Sequence[str] | None = None,
    skipped: list[str] | None = None,
    is_header: Callable[[list[list[str]]], bool] = lambda lines: True,
) -> Iterator[TableRow]:
    """Yields the rows of a .tsv, .txt (with tabs), .csv, .jsonl or .json file, plain or gzipped.

    Tab-separated files have no quoting, as in GLUE; comma-separated files do. JSON Lines have an
    object per line, or are one list of objects (or an object with such a list, "data"), which is
    read into memory. In a table of one column a blank line is a row, except before the header and
    at the end; in other files blank lines are ignored.

    Args:
      path: the file.
      columns: names of the columns if the file has no header.
      skipped: receives a message for each row with another number of columns, which is left out;
        None: such a row is an error.
      is_header: returns whether the first line is a header, given the cells of the first lines;
        if it is not, the names of the columns are their numbers, from 1.

    Raises:
      InputError: there are no rows, a row has another number of columns or is not JSON, or two
        columns have the same name.
    """
    lines = read_lines(path)
    if ending(path) in (".jsonl", ".json"):
        rows = _json_rows(lines, path)
    else:
        found = _csv_cells(lines, path) if ending(path) == ".csv" else _tsv_cells(lines)
        cells = _without_blank_end(found)
        head = list(itertools.islice(cells, _HEAD))
        there = [values for _, values in head if values != [""]]
        if ending(path) == ".csv" and there and all("\t" in "".join(values) for values in there):
            raise InputError(f"{path}: tabs separate its columns; rename it to .tsv.")
        if columns is None and there and not is_header(there):
            columns = [str(number) for number in range(1, len(there[0]) + 1)]
        rows = _table_rows(itertools.chain(head, cells), path, columns, skipped)
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise InputError(f"{path}: has no rows.")


def first_row(path: str) -> list[str]:
    """Returns the cells of the first non-blank line of a .csv file, or raises InputError."""
    for _, cells in csv_rows(path):
        return cells
    raise InputError(f"{path}: has no rows.")


def csv_rows(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the place and the cells of each non-blank row of a .csv file."""
    for number, cells in _csv_cells(read_lines(path), path):
        if cells:
            yield f"{path}: line {number}", cells


def _without_blank_end(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """Removes blank lines (without cells) at the end; others become rows of one empty cell."""
    blank: list[tuple[int, list[str]]] = []
    for number, cells in rows:
        if cells:
            yield from blank
            blank.clear()
            yield number, cells
        else:
            blank.append((number, [""]))


def _tsv_cells(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\n").rstrip("\r")
        yield number, line.split("\t") if line.strip(" ") else []


def _csv_cells(lines: Iterable[str], path: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(sys.maxsize)
    # Outside quotes, a carriage return alone ends a row, too.
    split = (io.StringIO(line, newline="") if "\r" in line else (line,) for line in lines)
    reader = csv.reader(itertools.chain.from_iterable(split), strict=True)
    end = 0
    try:
        for cells in reader:
            number, end = end + 1, reader.line_num
            yield number, cells
    except csv.Error as error:
        raise InputError(f"{path}: line {end + 1}: {error}; check its quotes.") from error


def _table_rows(
    lines: Iterable[tuple[int, list[str]]],
    path: str,
    columns: Sequence[str] | None,
    skipped: list[str] | None,
) -> Iterator[TableRow]:
    for number, values in lines:
        place = f"{path}: line {number}"
        if columns is None:
            if values == [""]:
                continue
            columns = [value.strip() for value in values]
            if len(columns) == 1 and any(mark in columns[0] for mark in ",;\t"):
                rename = " If commas separate them already, rename it to .csv."
                raise InputError(
                    f"{place}: has one column, {columns[0]!r}; separate the columns with commas in "
                    f"a .csv, with tabs in a .tsv.{rename if ',' in columns[0] else ''}"
                )
            # Several columns may have no name: these cannot be selected.
            twice = next((name for name in columns if name and columns.count(name) > 1), None)
            if twice is not None:
                raise InputError(f"{place}: has two columns {twice!r}; rename or remove one.")
            continue
        if values == [""] and len(columns) > 1:
            continue
        if len(values) != len(columns):
            few = "few" if len(values) < len(columns) else "many"
            message = f"{place}: has too {few} columns: {len(values)}, not {len(columns)}"
            if skipped is None:
                raise InputError(f"{message} ({', '.join(columns)}).")
            skipped.append(message)
            continue
        yield TableRow(dict(zip(columns, values, strict=True)), place, values)


def _as_text(value: Any, place: str, name: str) -> str:
    """Returns a string, number or boolean as a text; raises InputError for other values."""
    if isinstance(value, dict):
        raise InputError(
            f"{place}: {name} is an object; name one of its fields with --columns, such as "
            f"{', '.join(_paths(name, value)[:_MAX_FIELDS])}."
        )
    not_finite = isinstance(value, float) and not math.isfinite(value)
    if not_finite or not isinstance(value, str | int | float):
        raise InputError(f"{place}: {name} is {value!r}, not a text; write a text or a number.")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json_rows(lines: Iterator[str], path: str) -> Iterator[TableRow]:
    head: list[str] = []  # up to the second line that is not blank
    for line in lines:
        head.append(line)
        if sum(not line.isspace() for line in head) == 2:
            break
    first, *more = [line.strip() for line in head if not line.isspace()] or [""]
    whole = itertools.chain(head, lines)
    by_line = not first.startswith("[") and (first[:1] != "{" or first.endswith("}"))
    if by_line and not more and first:
        by_line = not _is_collection(json_files.parse(first, f"{path}: line 1", finite=False))
    values = _json_lines(whole, path) if by_line else _json_items("".join(whole), path)
    for place, value in values:
        if not isinstance(value, dict):
            raise InputError(f"{place}: is not a JSON object.")
        yield TableRow(value, place)


def _is_collection(value: Any) -> bool:
    """Returns whether the only value of a file is an object that holds rows, not a row."""
    if not isinstance(value, dict):
        return False
    firsts = [item[0] if isinstance(item, list) and item else None for item in value.values()]
    nested = all(
        isinstance(item, dict) or isinstance(first, list | dict)
        for item, first in zip(value.values(), firsts, strict=True)
    )
    return isinstance(value.get("data"), list) or (len(value) > 1 and nested)


def _json_items(text: str, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the items of a file that is one list, or an object with such a list, "data"."""
    try:
        value = json_files.parse(text, path, finite=False)
    except InputError as error:
        raise InputError(
            f"{error} Write one object a line (jq -c . FILE), or one list of objects."
        ) from error
    where = f"{path}: "
    if isinstance(value, dict):
        if not isinstance(value.get("data"), list):
            raise InputError(
                f"{path}: is one JSON object ({', '.join(list(value)[:8])}), not rows; write one "
                "object a line, or one list of objects."
            )
        value, where = value["data"], f"{path}: data, "
    yield from ((f"{where}item {number}", item) for number, item in enumerate(value, 1))


def _json_lines(lines: Iterable[str], path: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        yield place, json_files.parse(line, place, finite=False)
