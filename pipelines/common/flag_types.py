"""What values flags take: read from text, and told in the same words by --help and by messages.

Texts, lists of texts and booleans are absl's; here is what has a range, a choice or a form.
"""

import dataclasses
import difflib
import enum
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from absl import flags

Kind = type[int] | type[float]
ChoiceT = TypeVar("ChoiceT", bound=str)
_LARGEST = 1 << 63
_WORDS: Mapping[type, tuple[str, str, str]] = {  # placeholder, one, several
    int: ("N", "a whole number", "whole numbers"),
    float: ("X", "a number", "numbers"),
}


@dataclasses.dataclass(frozen=True)
class Limits:
    """The range of a number."""

    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf

    def admits(self, value: float) -> bool:
        """Whether a number is finite and within."""
        return (
            math.isfinite(value)
            and self.least <= value <= self.most
            and self.above < value < self.below
        )

    @property
    def words(self) -> str:
        """The range in words, "" where any number will do."""
        bounds = (
            ("at least", self.least),
            ("above", self.above),
            ("at most", self.most),
            ("below", self.below),
        )
        known = [(word, bound) for word, bound in bounds if math.isfinite(bound)]
        return ", ".join(f"{word} {_shown(bound)}" for word, bound in known)


def _shown(bound: float) -> str:
    return f"{bound:,.0f}" if bound == int(bound) else f"{bound:g}"


class NumberParser(flags.ArgumentParser):
    """Parses a number.

    Args:
      kind: int or float.
      limits: its range.
    """

    def __init__(self, kind: Kind, limits: Limits):
        self.kind, self.limits = kind, limits
        self.placeholder, what, _ = _WORDS[kind]
        self.range = limits.words
        self.expected = ", ".join(filter(None, (what, self.range)))

    def parse(self, argument: Any) -> int | float:
        """The number; a ValueError that says what it must be."""
        return _number(argument, self.kind, self.limits, self.expected)


class NumbersParser(flags.ArgumentParser):
    """Parses numbers with commas between them into a tuple.

    Args:
      kind: int or float.
      limits: the range of each.
    """

    def __init__(self, kind: Kind, limits: Limits):
        self.kind, self.limits = kind, limits
        letter, _, what = _WORDS[kind]
        self.placeholder = f"{letter},{letter},..."
        self.range = f"each {limits.words}" if limits.words else ""
        self.expected = ", ".join(filter(None, (f"{what} with commas between", self.range)))

    def parse(self, argument: Any) -> tuple[int | float, ...]:
        """The numbers; a ValueError that says what they must be."""
        parts = argument.split(",") if isinstance(argument, str) else argument
        return tuple(_number(part, self.kind, self.limits, self.expected) for part in parts)


def _number(argument: Any, kind: Kind, limits: Limits, expected: str) -> int | float:
    """A number of a text; a ValueError that says what it must be."""
    try:
        found = kind(argument)
    except ValueError as error:
        raise ValueError(f"it must be {expected}") from error
    if kind is int and not -_LARGEST <= found < _LARGEST:
        raise ValueError("it is beyond 64 bits")
    if not math.isfinite(found):
        raise ValueError("it must be a finite number")
    if not limits.admits(found):
        raise ValueError(f"it must be {expected}")
    return found


class ChoiceParser(flags.ArgumentParser):
    """Parses one of several texts.

    Args:
      choices: the texts, or an enumeration of them, whose member is returned.
    """

    range = ""

    def __init__(self, choices: Iterable[str]):
        self.choices = {str(choice): choice for choice in choices}
        self.placeholder = "|".join(self.choices)

    def parse(self, argument: str) -> str:
        """The choice; a ValueError that says what there is."""
        return choose(argument, self.choices)


class ChoicesParser(flags.ArgumentParser):
    """Parses some of several texts, with commas between them, into a tuple.

    Args:
      choices: the texts.
    """

    range = ""

    def __init__(self, choices: Iterable[str]):
        self.choices = {choice: choice for choice in choices}
        self.placeholder = ",".join(self.choices)

    def parse(self, argument: Any) -> tuple[str, ...]:
        """The choices, in their order; a ValueError that says what there is."""
        parts = argument.split(",") if isinstance(argument, str) else argument
        return tuple(choose(part, self.choices) for part in parts)


def choose(text: str, choices: Mapping[str, ChoiceT]) -> ChoiceT:
    """One of several things by its name.

    Raises:
      ValueError: there is none of that name; says which there are, and the nearest.
    """
    if text in choices:
        return choices[text]
    raise ValueError(f"it must be one of {', '.join(choices)}{did_you_mean(text, choices)}")


def did_you_mean(text: str, known: Iterable[str], form: str = "{}", likeness: float = 0.6) -> str:
    """A question that names the nearest of known texts; "" where none is near.

    Args:
      text: what the user wrote.
      known: what there is.
      form: what the name is put into.
      likeness: from 0 to 1, what is near enough.
    """
    near = difflib.get_close_matches(text, list(known), 1, likeness)
    return f"; did you mean {form.format(near[0])}?" if near else ""


class PathParser(flags.ArgumentParser):
    """Parses the path of something to write."""

    placeholder = "PATH"
    range = ""

    def parse(self, argument: str) -> str:
        """The path without a slash at its end; a ValueError where it is none."""
        if not argument.strip() or "\0" in argument:
            raise ValueError("it names nothing; give the path of what to write")
        return argument.rstrip("/") or "/"


class WordsParser(flags.ArgumentParser):
    """Parses words for another program into a tuple; what follows -- on a command line is them."""

    placeholder = "'WORD ...'"
    range = ""

    def parse(self, argument: Any) -> tuple[str, ...]:
        """The words; a ValueError where a quote has no end."""
        if not isinstance(argument, str):
            return tuple(argument)
        try:
            return tuple(shlex.split(argument))
        except ValueError as error:
            raise ValueError("a quote has no end") from error


def define_number(
    name: str,
    default: float | None,
    text: str,
    kind: Kind,
    limits: Limits = Limits(),
) -> flags.FlagHolder:
    """Defines the flag of a number.

    Args:
      name: of the flag.
      default: its value where it is not given.
      text: for --help.
      kind: int or float.
      limits: its range.
    """
    return flags.DEFINE(NumberParser(kind, limits), name, default, text)


def define_numbers(
    name: str,
    default: Sequence[float] | None,
    text: str,
    kind: Kind,
    limits: Limits = Limits(),
) -> flags.FlagHolder:
    """As `define_number`, of numbers with commas between them; the value is a tuple, or None."""
    known = None if default is None else tuple(default)
    return flags.DEFINE(NumbersParser(kind, limits), name, known, text)


def define_choice(
    name: str, default: str | None, choices: Sequence[str] | type[enum.StrEnum], text: str
) -> flags.FlagHolder:
    """Defines the flag of a choice; arguments as for `define_number`, and what there is."""
    return flags.DEFINE(ChoiceParser(tuple(choices)), name, default, text)


def define_choices(
    name: str, default: Sequence[str], choices: Sequence[str], text: str
) -> flags.FlagHolder:
    """As `define_choice`, of several with commas between them; the value is a tuple."""
    return flags.DEFINE(ChoicesParser(tuple(choices)), name, tuple(default), text)


def define_texts(name: str, text: str) -> flags.FlagHolder:
    """Defines a flag that may be given several times; its value is a list of texts."""
    holder = flags.DEFINE_multi_string(name, [], text)
    flags.FLAGS[name].help = text  # without what absl adds to it
    return holder


def define_words(name: str, text: str) -> flags.FlagHolder:
    """Defines the flag that takes words for another program; a command has one at the most.

    Its value is a tuple, or None. They are one text, quoted as for a shell, or all that follows --.
    """
    return flags.DEFINE(WordsParser(), name, None, text)


def define_path(
    name: str, default: str | None, text: str, required: bool = False
) -> flags.FlagHolder:
    """Defines the flag of a file or folder to write; a slash at its end does not count.

    Args:
      name: of the flag.
      default: its value where it is not given.
      text: for --help.
      required: whether it must be given.
    """
    return flags.DEFINE(PathParser(), name, default, text, required=required)


def placeholder(flag: flags.Flag) -> str:
    """What stands for the value of a flag in --help; "" of a boolean."""
    if flag.boolean:
        return ""
    several = isinstance(flag.parser, flags.ListParser)
    return getattr(flag.parser, "placeholder", "A,B,..." if several else "TEXT")


def takes_words(flag: flags.Flag) -> bool:
    """Whether a flag takes what follows --."""
    return isinstance(flag.parser, WordsParser)


def is_required(flag: flags.Flag) -> bool:
    """Whether a flag must be given."""
    return any("other than None" in validator.message for validator in flag.validators)
