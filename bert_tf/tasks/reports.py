"""Texts for prediction files, mistakes and error messages."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What would end a cell or a line of a table without quotes, by separator, and its replacement.
# Where spaces separate, many readers split at any white space.
_BREAKS = {"\t": (re.compile(r"[\t\r\n]"), " "), " ": (re.compile(r"\s"), "_")}


def table(rows: Iterable[Sequence[str]], separator: str) -> str:
    """A table without quotes.

    White space that would end a cell is replaced. So are empty cells where spaces separate.

    Args:
      rows: cells of each row; an empty row makes a blank line.
      separator: a tab or a space.
    """
    pattern, stand_in = _BREAKS[separator]
    empty = stand_in.strip()
    lines = (separator.join(pattern.sub(stand_in, cell) or empty for cell in row) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def tsv(columns: Mapping[str, Iterable[str]]) -> str:
    """A table with a header, of columns by name, separated by tabs."""
    return table([[*columns], *zip(*columns.values(), strict=True)], "\t")


def file_of(place: str) -> str:
    """The path in the place of an example, which precedes the line, row, item or article."""
    return re.split(r": (?=line |row |item |data, item |article )", place)[0]


def empty_text(example: Any, *names: str) -> str | None:
    """Reports the first empty field of an example; None if all have text."""
    for name in names:
        if getattr(example, name) is not None and not getattr(example, name).strip():
            return f"the {name} is empty"
    return None
