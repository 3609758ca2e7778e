"""Checks of the fields of configurations. This module does not import TensorFlow."""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Annotated, Any, ClassVar, NamedTuple, Self, cast

from pipelines.common.errors import InputError

MAX_SIZE = (1 << 31) - 1


class Rule(NamedTuple):
    """The valid values of a field, as part of its type: `Annotated[int, whole(most=100)]`."""

    accepts: Callable[[Any], bool]
    expected: str  # the valid values in words


def whole(least: int = 1, most: int = MAX_SIZE) -> Rule:
    """The whole numbers of a range."""
    expected = f"a whole number from {least} to {most:,}"
    return Rule(lambda v: _is_number(v, int) and least <= v <= most, expected)


def _is_number(value: Any, kind: type | types.UnionType = int | float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


Size = Annotated[int, whole()]
Count = Annotated[int, whole(least=0)]
Rate = Annotated[float, Rule(lambda v: _is_number(v) and 0 <= v < 1, "from 0 to below 1")]
Positive = Annotated[float, Rule(lambda v: _is_number(v) and 0 < v < math.inf, "a number above 0")]
Flag = Annotated[bool, Rule(lambda v: isinstance(v, bool), "true or false")]


class _Check(NamedTuple):
    """A field with a rule, and whether it may also be None."""

    name: str
    rule: Rule
    optional: bool


class FieldChecks:
    """A frozen dataclass that is created from JSON values and checks its fields.

    The types of fields contain their rules, such as `Size` or `Rate | None`.

    Attributes:
      foreign_keys: Keys of other programs' files that are ignored.
      foreign_values: Other such keys, with the only value that is supported.
    """

    foreign_keys: ClassVar[Set[str]] = frozenset()
    foreign_values: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        """Raises InputError if a field violates the rule of its type."""
        for name, rule, optional in _checks(cast(Any, type(self))):
            value = getattr(self, name)
            if not rule.accepts(value) and not (optional and value is None):
                large = _is_number(value) and value > MAX_SIZE
                shown = "too large" if large else repr(value)
                raise InputError(f"{name} is {shown}; it must be {rule.expected}.")

    @classmethod
    def from_dict(cls, values: dict[str, Any], name: str = "the configuration") -> Self:
        """Creates a configuration from JSON values.

        Raises:
          InputError: A key is unknown, or a value is invalid.
        """
        fields = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        for key, only in cls.foreign_values.items():
            if values.get(key, only) != only:
                raise InputError(f"{name}: {key} is {values[key]!r}; only {only!r} is supported.")
        unknown = sorted(values.keys() - fields - cls.foreign_keys - cls.foreign_values.keys())
        if unknown:
            raise InputError(
                f"{name}: unknown key {', '.join(map(repr, unknown))}; the keys are "
                f"{', '.join(sorted(fields))}."
            )
        try:
            return cls(**{key: value for key, value in values.items() if key in fields})
        except InputError as error:
            raise InputError(f"{name}: {error}") from error

    def check_choice(self, name: str, known: Sequence[str]) -> None:
        """Raises InputError if a field is not one of some names."""
        value = getattr(self, name)
        if value not in known:
            raise InputError(f"{name} {value!r} is unknown; use one of {', '.join(known)}.")


@functools.cache
def _checks(cls: type) -> list[_Check]:
    """The checks of the fields of a dataclass, in the order of the fields."""
    hints = typing.get_type_hints(cls, include_extras=True)
    found = []
    for field in dataclasses.fields(cls):
        parts = typing.get_args(hints[field.name])
        optional = types.NoneType in parts
        for part in parts if optional else (hints[field.name],):
            rules = getattr(part, "__metadata__", ())
            found += [_Check(field.name, rule, optional) for rule in rules]
    return found
