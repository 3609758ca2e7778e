"""JSON, strictly: every JSON text that comes from outside is parsed and checked here.

What is parsed has text that UTF-8 can write and the shape that its reader names;
settings have finite numbers besides. So nothing behind a reader has to ask.
"""

import json
import math
import re
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from pipelines.common import files, texts
from pipelines.common.errors import InputError

KindT = TypeVar("KindT")
# JSON can spell half of a surrogate pair, which is no text.
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_QUOTED = re.compile("`([^`]*)`")
# What msgspec calls what JSON has.
_NAMES = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}


def parse(text: str, place: str, finite: bool = True) -> Any:
    """Parses a JSON text.

    Halves of surrogate pairs become U+FFFD.

    Args:
      text: the text.
      place: the file, or the file and line, for errors.
      finite: whether all numbers must be; data that others write has NaN and Infinity, which
        are not JSON, where a value is missing.

    Raises:
      InputError: it is not JSON, or has a number or a nesting that no program takes.
    """
    try:
        value = (_FINITE if finite else _ANY_NUMBER).decode(text.removeprefix("\ufeff"))
        escaped = _ESCAPE.search(text) if "\\u" in text else None  # which is fast to tell
        return _mended(value) if escaped or texts.has_halves(text) else value
    except json.JSONDecodeError as error:
        where = f"{place}: line {error.lineno}" if "\n" in text.strip() else place
        raise InputError(f"{where}: is not JSON ({error.msg}).") from error
    except RecursionError as error:
        raise InputError(f"{place}: is not JSON that can be read (nested too deeply).") from error
    except ValueError as error:  # a constant or a number, from below, or of thousands of digits
        what = str(error) if isinstance(error, _NumberError) else "a number of too many digits"
        raise InputError(f"{place}: is not JSON ({what}).") from error


class _NumberError(ValueError):
    """A number that is none."""


def _constant(name: str) -> NoReturn:
    raise _NumberError(f"{name} is no number")


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _NumberError(f"{digits[:20]} is too large")
    return value


_FINITE = json.JSONDecoder(parse_constant=_constant, parse_float=_float)
_ANY_NUMBER = json.JSONDecoder()


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value


def check(value: Any, kind: type[KindT], place: str) -> KindT:
    """Checks that a JSON value has a shape.

    Args:
      value: of `parse`.
      kind: a type; TypedDicts name the keys that an object must or may have, others are let be.
      place: the file, for errors.

    Returns:
      The value as it is.

    Raises:
      InputError: it has not; the place within the value is named.
    """
    try:
        msgspec.convert(value, kind)
        return cast(KindT, value)
    except msgspec.ValidationError as error:
        raise InputError(f"{place}: {_explained(str(error))}.") from error


def _explained(message: str) -> str:
    """The library's message in the words of JSON, such as "data[0].title: Expected text, ..."."""
    what, _, where = message.partition(" - at ")
    what = what.replace("Object missing required field", "lacks the field")
    what = _QUOTED.sub(lambda match: _in_words(match[1]), what)
    what = what[:1].lower() + what[1:]
    where = where.strip("`").removeprefix("$").removeprefix(".")
    return f"at {where}: {what}" if where else what


def _in_words(types: str) -> str:
    """The names of types, such as "bool | null", in the words of JSON."""
    return " or ".join(_NAMES.get(name, name) for name in types.split(" | "))


def read(path: str, kind: type[KindT], finite: bool = True) -> KindT:
    """Reads a JSON file of a shape.

    Args:
      path: the file.
      kind: as for `check`; Any: every shape.
      finite: as for `parse`.

    Raises:
      InputError: it is missing or too large, is not JSON, or has another shape.
    """
    try:
        text = files.read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is not JSON (byte {error.start} is not UTF-8); {texts.TO_UTF8}."
        ) from error
    return check(parse(text, path, finite), kind, path)


def read_whole(path: str, kind: type[KindT]) -> KindT | None:
    """Reads a JSON file as `read` does; None where it is missing or damaged."""
    try:
        return read(path, kind)
    except InputError:
        return None


def as_json(value: Any) -> Any:
    """A value as JSON has it: null takes the place of numbers that are not finite."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(path: str, value: Any, shared: bool = False) -> None:
    """Writes a value as JSON, indented, in one piece.

    Args:
      path: the file.
      value: JSON values; null takes the place of numbers that are not finite.
      shared: as for `files.write_aside`.
    """
    text = json.dumps(as_json(value), indent=2, ensure_ascii=False, allow_nan=False)
    with files.write_aside(path, shared) as partial, files.gfile.GFile(partial, "w") as file:
        file.write(text + "\n")
