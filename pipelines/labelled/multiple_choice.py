"""Multiple choice: SWAG's csv files (Zellers et al. 2018), and csv files like ARC's."""

import re

from pipelines.common.errors import InputError
from pipelines.labelled import tables
from pipelines.labelled.schema import ChoiceExample

_KEY = re.compile(r"[A-Za-z]|[0-9]{1,18}")


def read_swag(path: str) -> list[ChoiceExample]:
    """Reads a file with SWAG's header: sent1, sent2, ending0 to ending3, and label where known."""
    found = []
    for index, row in enumerate(tables.read_rows(path)):
        endings = tables.numbered(row.values, "ending")
        label = row.text("label") if row.values.get("label") else None
        number = None if label is None else tables.whole_number(label)
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


def is_swag(path: str) -> bool:
    """Whether a csv file has SWAG's header."""
    return "ending0" in tables.first_row(path)


def is_keyed(path: str) -> bool:
    """Whether a csv file has no header, but the key of a choice at the end of its first row."""
    cells = tables.first_row(path)
    return len(cells) > 3 and key_index(cells[-1].strip(), len(cells) - 2) is not None


def read_keyed(path: str, skipped: list[str]) -> list[ChoiceExample]:
    """Reads a csv file without a header: question, choices, and the key of the right one.

    Questions may differ in how many choices they have, with or without empty
    cells in place of those that are not there.

    Args:
      path: the file.
      skipped: gets a line for each row whose key names no choice (ARC has
        questions of which a choice was cut).

    Raises:
      InputError: a row has too few columns, or keys count from 0.
    """
    found = []
    for index, (place, cells) in enumerate(tables.csv_rows(path)):
        if len(cells) < 3:
            raise InputError(
                f"{place}: has too few columns: {len(cells)}; write a question, its choices, and "
                "the key of the right one."
            )
        question, *given, key = map(str.strip, cells)
        # A question without any choices keeps them, empty: training skips and counts it.
        choices = tables.without_empty_end(given) or tuple(given)
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
    """The index of the choice that a key (A is the first, or 1) names; None if there is none."""
    if not _KEY.fullmatch(key):
        return None
    index = int(key) - 1 if key.isdigit() else ord(key.upper()) - ord("A")
    return index if 0 <= index < count else None
