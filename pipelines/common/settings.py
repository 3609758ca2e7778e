"""Settings as dataclasses that say all of each value once: default, range, help, and its flag."""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Self, cast

from absl import flags

from pipelines.common import flag_groups, flag_types
from pipelines.common.errors import InputError
from pipelines.common.flag_groups import Group
from pipelines.common.flag_types import Limits

_ABOUT = "about"


@dataclasses.dataclass(frozen=True)
class _About:
    """What is known of a setting, besides its type and default."""

    text: str
    group: Group
    limits: Limits
    flag: str | None = None
    choices: tuple[str, ...] = ()


def setting(
    default: Any,
    text: str,
    *,
    group: Group,
    flag: str | None = None,
    choices: tuple[str, ...] = (),
    **limits: float,
) -> Any:
    """A field of a `Settings`.

    Args:
      default: its default.
      text: of the flag, for --help.
      group: under which heading of it.
      flag: its flag's name, where that is not the field's.
      choices: of a text, all that it may be.
      **limits: `least` and `most`, or `above` and `below`, of numbers.
    """
    about = _About(text, group, Limits(**limits), flag, choices)
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
            if about.choices and value is not None and value not in about.choices:
                known = ", ".join(about.choices)
                raise InputError(f"--{about.flag or field.name}={value}: it is one of {known}.")
            if not all(map(about.limits.admits, numbers)) or value == ():
                shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
                raise InputError(
                    f"--{about.flag or field.name}={shown} is out of range: it must be "
                    f"{about.limits.words or 'a number'}."
                )

    def describe(self) -> dict[str, Any]:
        """All values by name, as JSON has them."""
        values = dataclasses.asdict(cast(Any, self))
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def help_of(cls, name: str) -> str:
        """What --help says of a field."""
        (field,) = (field for field in _fields(cls) if field.name == name)
        return field.metadata[_ABOUT].text

    @classmethod
    def define_flags(cls) -> None:
        """Defines a flag for each field, with its default, for the command that calls."""
        for field in _fields(cls):
            if field.name not in cls.not_flags:
                with flag_groups.group(field.metadata[_ABOUT].group):
                    _define(field, typing.get_type_hints(cls)[field.name])

    @classmethod
    def from_flags(cls, **others: Any) -> Self:
        """The settings that flags say; `others` are the fields that have none.

        Raises:
          InputError: values do not go together.
        """
        values = {
            field.name: flags.FLAGS[field.metadata[_ABOUT].flag or field.name].value
            for field in _fields(cls)
            if field.name not in cls.not_flags and field.name not in others
        }
        settings = cls(**values, **others)
        settings.check()
        return settings


def _fields(cls: type) -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(cls) if _ABOUT in field.metadata]


def _define(field: dataclasses.Field, kind: Any) -> None:
    """Defines the flag of a field, whose type is `kind`."""
    about, default = field.metadata[_ABOUT], typing.cast(Any, field.default)
    name = about.flag or field.name
    if isinstance(kind, types.UnionType):  # or None
        kind = next(part for part in typing.get_args(kind) if part is not types.NoneType)
    if typing.get_origin(kind) is tuple:
        number = typing.get_args(kind)[0]
        flag_types.define_numbers(name, default, about.text, number, about.limits)
    elif kind in (int, float):
        flag_types.define_number(name, default, about.text, kind, about.limits)
    elif about.choices or issubclass(kind, enum.Enum):
        flag_types.define_choice(name, default, about.choices or kind, about.text)
    else:
        define: dict[type, Callable[..., object]] = {
            bool: flags.DEFINE_bool,
            str: flags.DEFINE_string,
        }
        define[kind](name, default, about.text)
