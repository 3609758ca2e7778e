"""A row of a table: values by column name, with the place of the row."""

import decimal
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.common.errors import InputError
from pipelines.labelled.columns import SPLITS

_MAX_FIELDS = 5  # in messages
# Columns with the split of each row, and its other names.
_SPLIT_COLUMNS = ("split", "set", "partition", "subset", "fold")
_SPLITS = {name: split for split, names in SPLITS.items() for name in names}
_SPLITS |= {"training": "train", "development": "dev", "eval": "dev", "testing": "test"}


class TableRow(NamedTuple):
    """The values of a row by column name, and the place of the row.

    `cells` has all values of a table's row, including those of columns without a name; `format` is
    the format of its file, for messages.
    """

    values: Mapping[str, Any]
    place: str
    cells: Sequence[str] = ()
    format: str = ""

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
            if value == []:  # of objects, of which there are none
                return []
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

    def joined(self, column: str) -> str:
        """Returns the text of a column unchanged, or the texts of a list joined by spaces."""
        texts = self.texts(column)
        return texts[0] if len(texts) == 1 else " ".join(map(str.strip, texts))

    def texts(self, column: str) -> tuple[str, ...]:
        """Returns the texts of a column with one or a list; raises InputError for others."""
        value = self.get(column)
        if not isinstance(value, list):
            return (self.verbatim(column),)
        return tuple(_as_text(item, self.place, f"an item of {column}") for item in value)


def split_column(row: TableRow) -> str | None:
    """Returns the column of a row that may name its split, or None."""
    return next((name for name in row.values if name.lower() in _SPLIT_COLUMNS), None)


def split_of(row: TableRow) -> str | None:
    """Returns the split that a column of a row names, or None."""
    column = split_column(row)
    return _SPLITS.get(str(row.values[column]).strip().lower()) if column else None


def _paths(name: str, value: Any) -> list[str]:
    """Returns the path of a value, or the paths of the fields of an object or list of objects."""
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return [name]
    return [path for key, field in first.items() for path in _paths(f"{name}.{key}", field)]


def whole_number(text: str) -> int | None:
    """Returns the number of up to 18 decimal digits, or None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def numbered(names: Iterable[str], stem: str) -> list[str]:
    """Returns the names that consist of a stem (a pattern) and a number, sorted by the number."""
    found = [match for name in names if (match := re.fullmatch(rf"{stem}([0-9]{{1,18}})", name))]
    return [match[0] for match in sorted(found, key=lambda match: int(match[1]))]


def without_empty_end(cells: Sequence[str]) -> tuple[str, ...]:
    """Returns the cells up to the last one that is not empty or blank."""
    return tuple(
        cells[: max((end for end, cell in enumerate(cells, 1) if cell.strip()), default=0)]
    )


def _as_text(value: Any, place: str, name: str) -> str:
    """Returns a string, number or boolean as a text; raises InputError for other values."""
    if isinstance(value, dict):
        raise InputError(
            f"{place}: {name} is an object; name one of its fields with --columns, such as "
            f"{', '.join(_paths(name, value)[:_MAX_FIELDS])}."
        )
    not_finite = isinstance(value, float) and not math.isfinite(value)
    if not_finite or not isinstance(value, str | int | float | decimal.Decimal):
        raise InputError(f"{place}: {name} is {value!r}, not a text; write a text or a number.")
    return str(value).lower() if isinstance(value, bool) else str(value)
