"""Values of flags: how they are read, and what --help and error messages say they must be.

Texts, lists of texts and booleans are absl's own.
"""

import contextlib
import difflib
import enum
import functools
import math
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from absl import flags

from pipelines.common.errors import InputError

_LARGEST = 1 << 63
_WORDS = {  # placeholder, one, several
    int: ("N", "a whole number", "whole numbers"),
    float: ("X", "a number", "numbers"),
}


class Group(enum.StrEnum):
    """Headings of --help, in their order."""

    DATA = "Input and output"
    EXAMPLES = "Vocabulary and examples"
    MODEL = "Model"
    TRAINING = "Training"
    SAVING = "Evaluation and saving"
    MACHINE = "Hardware and speed"
    SERVER = "Server"


_GROUPS: dict[flags.Flag, Group] = {}


@contextlib.contextmanager
def group(heading: Group) -> Iterator[None]:
    """Puts the flags that are defined in the block under a heading."""
    before = set(flags.FLAGS)
    yield
    _GROUPS.update({flags.FLAGS[name]: heading for name in flags.FLAGS if name not in before})


def group_of(flag: flags.Flag) -> Group:
    """The heading of a flag."""
    return _GROUPS.get(flag, Group.DATA)


class _Parser(flags.ArgumentParser):
    """Parses one value, or several values separated by commas into a tuple."""

    placeholder = "TEXT"
    range = ""
    several = False

    def parse(self, argument: Any) -> Any:
        """The value; raises a ValueError that names what is expected."""
        if not self.several:
            return self.read(argument)
        parts = argument.split(",") if isinstance(argument, str) else argument
        if not parts:
            raise ValueError("it must not be empty")
        return tuple(map(self.read, parts))

    def read(self, part: Any) -> Any:
        """One of the values."""
        raise NotImplementedError


class NumberParser(_Parser):
    """Parses a finite number, or several.

    Args:
      kind: int or float.
      several: Whether the value is a tuple.
      minimum, above, maximum, below: The range of each number.
    """

    def __init__(
        self,
        kind: type[int] | type[float],
        several: bool = False,
        *,
        minimum: float = -math.inf,
        above: float = -math.inf,
        maximum: float = math.inf,
        below: float = math.inf,
    ):
        bounds = {"at least": minimum, "above": above, "at most": maximum, "below": below}
        shown = [f"{word} {_shown(x)}" for word, x in bounds.items() if math.isfinite(x)]
        letter, one, many = _WORDS[kind]
        self.kind, self.several = kind, several
        self.admits = lambda x: minimum <= x <= maximum and above < x < below
        self.placeholder = f"{letter},{letter},..." if several else letter
        self.range = ("each " if several and shown else "") + ", ".join(shown)
        what = f"{many} separated by commas" if several else one
        self.expected = ", ".join(filter(None, (what, self.range)))

    def read(self, part: Any) -> int | float:
        """One number."""
        try:
            number = self.kind(part)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"it must be {self.expected}") from error
        if self.kind is int and not -_LARGEST <= number < _LARGEST:
            raise ValueError("it does not fit into 64 bits")
        if not math.isfinite(number):
            raise ValueError("it must be a finite number")
        if not self.admits(number):
            raise ValueError(f"it must be {self.expected}")
        return number


def _shown(bound: float) -> str:
    return f"{bound:,.0f}" if bound == int(bound) else f"{bound:g}"


class ChoiceParser(_Parser):
    """Parses one of the known texts, or several.

    Args:
      choices: The texts, or an enumeration of texts, of which a member is returned.
      several: Whether the value is a tuple.
    """

    def __init__(self, choices: Iterable[str], several: bool = False):
        self.choices, self.several = {str(choice): choice for choice in choices}, several
        self.placeholder = ("," if several else "|").join(self.choices)

    def read(self, part: str) -> str:
        """One of the choices."""
        if part not in self.choices:
            known = ", ".join(self.choices)
            raise ValueError(f"it must be one of {known}{did_you_mean(part, self.choices)}")
        return self.choices[part]


class PathParser(_Parser):
    """Parses the path of a file or folder to write, and removes slashes at its end."""

    placeholder = "PATH"

    def read(self, part: str) -> str:
        """The path."""
        if not part.strip() or "\0" in part:
            raise ValueError("it must be the path of a file or folder to write")
        return part.rstrip("/") or "/"


define_path = functools.partial(flags.DEFINE, PathParser())


class WordsParser(_Parser):
    """Parses options of another program, quoted as for a shell, into a tuple.

    A command has at most one flag of this kind. It also takes all words after `--`.
    """

    placeholder = "'WORD ...'"

    def read(self, part: str) -> tuple[str, ...]:
        """The words."""
        return tuple(split(part))


def split(text: str) -> list[str]:
    """Splits a text into words as a shell does; raises an InputError if a quote is unclosed."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"unclosed quote in {text}") from error


def did_you_mean(text: str, known: Iterable[str], form: str = "{}", likeness: float = 0.6) -> str:
    """A question that names the most similar of the known texts; "" if none is similar.

    Args:
      text: What the user wrote.
      known: All texts that would be right.
      form: Format of the suggestion.
      likeness: Minimum similarity, from 0 to 1.
    """
    near = difflib.get_close_matches(text, list(known), 1, likeness)
    return f"; did you mean {form.format(near[0])}?" if near else ""


def define_texts(name: str, text: str) -> flags.FlagHolder:
    """Defines a flag that may be repeated; its value is a list of texts."""
    holder = flags.DEFINE_multi_string(name, [], text)
    flags.FLAGS[name].help = text  # without the hint that absl adds
    return holder


def placeholder(flag: flags.Flag) -> str:
    """The placeholder for the value of a flag in --help."""
    several = isinstance(flag.parser, flags.ListParser)
    return getattr(flag.parser, "placeholder", "A,B,..." if several else "TEXT")


def is_required(flag: flags.Flag) -> bool:
    """Whether a flag must be given."""
    return any("other than None" in validator.message for validator in flag.validators)
