"""Reads multiple choice: SWAG (Zellers et al. 2018), and .csv files like those of ARC."""

import re

from pipelines.common.errors import InputError
from pipelines.common.texts import UTF8
from pipelines.labelled import delimited, table_rows, tables
from pipelines.labelled.layout import FileLayout
from pipelines.labelled.schema import ChoiceExample

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
