"""Reads multiple choice: the user's own, SWAG (Zellers et al. 2018), and .csv like those of ARC."""

import re
from collections.abc import Iterator, Mapping

from pipelines.common.errors import InputError
from pipelines.common.texts import UTF8, shorten
from pipelines.labelled import delimited, table_rows, tables
from pipelines.labelled.columns import ColumnNames
from pipelines.labelled.layout import FileLayout
from pipelines.labelled.schema import ChoiceExample
from pipelines.labelled.table_rows import TableRow

_MAX_SHOWN = 60  # characters of a value, in messages
_KEY = re.compile(r"[A-Za-z]|[0-9]{1,18}")
_USUAL_NAMES = frozenset(("question", "context", "answer", "choices", "label"))  # of columns


def read_swag(path: str, encoding: str = UTF8) -> list[ChoiceExample]:
    """Reads a file with the columns of SWAG: sent1, sent2, ending0 to ending3, optionally label."""
    found = []
    for index, row in enumerate(tables.read_rows(path, layout=FileLayout(encoding))):
        endings = table_rows.numbered(row.values, "ending")
        label = row.text("label") if row.values.get("label") else None
        number = None if label is None else table_rows.whole_number(label)
        if label is not None and (number is None or number >= len(endings)):
            raise InputError(
                f"{row.place}: the label {label!r} is not a number below {len(endings)}."
            )
        found.append(
            ChoiceExample(
                str(index),
                row.place,
                row.text("sent1"),
                tuple(row.text(name) for name in endings),
                number,
                row.text("sent2"),
            )
        )
    return found


def is_swag(path: str, encoding: str = UTF8) -> bool:
    """Returns whether a .csv file has the header of SWAG."""
    return "ending0" in delimited.first_row(path, encoding)


def is_keyed(path: str, encoding: str = UTF8) -> bool:
    """Returns whether a .csv file has no header, but a key at the end of its first row."""
    cells = delimited.first_row(path, encoding)
    if _USUAL_NAMES.intersection(map(str.lower, map(str.strip, cells))):
        return False
    return len(cells) > 3 and key_index(cells[-1].strip(), len(cells) - 2) is not None


def read_keyed(path: str, skipped: list[str], encoding: str = UTF8) -> list[ChoiceExample]:
    """Reads a .csv file without a header: question, choices, and the key of the right choice.

    Questions may have different numbers of choices, with or without empty cells for missing ones.

    Args:
      path: the file.
      skipped: receives a message for each row whose key names no choice (in ARC, some choices are
        missing).
      encoding: the encoding of the file.

    Raises:
      InputError: a row has too few columns, or keys count from 0.
    """
    found = []
    for index, (place, cells) in enumerate(delimited.csv_rows(path, encoding)):
        if len(cells) < 3:
            raise InputError(
                f"{place}: has too few columns: {len(cells)}; write a question, its choices, and "
                "the key of the right one."
            )
        question, *given, key = map(str.strip, cells)
        # A question without choices keeps empty ones: training skips and counts it.
        choices = table_rows.without_empty_end(given) or tuple(given)
        label = key_index(key, len(choices))
        if key == "0":
            numbers = "+".join(str(number) for number in range(2, len(given) + 2))
            raise InputError(
                f"{place}: the key '0' names no choice: keys of a file without a header count from "
                f"1. Where they count from 0: --columns=context=1,choices={numbers},"
                f"label={len(given) + 2}."
            )
        if label is None:
            skipped.append(f"{place}: the key {key!r} names none of the choices")
            continue
        found.append(ChoiceExample(str(index), place, question, choices, label))
    return found


def key_index(key: str, count: int) -> int | None:
    """Returns the index of the choice that a key (from A or 1) names, or None."""
    if not _KEY.fullmatch(key):
        return None
    index = int(key) - 1 if key.isdigit() else ord(key.upper()) - ord("A")
    return index if 0 <= index < count else None


def read_choices(path: str, columns: ColumnNames, labelled: bool) -> Iterator[ChoiceExample]:
    """Yields choices: a list in JSON Lines, or columns choice0, choice1, ... in tables.

    The label is the number of the right choice, from 0, or its letter; for objects such as
    {"text": "Rain", "label": "A"}, it is the label of the right one.

    Raises:
      InputError: a column is missing; a choice is not a text, or is empty while a later one is not;
        a label does not name a choice; or some labels are numbers and others letters.
    """
    forms: set[bool] = set()
    for index, row in enumerate(columns.rows(path)):
        if not index:
            found = _choice_columns(path, row, columns, labelled)
        context = row.text(found["context"])
        choices = _choices(row, columns)
        label = _right(row, found, len(choices), forms) if labelled else None
        yield ChoiceExample(columns.key(row, index), row.place, context, choices, label)


def _choice_columns(
    path: str, row: TableRow, columns: ColumnNames, labelled: bool
) -> dict[str, str]:
    """The columns by role, which are logged; raises InputError if the first row lacks one."""
    roles = {
        "context": columns.find_only("context", row),
        "choices": columns.find("choices", row) or "+".join(_numbered(row)) or None,
    }
    roles |= {"label": columns.find("label", row)} if labelled else {}
    # The user must name a field of a column that has objects.
    plain = {
        role: None if column and _has_fields(row, column) else column
        for role, column in roles.items()
    }
    columns.check_found(plain, row)
    return columns.check(path, row, roles)


def _has_fields(row: TableRow, column: str) -> bool:
    value = row.get(column) if row.has(column) else None
    return isinstance(value[0] if isinstance(value, list) and value else value, dict)


def _numbered(row: TableRow) -> list[str]:
    """Returns the columns choice0, choice1, ..."""
    return table_rows.numbered(row.values, "(?i:choice|option|ending)_?")


def _right(row: TableRow, found: Mapping[str, str], count: int, forms: set[bool]) -> int:
    """Returns the index of the right choice; adds to `forms` whether the label is a letter."""
    label, choices = row.text(found["label"]), found["choices"]
    keys = f"{choices.removesuffix('.text')}.label"
    if choices.endswith(".text") and row.has(keys) and label in row.texts(keys)[:count]:
        return row.texts(keys).index(label)
    number = table_rows.whole_number(label.removesuffix(".0"))
    forms.add(number is None)
    if len(forms) > 1:
        raise InputError(
            f"{row.place}: the label is {label!r}, but those before are "
            f"{'numbers' if number is None else 'letters'}; write letters for all, or numbers from "
            "0."
        )
    index = key_index(label, count) if number is None else number
    if index is None or index >= count:
        raise InputError(
            f"{row.place}: the label {label!r} names none of {count} choices; numbers count from "
            "0, letters from A: write letters if they count from 1."
        )
    return index


def _choices(row: TableRow, columns: ColumnNames) -> tuple[str, ...]:
    column = columns.find("choices", row)
    if column and column not in row.values and "+" in column:
        cells = [row.text(part) for part in column.split("+")]
    elif column:
        if not isinstance(row.get(column), list):
            raise InputError(
                f"{row.place}: {column} is {shorten(row.get(column), _MAX_SHOWN)!r}, "
                "not a list; name a list, or several columns (--columns=choices=2+3+4)."
            )
        cells = [text.strip() for text in row.texts(column)]
    else:
        names = _numbered(row)
        # JSON Lines converted from tables have null if a row has fewer choices than others.
        cells = ["" if row.values[name] is None else row.text(name) for name in names]
    choices = table_rows.without_empty_end(cells)
    if len(choices) < 2:
        raise InputError(
            f"{row.place}: has fewer than two choices (columns choice0, choice1, ...)."
        )
    # Leaving it out would move the choices after it away from their labels.
    if "" in choices:
        raise InputError(
            f"{row.place}: choice {choices.index('')}, counted from 0, is empty, but a later one "
            "is not; fill it, or move the later ones up and correct the label."
        )
    return choices
