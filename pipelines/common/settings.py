"""Flags that follow from code: of dataclasses of settings, and of the function of a command."""

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self, cast

from absl import flags

from pipelines.common.errors import InputError
from pipelines.common.flag_types import REQUIRED, Flag, Group

_ENTRY = re.compile(r"^  (\w+): (.*(?:\n    .*)*)", re.MULTILINE)


def _texts(documented: Any) -> dict[str, str]:
    """The entries of the section Flags in the docstring of a class or function."""
    found = _ENTRY.findall(inspect.cleandoc(documented.__doc__ or "").partition("\nFlags:\n")[2])
    return {name: " ".join(text.split()) for name, text in found}


class Settings:
    """Base of dataclasses of settings, of which some are flags.

    A flag is a field that is described in the section Flags of the docstring of its class; its type
    is as of `Flag`.
    """

    # Heading of the flags in --help.
    group: ClassVar[Group] = Group.DATA

    def check(self) -> None:
        """Raises InputError if a value is out of its range."""
        for name, flag in self.own_flags():
            value = getattr(self, name)
            try:
                value is None or flag.parser.parse(value)
            except ValueError as error:
                shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
                raise InputError(f"--{flag.name}={shown}: {error}") from error

    def describe(self) -> dict[str, Any]:
        """All values by name, as JSON values."""
        values = dataclasses.asdict(cast(Any, self))
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def own_flags(cls) -> Iterator[tuple[str, Flag]]:
        """The name of each field that is a flag, and a new flag for it."""
        kinds, texts = typing.get_type_hints(cls, include_extras=True), dict[str, str]()
        for base in reversed(cls.__mro__):
            texts |= _texts(base)
        for field in dataclasses.fields(cast(Any, cls)):
            if field.name in texts and field.init:
                default = REQUIRED if field.default is dataclasses.MISSING else field.default
                kind, text = kinds[field.name], texts[field.name]
                yield field.name, Flag(field.name, kind, default, text, cls.group)

    @classmethod
    def from_flags(cls, **others: Any) -> Self:
        """The settings given by flags; `others` are values of fields without a flag.

        Raises:
          InputError: The values contradict each other.
        """
        values = {name: flags.FLAGS[flag.name].value for name, flag in cls.own_flags()}
        settings = cls(**values | others)
        settings.check()
        return settings

    @classmethod
    def given_by_flags(cls) -> dict[str, Any]:
        """The values of the fields whose flags are given; raises as `from_flags` does."""
        settings = cls.from_flags()
        given = (name for name, flag in cls.own_flags() if flags.FLAGS[flag.name].present)
        return {name: getattr(settings, name) for name in given}


def flags_of(main: Callable[..., object]) -> Iterator[Flag]:
    """The flags of a command's function.

    A parameter is a flag, which the section Flags of the docstring describes; or a `Settings`, for
    all its flags; or, to get it as a class, the type of one.
    """
    texts = _texts(main)
    for name, parameter, kind in _parameters(main):
        if settings := _settings(kind):
            yield from (flag for _, flag in settings.own_flags())
        else:
            default = REQUIRED if parameter.default is parameter.empty else parameter.default
            yield Flag(name, kind, default, texts[name], Group.DATA)


def arguments_of(main: Callable[..., object]) -> dict[str, Any]:
    """The arguments of a command's function, by the values of its flags.

    Raises:
      InputError: Settings contradict each other.
    """
    found: dict[str, Any] = {}
    for name, _, kind in _parameters(main):
        settings = _settings(kind)
        if settings is None:
            found[name] = flags.FLAGS[name].value
        else:
            found[name] = settings.from_flags() if kind is settings else settings
    return found


def _parameters(main: Callable[..., object]) -> Iterator[tuple[str, inspect.Parameter, Any]]:
    kinds = typing.get_type_hints(main, include_extras=True)
    for name, parameter in inspect.signature(main).parameters.items():
        yield name, parameter, kinds[name]


def _settings(kind: Any) -> type[Settings] | None:
    """The class of the settings that a parameter of a type has, or is."""
    kind = typing.get_args(kind)[0] if typing.get_origin(kind) is type else kind
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None
