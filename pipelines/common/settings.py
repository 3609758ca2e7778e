"""Settings as dataclasses that say all of each value once: default, range, help, and its flag."""

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Self

from absl import flags

from pipelines.common.errors import InputError

_ABOUT = "about"


@dataclasses.dataclass(frozen=True)
class _About:
    """What is known of a setting, besides its type and default."""

    text: str
    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf
    flag: str | None = None
    choices: tuple[str, ...] = ()

    def admits(self, value: float) -> bool:
        return (
            math.isfinite(value)
            and self.least <= value <= self.most
            and self.above < value < self.below
        )

    @property
    def range(self) -> str:
        """The range in words, "" where any number will do."""
        bounds = (
            ("at least", self.least),
            ("above", self.above),
            ("at most", self.most),
            ("below", self.below),
        )
        return ", ".join(f"{word} {bound:,g}" for word, bound in bounds if math.isfinite(bound))


def setting(
    default: Any,
    text: str,
    *,
    flag: str | None = None,
    choices: tuple[str, ...] = (),
    **limits: float,
) -> Any:
    """A field of a `Settings`.

    Args:
      default: its default.
      text: of the flag, for --help.
      flag: its flag's name, where that is not the field's.
      choices: of a text, all that it may be.
      **limits: `least` and `most`, or `above` and `below`, of numbers.
    """
    about = _About(text, flag=flag, choices=choices, **limits)
    return dataclasses.field(default=default, metadata={_ABOUT: about})


class Settings:
    """What settings have in common; a dataclass derives from it, its fields made by `setting`.

    Fields may be of bool, int, float, str or an enumeration of strings, all of these or None, or
    a tuple of int or float, the flag of which is a list with commas.
    """

    # Fields that are not flags of their own.
    not_flags: ClassVar[frozenset[str]] = frozenset()

    def check(self) -> None:
        """Raises InputError where a value is out of its range."""
        for field in _fields(type(self)):
            value, about = getattr(self, field.name), field.metadata[_ABOUT]
            values = value if isinstance(value, tuple) else (value,)
            numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
            if about.choices and value not in about.choices:
                known = ", ".join(about.choices)
                raise InputError(f"--{about.flag or field.name}={value}: it is one of {known}.")
            if not all(map(about.admits, numbers)) or value == ():
                shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
                raise InputError(
                    f"--{about.flag or field.name}={shown} is out of range: it must be "
                    f"{about.range or 'a number'}."
                )

    @classmethod
    def define_flags(cls) -> None:
        """Defines a flag for each field, with its default, for the command that calls."""
        for field in _fields(cls):
            if field.name not in cls.not_flags:
                _define(field, typing.get_type_hints(cls)[field.name])

    @classmethod
    def from_flags(cls, **others: Any) -> Self:
        """The settings that flags say; `others` are the fields that have none.

        Raises:
          InputError: a list is none of numbers, or a value makes no sense.
        """
        values = {}
        for field in _fields(cls):
            if field.name in cls.not_flags or field.name in others:
                continue
            about = field.metadata[_ABOUT]
            flag = flags.FLAGS[about.flag or field.name]
            kind = typing.get_type_hints(cls)[field.name]
            values[field.name] = _numbers(flag, kind) if _is_tuple(kind) else flag.value
        settings = cls(**values, **others)
        settings.check()
        return settings


def _fields(cls: type) -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(cls) if _ABOUT in field.metadata]


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def _define(field: dataclasses.Field, kind: Any) -> None:
    about = field.metadata[_ABOUT]
    name = about.flag or field.name
    default: Any = field.default
    text = f"{about.text} ({about.range})" if about.range else about.text
    if isinstance(kind, types.UnionType):  # or None
        kind = next(part for part in typing.get_args(kind) if part is not types.NoneType)
    if _is_tuple(kind):
        flags.DEFINE_list(name, [f"{value:g}" for value in default], text)
    elif about.choices:
        flags.DEFINE_enum(name, default, about.choices, text)
    elif issubclass(kind, enum.Enum):
        flags.DEFINE_enum_class(name, default, kind, text)
    else:
        define: dict[type, Callable[..., object]] = {
            bool: flags.DEFINE_bool,
            int: flags.DEFINE_integer,
            float: flags.DEFINE_float,
            str: flags.DEFINE_string,
        }
        define[kind](name, default, text)


def _numbers(flag: flags.Flag, kind: Any) -> tuple[float, ...]:
    number, texts = typing.get_args(kind)[0], flag.value or []
    try:
        found = tuple(number(text) for text in texts)
    except ValueError:
        found = ()
    if not found or not all(map(math.isfinite, found)):
        what = "whole numbers" if number is int else "numbers"
        raise InputError(f"--{flag.name}={','.join(texts)}: not a list of {what}.")
    return found
