"""Cells of Excel workbooks."""

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from pipelines.common import compressed, files, optional
from pipelines.common.errors import InputError
from pipelines.labelled.table_rows import without_empty_end
from pipelines.labelled.text_lines import split_part

_EMPTY = 4  # bytes that an empty row or cell counts for
ENDINGS = (".xlsx", ".xls")  # the second is an older format, which is refused with the remedy


def cells(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the number and the cells of each row of a sheet; a blank row has none.

    Args:
      path: the file, followed by # and the name of a sheet if several have rows.

    Raises:
      InputError: the file is not a workbook, or the sheet is missing or ambiguous.
    """
    file, part = split_part(path)
    found = sheets(file)
    if part is None and len(found) == 1:
        (part,) = found
    if found and part not in found:
        problem = f"has no rows in a sheet {part!r}" if part else "has several sheets with rows"
        listed = ", ".join(f"{file}#{name}" for name in found)
        raise InputError(f"{file}: {problem}; name one: {listed}.")
    rows = found.get(part or "", [])
    width = max(map(len, rows), default=0)
    for number, row in enumerate(rows, 1):
        yield number, [*row, *[""] * (width - len(row))] if row else []


def sheets(path: str) -> dict[str, list[list[str]]]:
    """Returns the rows of each sheet of a workbook that has any; raises InputError."""
    reader = optional.load("openpyxl", "tables")
    size = compressed.UnpackedSize(path)
    file = io.BytesIO(files.read_whole(path))
    try:
        with zipfile.ZipFile(file) as archive:
            size.add(sum(entry.file_size for entry in archive.infolist()))
        workbook = reader.load_workbook(file, read_only=True, data_only=True)
        found = {sheet.title: _rows(sheet, size) for sheet in workbook.worksheets}
    except (InputError, MemoryError):
        raise
    except Exception as error:  # openpyxl raises whatever a damaged file leads to
        raise InputError(
            f"{path}: is not an .xlsx workbook that can be read ({error}); open it in a "
            "spreadsheet program, and save it as .xlsx or .csv."
        ) from error
    return {name: rows for name, rows in found.items() if any(rows)}


def _rows(sheet: Any, size: compressed.UnpackedSize) -> list[list[str]]:
    sheet.reset_dimensions()  # those that are stated may be wrong
    rows = []
    for row in sheet.values:  # the number of a row or a cell may be far above that of the last one
        size.add(_EMPTY * (1 + len(row)))
        rows.append(list(without_empty_end([*map(_text, row)])))
    return rows


def _text(value: Any) -> str:
    """Returns the value of a cell as a text; whole numbers have no fraction."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
