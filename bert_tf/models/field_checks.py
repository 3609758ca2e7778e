"""Checks of the fields of configurations. This module does not import TensorFlow."""

import dataclasses
import math
import types
from collections.abc import Callable, Sequence, Set
from typing import Any, ClassVar, Self

from pipelines.common.errors import InputError

MAX_SIZE = (1 << 31) - 1


class FieldChecks:
    """Creation of a frozen dataclass from JSON values, and checks of its fields.

    Attributes:
      foreign_keys: Keys of other programs' files that are ignored.
    """

    foreign_keys: ClassVar[Set[str]] = frozenset()

    @classmethod
    def from_dict(cls, values: dict[str, Any], name: str = "the configuration") -> Self:
        """Creates a configuration from JSON values.

        Raises:
          InputError: A key is unknown, or a value is invalid.
        """
        fields = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        unknown = sorted(values.keys() - fields - cls.foreign_keys)
        if unknown:
            raise InputError(
                f"{name}: unknown key {', '.join(map(repr, unknown))}; the keys are "
                f"{', '.join(sorted(fields))}."
            )
        try:
            return cls(**{key: value for key, value in values.items() if key in fields})
        except InputError as error:
            raise InputError(f"{name}: {error}") from error

    def check_whole(self, *names: str, least: int = 1, most: int = MAX_SIZE) -> None:
        """Raises InputError if a field is not a whole number in a range."""
        expected = f"a whole number from {least} to {most:,}"
        self._check(names, lambda v: _is_number(v, int) and least <= v <= most, expected)

    def check_rates(self, *names: str) -> None:
        """Raises InputError if a field is not a number from 0 to below 1."""
        self._check(names, lambda v: _is_number(v) and 0 <= v < 1, "from 0 to below 1")

    def check_positive(self, *names: str) -> None:
        """Raises InputError if a field is not a finite number above 0."""
        self._check(names, lambda v: _is_number(v) and 0 < v < math.inf, "a number above 0")

    def check_flags(self, *names: str) -> None:
        """Raises InputError if a field is not a boolean."""
        self._check(names, lambda v: isinstance(v, bool), "true or false")

    def _check(self, names: Sequence[str], valid: Callable[[Any], bool], expected: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not valid(value):
                large = _is_number(value) and value > MAX_SIZE
                shown = "too large" if large else repr(value)
                raise InputError(f"{name} is {shown}; it must be {expected}.")

    def check_choice(self, name: str, known: Sequence[str]) -> None:
        """Raises InputError if a field is not one of some names."""
        value = getattr(self, name)
        if value not in known:
            raise InputError(f"{name} {value!r} is unknown; use one of {', '.join(known)}.")


def _is_number(value: Any, kind: type | types.UnionType = int | float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
