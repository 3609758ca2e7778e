"""Rows of files in any format with columns."""

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.labelled import (
    columnar,
    delimited,
    json_rows,
    labelled_lines,
    spreadsheet,
    table_rows,
)
from pipelines.labelled.source import Source
from pipelines.labelled.table_rows import TableRow
from pipelines.labelled.text_lines import ending, split_part

# Formats whose columns have names.
_JSON = (".jsonl", ".ndjson", ".json")
ENDINGS = (".csv", *_JSON, *columnar.ENDINGS, *spreadsheet.ENDINGS)


def read_rows(
    source: Source, columns: Sequence[str] | None = None, skipped: list[str] | None = None
) -> Iterator[TableRow]:
    """Yields the rows of a file by its ending: a table, JSON, Parquet, Arrow or Excel.

    Text files may be gzipped. Tab-separated files have no quoting, as in GLUE; others do. Another
    delimiter than that of the ending is found if the first line has names of columns. JSON Lines
    have an object per line, or are one list of objects (or an object with such a list, "data"),
    which is read into memory. In a table of one column a blank line is a row, except before the
    header and at the end; in other files blank lines are ignored. The first of several Parquet or
    Arrow files stands for all.

    Args:
      source: the file; data.json#train is a list of the object in a file, data.xlsx#train a sheet.
        If the first line is not a header, the names of the columns are their numbers, from 1.
      columns: names of the columns if the file has no header.
      skipped: receives a message for each row with another number of columns, which is left out;
        None: such a row is an error.

    Raises:
      InputError: there are no rows, a row has another number of columns or is not JSON, or two
        columns have the same name.
    """
    empty = True
    for row in _rows(source, columns, skipped):
        empty = False
        if source.part in (None, table_rows.split_of(row)):
            yield row
    if empty:
        is_pipe = os.path.exists(source.path) and not os.path.isfile(source.path)
        why = " It is read several times, so write what a pipe gives to a file." if is_pipe else ""
        raise InputError(f"{source.path}: has no rows.{why}")


def _rows(
    source: Source, columns: Sequence[str] | None, skipped: list[str] | None
) -> Iterator[TableRow]:
    path, encoding = source.path, source.encoding
    kind = ending(path)
    if kind in columnar.ENDINGS:
        return itertools.chain.from_iterable(map(columnar.read, columnar.shards(path)))
    if kind in _JSON:
        return json_rows.read(path, encoding)
    if kind in spreadsheet.ENDINGS:
        cells = spreadsheet.cells(path)
        return delimited.from_cells(cells, source, columns, skipped, "Excel")
    if others := labelled_lines.labels_of(path):
        return labelled_lines.read_together(path, others, encoding)
    if labelled_lines.is_fast_text(path, encoding):
        return labelled_lines.read_fast_text(path, encoding)
    if labelled_lines.has_questions(path, encoding):
        return labelled_lines.read_questions(path, encoding)
    return delimited.read(source, columns, skipped)


def parts(path: str, encoding: str) -> list[str]:
    """Returns the names of the lists or sheets in a file, which path#NAME stands for."""
    if ending(path) == ".json":
        return json_rows.lists(path, encoding)
    return list(spreadsheet.sheets(path)) if ending(path) == ".xlsx" else []


def files_of(path: str) -> list[str]:
    """Returns the files that a path stands for."""
    file, _ = split_part(path)
    return [*columnar.shards(file), *labelled_lines.labels_of(file).values()]


def sha256(path: str) -> str:
    """Returns the checksum of the file, its part, or all files, that a path stands for."""
    _, part = split_part(path)
    first, *others = [*map(files.sha256, files_of(path)), *filter(None, [part])]
    return hashlib.sha256("".join([first, *others]).encode()).hexdigest() if others else first
