"""Strict JSON: every JSON text from outside is parsed and checked here.

Parsed values have valid Unicode and the type that the reader expects; those of settings have finite
numbers.
"""

import contextlib
import json
import math
import re
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from pipelines.common import files, texts
from pipelines.common.errors import InputError

KindT = TypeVar("KindT")
# JSON can contain half of a surrogate pair, which is not valid Unicode.
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_QUOTED = re.compile("`([^`]*)`")
# Plain words for the types in messages of msgspec.
_NAMES = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}


def parse(text: str, place: str, finite: bool = True) -> Any:
    """Parses a JSON text; halves of surrogate pairs become U+FFFD.

    Args:
      text: The text.
      place: The file, or the file and line, for errors.
      finite: Whether all numbers must be finite. Other programs write NaN and Infinity, which are
        not JSON, for missing values.

    Raises:
      InputError: The text is not JSON, or a number or the nesting exceeds all limits.
    """
    try:
        value = (_FINITE if finite else _ANY_NUMBER).decode(text.removeprefix("\ufeff"))
        escaped = _ESCAPE.search(text) if "\\u" in text else None  # `in` is fast
        return _repaired(value) if escaped or texts.has_halves(text) else value
    except json.JSONDecodeError as error:
        where = f"{place}: line {error.lineno}" if "\n" in text.strip() else place
        raise InputError(f"{where}: is not JSON ({error.msg}).") from error
    except RecursionError as error:
        raise InputError(f"{place}: is not JSON that can be read (nested too deeply).") from error
    except ValueError as error:  # from the functions below, or a number of thousands of digits
        what = str(error) if isinstance(error, _NumberError) else "a number of too many digits"
        raise InputError(f"{place}: is not JSON ({what}).") from error


class _NumberError(ValueError):
    """A number that is not finite."""


def _constant(name: str) -> NoReturn:
    raise _NumberError(f"{name} is not a number")


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _NumberError(f"{digits[:20]} is too large")
    return value


_FINITE = json.JSONDecoder(parse_constant=_constant, parse_float=_float)
_ANY_NUMBER = json.JSONDecoder()


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [_repaired(item) for item in value]
    if isinstance(value, dict):
        return {_repaired(key): _repaired(item) for key, item in value.items()}
    return value


def check(value: Any, kind: type[KindT], place: str) -> KindT:
    """Checks the type of a JSON value, and returns the value.

    Args:
      value: A value of `parse`.
      kind: The type. A TypedDict names required and optional keys; other keys are allowed.
      place: The file, for errors.

    Raises:
      InputError: The value has another type; the message names the place within it.
    """
    try:
        msgspec.convert(value, kind)
        return cast(KindT, value)
    except msgspec.ValidationError as error:
        raise InputError(f"{place}: {_explained(str(error))}.") from error


def _explained(message: str) -> str:
    """A message of msgspec in plain words, such as "at data[0].title: expected text, ..."."""
    what, _, where = message.partition(" - at ")
    what = what.replace("Object missing required field", "lacks the field")
    what = _QUOTED.sub(lambda match: _in_words(match[1]), what)
    what = what[:1].lower() + what[1:]
    where = where.strip("`").removeprefix("$").removeprefix(".")
    return f"at {where}: {what}" if where else what


def _in_words(types: str) -> str:
    """Types such as "bool | null" in plain words."""
    return " or ".join(_NAMES.get(name, name) for name in types.split(" | "))


def read(path: str, kind: type[KindT], finite: bool = True) -> KindT:
    """Reads a JSON file and checks its type; see `parse` and `check` for the arguments.

    Raises:
      InputError: The file is missing or too large, is not JSON, or has another type.
    """
    try:
        text = files.read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is not JSON (byte {error.start} is not UTF-8); {texts.TO_UTF8}."
        ) from error
    return check(parse(text, path, finite), kind, path)


def read_optional(path: str, kind: type[KindT]) -> KindT:
    """Reads a JSON file as `read` does; an empty value of the type if there is no file."""
    return read(path, kind) if files.gfile.exists(path) else kind()


def read_whole(path: str, kind: type[KindT]) -> KindT | None:
    """Reads a JSON file as `read` does; None if it is missing or damaged."""
    try:
        return read(path, kind)
    except InputError:
        return None


def read_lines(path: str, kind: type[KindT]) -> list[KindT]:
    """Reads a file with a JSON value of a type in each line, none if there is no file.

    Other lines are left out: a run that is killed leaves an incomplete last line.
    """
    found: list[KindT] = []
    if files.gfile.exists(path):
        for line in files.read_whole(path).decode(errors="replace").split("\n"):
            with contextlib.suppress(InputError):
                found.append(check(parse(line, path), kind, path))
    return found


def as_json(value: Any) -> Any:
    """A value with null in place of numbers that are not finite."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(path: str, value: Any, shared: bool = False) -> None:
    """Writes a value as indented JSON, with null in place of numbers that are not finite.

    Args:
      path: The file, which appears in one piece.
      value: The value.
      shared: See `files.write_aside`.
    """
    text = json.dumps(as_json(value), indent=2, ensure_ascii=False, allow_nan=False)
    with files.write_aside(path, shared) as partial, files.gfile.GFile(partial, "w") as file:
        file.write(text + "\n")
