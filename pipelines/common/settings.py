"""Settings as dataclasses that define each value once: its default, range, help, and flag."""

import dataclasses
import enum
import types
import typing
from typing import Any, ClassVar, NamedTuple, Self, cast

from absl import flags

from pipelines.common import flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group

_ABOUT = "about"


class _About(NamedTuple):
    text: str
    group: Group | None
    flag: str | None
    choices: tuple[str, ...]
    parser: flags.ArgumentParser | None
    limits: dict[str, Any]


def setting(
    default: Any,
    text: str,
    *,
    group: Group | None = None,
    flag: str | None = None,
    choices: tuple[str, ...] = (),
    parser: flags.ArgumentParser | None = None,
    **limits: float,
) -> Any:
    """A field of a `Settings`.

    Args:
      default: Default value.
      text: Text of the flag in --help.
      group: Heading of the flag in --help, if it is not that of the class.
      flag: Name of the flag, if it is not that of the field.
      choices: All allowed values of a text.
      parser: Parser of the flag, if the type of the field does not imply it.
      **limits: Range of a number: `minimum`, `above`, `maximum` and `below`.
    """
    about = _About(text, group, flag, choices, parser, limits)
    return dataclasses.field(default=default, metadata={_ABOUT: about})


class Settings:
    """Base of dataclasses whose fields are made by `setting`.

    Fields may be of bool, int, float, str or an enumeration of strings, all of these or None, or
    a tuple of int or float, whose flag is a list separated by commas.
    """

    # Heading of the flags in --help.
    group: ClassVar[Group] = Group.DATA

    def check(self) -> None:
        """Raises InputError if a value is out of its range."""
        for name, about, parser in _fields(type(self)):
            value = getattr(self, name)
            if value is None or parser is None:
                continue
            try:
                parser.parse(value)
            except ValueError as error:
                shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
                raise InputError(f"--{about.flag or name}={shown}: {error}") from error

    def describe(self) -> dict[str, Any]:
        """All values by name, as JSON values."""
        values = dataclasses.asdict(cast(Any, self))
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def define_flags(cls) -> None:
        """Defines a flag for each field."""
        defaults = {field.name: field.default for field in dataclasses.fields(cast(Any, cls))}
        kinds = typing.get_type_hints(cls)
        for name, about, parser in _fields(cls):
            arguments = (about.flag or name, cast(Any, defaults[name]), about.text)
            with flag_types.group(about.group or cls.group):
                if parser is not None:
                    flags.DEFINE(parser, *arguments)
                elif kinds[name] in (bool, bool | None):
                    flags.DEFINE_bool(*arguments)
                else:
                    flags.DEFINE_string(*arguments)

    @classmethod
    def from_flags(cls, **others: Any) -> Self:
        """The settings given by flags; `others` are values of fields without a flag.

        Raises:
          InputError: The values contradict each other.
        """
        values = {
            name: flags.FLAGS[about.flag or name].value
            for name, about, _ in _fields(cls)
            if name not in others
        }
        settings = cls(**values, **others)
        settings.check()
        return settings

    @classmethod
    def given_by_flags(cls) -> dict[str, Any]:
        """The values of the fields whose flags are given; raises as `from_flags` does."""
        settings = cls.from_flags()
        return {
            name: getattr(settings, name)
            for name, about, _ in _fields(cls)
            if flags.FLAGS[about.flag or name].present
        }


def _fields(cls: type) -> list[tuple[str, _About, flags.ArgumentParser | None]]:
    """The fields made by `setting`, with the parser of numbers and choices."""
    kinds = typing.get_type_hints(cls)
    found = [field for field in dataclasses.fields(cls) if _ABOUT in field.metadata]
    abouts = ((field.name, cast(_About, field.metadata[_ABOUT])) for field in found)
    return [(name, about, _parser(kinds[name], about)) for name, about in abouts]


def _parser(kind: Any, about: _About) -> flags.ArgumentParser | None:
    if about.parser is not None:
        return about.parser
    if isinstance(kind, types.UnionType):  # or None
        kind = next(part for part in typing.get_args(kind) if part is not types.NoneType)
    if typing.get_origin(kind) is tuple:
        return flag_types.NumberParser(typing.get_args(kind)[0], several=True, **about.limits)
    if kind in (int, float):
        return flag_types.NumberParser(kind, **about.limits)
    if about.choices or issubclass(kind, enum.Enum):
        return flag_types.ChoiceParser(about.choices or kind)
    return None
