"""Rows of JSON Lines and JSON files."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pipelines.common import json_files
from pipelines.common.errors import InputError
from pipelines.labelled.table_rows import TableRow
from pipelines.labelled.text_lines import read_lines, read_text, split_part

_MAX_SHOWN = 8  # names, in messages
_PAIR = ("text", "label")  # the meaning of a list of two values


def read(path: str, encoding: str) -> Iterator[TableRow]:
    """Yields the rows of a file, or of a list of its object; see `tables.read_rows`."""
    for place, value in _values(read_lines(path, encoding), path):
        if isinstance(value, list):
            numbers = map(str, range(1, len(value) + 1))
            names = _PAIR if len(value) == len(_PAIR) else tuple(numbers)
            yield TableRow(dict(zip(names, value, strict=True)), place, value, "JSON")
        elif isinstance(value, dict):
            yield TableRow(value, place, format="JSON")
        else:
            raise InputError(f"{place}: is not a JSON object.")


def lists(path: str, encoding: str) -> list[str]:
    """Returns the names of the lists in the object that a file is; of other files, none."""
    try:
        value = json_files.parse(read_text(path, encoding), path, finite=False)
    except InputError:
        return []
    return _lists(value) if isinstance(value, dict) else []


def _lists(value: dict[str, Any]) -> list[str]:
    return [name for name, items in value.items() if isinstance(items, list) and items]


def _values(lines: Iterator[str], path: str) -> Iterator[tuple[str, Any]]:
    """Yields the places and the values of rows."""
    if split_part(path)[1] is not None:
        return _json_items("".join(lines), path)
    head: list[str] = []  # up to the second line that is not blank
    filled = 0
    for line in lines:
        head.append(line)
        filled += not line.isspace()
        if filled == 2:
            break
    first, *more = [line.strip() for line in head if not line.isspace()] or [""]
    whole = itertools.chain(head, lines)
    ends = {"{": "}", "[": "]"}
    by_line = first.endswith(ends.get(first[:1], ""))
    if first.startswith("["):  # a row that is a list, and not the only line of a list of rows
        by_line &= any(line.startswith("[") for line in more)
    elif by_line and not more and first:
        by_line = not _is_collection(json_files.parse(first, f"{path}: line 1", finite=False))
    return _json_lines(whole, path) if by_line else _json_items("".join(whole), path)


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
    """Yields the items of a file that is one list, or of a list of its object, usually "data"."""
    try:
        value = json_files.parse(text, path, finite=False)
    except InputError as error:
        raise InputError(
            f"{error} Write one object a line (jq -c . FILE), or one list of objects."
        ) from error
    where = f"{path}: "
    file, part = split_part(path)
    if part is not None or isinstance(value, dict):
        names = _lists(value) if isinstance(value, dict) else []
        if (part or "data") not in names:
            raise _not_rows(file, part, value, names)
        value, where = value[part or "data"], where if part else f"{path}: data, "
    yield from ((f"{where}item {number}", item) for number, item in enumerate(value, 1))


def _not_rows(path: str, part: str | None, value: Any, names: Sequence[str]) -> InputError:
    """Returns the error for an object that does not have the list that was asked for."""
    if names:
        listed = ", ".join(f"{path}#{name}" for name in names[:_MAX_SHOWN])
        remedy = f"name one of its lists: {listed}"
    else:
        remedy = "write one object a line, or one list of objects"
    if part is not None:
        return InputError(f"{path}: has no list {part!r} with rows; {remedy}.")
    shown = ", ".join(list(value)[:_MAX_SHOWN])
    return InputError(f"{path}: is one JSON object ({shown}), not rows; {remedy}.")


def _json_lines(lines: Iterable[str], path: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        yield place, json_files.parse(line, place, finite=False)
