"""Flags: how their values are read, and what --help and error messages say they must be."""

import dataclasses
import difflib
import enum
import math
import os
import shlex
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from absl import flags

from pipelines.common.errors import InputError

REQUIRED: Any = object()  # in place of a default: the flag must be given
_LARGEST = 1 << 63


class Group(enum.StrEnum):
    """Headings of --help, in their order."""

    DATA = "Input and output"
    EXAMPLES = "Vocabulary and examples"
    MODEL = "Model"
    TRAINING = "Training"
    SAVING = "Evaluation and saving"
    MACHINE = "Hardware and speed"
    SERVER = "Server"


class Parser(flags.ArgumentParser):
    """Parses values by a function, which raises a ValueError that says what a value must be.

    The function also takes values that were parsed before. --help shows placeholder and range.
    """

    def __init__(self, read: Callable[[Any], Any], placeholder: str, range: str = ""):
        self.read, self.placeholder, self.range = read, placeholder, range

    def parse(self, argument: Any) -> Any:
        """The value of a text."""
        return self.read(argument)


def listed(parse: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that parses values separated by commas, each by the function given."""

    def parse_all(argument: Any) -> tuple[Any, ...]:
        parts = argument.split(",") if isinstance(argument, str) else argument
        if not parts:
            raise ValueError("it must not be empty")
        return tuple(map(parse, parts))

    return parse_all


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """The range of a number."""

    minimum: float = -math.inf
    above: float = -math.inf
    maximum: float = math.inf
    below: float = math.inf

    def __contains__(self, number: float) -> bool:
        return self.minimum <= number <= self.maximum and self.above < number < self.below

    def __str__(self) -> str:
        words = ("at least", "above", "at most", "below")
        limits = zip(words, dataclasses.astuple(self), strict=True)
        finite = ((word, limit) for word, limit in limits if math.isfinite(limit))
        return ", ".join(f"{w} {x:,.0f}" if x == int(x) else f"{w} {x:g}" for w, x in finite)


def number(kind: Any, limits: Range, several: bool = False) -> Parser:
    """A parser of finite numbers, int or float."""
    within = f"each {limits}" if several and str(limits) else str(limits)
    letter, one, many = ("N", "a whole number", "whole numbers")
    if kind is float:
        letter, one, many = ("X", "a number", "numbers")
    what = f"{many} separated by commas" if several else one
    expected = f"it must be {', '.join(filter(None, (what, within)))}"

    def parse(part: Any) -> int | float:
        try:
            value = kind(part)
        except (ValueError, OverflowError):
            raise ValueError(expected) from None
        if kind is int and not -_LARGEST <= value < _LARGEST:
            raise ValueError("it does not fit into 64 bits")
        if not math.isfinite(value):
            raise ValueError("it must be a finite number")
        if value not in limits:
            raise ValueError(expected)
        return value

    if several:
        return Parser(listed(parse), f"{letter},{letter},...", within)
    return Parser(parse, letter, within)


def choice(choices: Iterable[str]) -> Parser:
    """A parser of known texts, or of the members of an enumeration of texts."""
    known = {str(each): each for each in choices}

    def parse(text: str) -> str:
        if text not in known:
            hint = did_you_mean(text, known)
            raise ValueError(f"it must be one of {', '.join(known)}{hint}")
        return known[text]

    return Parser(parse, "|".join(known))


def choices(known: Iterable[str]) -> Parser:
    """A parser of several known texts."""
    one = choice(known)
    return Parser(listed(one.parse), one.placeholder.replace("|", ","))


def _boolean(argument: Any) -> bool | None:
    try:
        return flags.BooleanParser().parse(argument)
    except ValueError:
        raise ValueError("it must be true or false") from None


def _path(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("it must be the path of a file or folder")
    return os.path.expanduser(text).rstrip("/") or "/"  # a shell leaves the ~ of --output=~/a


def pairs(entries: Iterable[str], place: str = "") -> dict[str, str]:
    """A dict of entries ROLE=VALUE; raises an InputError, which begins with `place`, for others."""
    found: dict[str, str] = {}
    for entry in entries:
        role, equals, value = map(str.strip, entry.partition("="))
        if not equals:
            raise InputError(f"{place}{entry!r} is not of the form ROLE=NAME")
        if role in found:
            raise InputError(f"{place}{role} is given twice")
        found[role] = value
    return found


def split(text: str) -> list[str]:
    """Splits a text into words as a shell does; raises an InputError if a quote is unclosed."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"unclosed quote in {text}") from error


BOOL = Parser(_boolean, "")
TEXT = Parser(lambda text: text, "TEXT")
PATH = Parser(_path, "PATH")  # without slashes at its end
LIST = Parser(flags.ListParser().parse, "A,B,...")
PAIRS = Parser(
    lambda x: x if isinstance(x, dict) else pairs(flags.ListParser().parse(x) or ()),
    "ROLE=NAME,...",
)
# Options of another program, quoted as for a shell. A command has at most one flag of this kind,
# which also takes all words after `--`.
WORDS = Parser(lambda x: tuple(split(x) if isinstance(x, str) else x), "'WORD ...'")
_PARSERS = {bool: BOOL, str: TEXT, list: LIST, dict: PAIRS}
REPEATED = "repeated"  # the flag may be given several times; its value is a list


class Name(str):
    """The name of a flag that is not that of its field."""


Path = Annotated[str, PATH]
Count = Annotated[int, Range(minimum=1)]
Port = Annotated[int, Range(minimum=1, maximum=65535)]


class Flag(flags.Flag):
    """A flag with its heading in --help.

    Args:
      name: Name of the flag.
      kind: Type of the value: bool, int, float, str, list or dict of texts, an enumeration, or a
        tuple of numbers; each or None. It may be annotated with a `Parser`, a `Range`, a `Name`, a
        `Group` or `REPEATED`.
      default: Default value, or `REQUIRED`.
      text: Text in --help.
      group: The heading, unless the type is annotated with one.
    """

    parser: Parser

    def __init__(self, name: str, kind: Any, default: Any, text: str, group: Group):
        notes: list[Any] = []
        while typing.get_origin(kind) in (Annotated, types.UnionType, typing.Union):
            kind, *more = typing.get_args(kind)  # None is the last part of a union
            notes += more
        origin, limits = typing.get_origin(kind) or kind, _note(notes, Range, Range())
        if origin is tuple:
            parser = number((*typing.get_args(kind), int)[0], limits, several=True)
        elif kind in (int, float):
            parser = number(kind, limits)
        else:
            parser = _PARSERS.get(origin) or choice(kind)
        parser = _note(notes, Parser, parser)
        self.group, self.repeated = _note(notes, Group, group), REPEATED in notes
        self.required = default is REQUIRED
        first = None if self.required else default
        name = _note(notes, Name, name)
        super().__init__(parser, None, name, first, text, boolean=parser is BOOL)

    def parse(self, argument: Any) -> None:
        before = self.value if self.present else []
        super().parse(argument)
        if self.repeated:
            self.value = [*(before or ()), self.value]


def _note(notes: Iterable[Any], kind: type, default: Any) -> Any:
    """The first note of a type."""
    return next((note for note in notes if isinstance(note, kind)), default)


def did_you_mean(text: str, known: Iterable[str], form: str = "{}", likeness: float = 0.6) -> str:
    """A question that names, in a form, the most similar of the known texts; "" if none is."""
    near = difflib.get_close_matches(text, list(known), 1, likeness)
    return f"; did you mean {form.format(near[0])}?" if near else ""
