"""Rows of cells: of TSV and CSV files, and of spreadsheets."""

import collections
import csv
import io
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pipelines.common.errors import InputError
from pipelines.labelled.source import Source
from pipelines.labelled.table_rows import TableRow
from pipelines.labelled.text_lines import ending, read_lines

_SAMPLE = 20  # lines that the delimiter is found in
_HEAD = 1001  # lines of a table that decide whether the first one is a header
# Delimiters, and the formats that they make.
_NAMES = {
    "\t": "tab-separated",
    ",": "comma-separated",
    ";": "semicolon-separated",
    "|": "separated by |",
}
_QUOTED = "tab-separated, with quotes"
_CELL = re.compile(r'("(?:[^"]|"")*"|[^\t"]*)\t')
_NUMBER = re.compile(r"[-+]?[0-9.]*(e[-+]?[0-9]+)?")  # or nothing
_MAX_RECORD = 1 << 20  # characters of a row with line breaks within quotes


def read(
    source: Source, columns: Sequence[str] | None, skipped: list[str] | None
) -> Iterator[TableRow]:
    """Yields the rows of a .tsv or .csv file; see `tables.read_rows`."""
    path, encoding = source.path, source.encoding
    lines = read_lines(path, encoding)
    head = list(itertools.islice(lines, _SAMPLE))
    mark = _delimiter(head, source)
    lines = itertools.chain(head, lines)
    name = _NAMES[mark]
    if mark == "\t" and source.has_quotes and _is_quoted(path, encoding):
        name = _QUOTED
    cells = _tsv_cells(lines) if name == _NAMES["\t"] else _csv_cells(lines, path, mark)
    return from_cells(cells, source, columns, skipped, name)


def from_cells(
    cells: Iterator[tuple[int, list[str]]],
    source: Source,
    columns: Sequence[str] | None,
    skipped: list[str] | None,
    name: str,
) -> Iterator[TableRow]:
    """Yields the rows of a table, given the number and the cells of each; a blank one has none.

    Args:
      cells: the numbers and cells.
      source: the file.
      columns: as in `tables.read_rows`.
      skipped: as there.
      name: the format of the file, for messages.
    """
    cells = _without_blank_end(cells)
    head = list(itertools.islice(cells, _HEAD))
    there = [values for _, values in head if values != [""]]
    if name == _NAMES[","] and there and all("\t" in "".join(values) for values in there):
        raise InputError(f"{source.path}: tabs separate its columns; rename it to .tsv.")
    if columns is None and there and not source.is_header(there):
        columns = [str(number) for number in range(1, len(there[0]) + 1)]
    return _table_rows(itertools.chain(head, cells), source.path, columns, skipped, name)


def csv_rows(path: str, encoding: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the place and the cells of each non-blank row of a .csv file."""
    for number, cells in _csv_cells(read_lines(path, encoding), path):
        if cells:
            yield f"{path}: line {number}", cells


def _delimiter(head: Sequence[str], source: Source) -> str:
    """Returns the usual delimiter, or another that gives known columns, given the first lines.

    Another takes its place if it gives the same number of columns in every line, and some line does
    not have the usual one; or else if the first line does not have it.

    Raises:
      InputError: columns are named by number, and two delimiters give columns of these numbers.
    """
    usual = "," if ending(source.path) == ".csv" else "\t"
    lines = [line for line in head if line.strip()]
    if not lines or (usual == "\t" and usual in lines[0]):
        return usual
    first = {mark: cells for mark in _NAMES if len(cells := _split(lines[0], mark)) > 1}
    known = [mark for mark, cells in first.items() if source.has_known(cells)]
    even = [mark for mark in known if len({len(_split(line, mark)) for line in lines}) == 1]
    named = [mark for mark in even if source.has_names(first[mark])]
    if len(even) > 1 and not named:
        raise InputError(
            f"{source.path}: its first lines could be {' or '.join(_NAMES[m] for m in even)}, both "
            "with the same number of columns in each; write a first line with the names of the "
            "columns, such as text and label."
        )
    if not named and all(usual in line for line in lines):
        return usual
    others = named or even or ([] if usual in first else known)
    return usual if usual in others or not others else others[0]


def _is_quoted(path: str, encoding: str) -> bool:
    """Returns whether the quotes of a tab-separated file enclose cells, as pandas writes them.

    They do if each is at an end of a cell, or doubled within one, and each column is either in
    quotes everywhere but for numbers and the header, or only in cells that need them: for a tab, a
    line break or a quote. In other files, and in pipes, quotes are characters of the texts.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        return False
    try:
        has_quotes = any('"' in line for line in read_lines(path, encoding))
    except InputError:  # which is reported when the lines are read
        return False
    return has_quotes and _have_quotes(read_lines(path, encoding))


def _have_quotes(lines: Iterable[str]) -> bool:
    widths: set[int] = set()
    forms = collections.defaultdict[int, set[str]](set)  # by column
    record, is_open = "", False
    for line in lines:
        record += line
        is_open ^= line.count('"') % 2 == 1
        if is_open:
            if len(record) > _MAX_RECORD:
                return False
            continue
        record = record.rstrip("\r\n")
        cells = _CELL.findall(f"{record}\t") if '"' in record else record.split("\t")
        if len("\t".join(cells)) != len(record):
            return False
        # The first line of a text with line breaks ends within a cell, so it has fewer cells.
        begun = record.partition("\n")[0].count("\t") + 1
        if "\n" in record and (begun in widths or not widths):
            return False
        for column, cell in enumerate(cells):
            if cell.startswith('"'):
                forms[column].add("needed" if re.search(r'[\t\r\n"]', cell[1:-1]) else "unneeded")
            elif widths and not _NUMBER.fullmatch(cell):  # not in the header
                forms[column].add("bare")
        widths.add(len(cells))
        record = ""
    found = [form for form in forms.values() if form != {"bare"}]
    return not is_open and bool(found) and not any(f >= {"bare", "unneeded"} for f in found)


def _split(line: str, mark: str) -> list[str]:
    try:
        return _next_row(csv.reader([line.replace("\r", " ")], delimiter=mark)) or []
    except csv.Error:
        return []


def _next_row(reader: Any) -> list[str] | None:
    """The next row, of cells of any length; the limit of the process is left as it was."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


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


def _csv_cells(lines: Iterable[str], path: str, mark: str = ",") -> Iterator[tuple[int, list[str]]]:
    # Outside quotes, a carriage return alone ends a row, too.
    split = (io.StringIO(line, newline="") if "\r" in line else (line,) for line in lines)
    reader = csv.reader(itertools.chain.from_iterable(split), delimiter=mark, strict=True)
    end = 0
    try:
        while (cells := _next_row(reader)) is not None:
            number, end = end + 1, reader.line_num
            yield number, cells
    except csv.Error as error:
        raise InputError(f"{path}: line {end + 1}: {error}; check its quotes.") from error


def _table_rows(
    lines: Iterable[tuple[int, list[str]]],
    path: str,
    columns: Sequence[str] | None,
    skipped: list[str] | None,
    name: str,
) -> Iterator[TableRow]:
    unit = "row" if name == "Excel" else "line"
    for number, values in lines:
        place = f"{path}: {unit} {number}"
        if columns is None:
            if values == [""]:
                continue
            columns = [value.strip() for value in values]
            if len(columns) == 1 and any(mark in columns[0] for mark in _NAMES):
                raise InputError(
                    f"{place}: has one column, {columns[0]!r}; name its columns, as in "
                    "--columns=text=NAME, if commas, tabs, semicolons or | separate them, or "
                    "separate them with commas in a .csv, with tabs in a .tsv. If the first line "
                    "is a text, give --no_header."
                )
            # Several columns may have no name: these cannot be selected.
            repeated = collections.Counter(filter(None, columns)).most_common(1)
            twice, count = repeated[0] if repeated else ("", 0)
            if count > 1:
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
        yield TableRow(dict(zip(columns, values, strict=True)), place, values, name)
