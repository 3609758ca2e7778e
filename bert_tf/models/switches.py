"""Switches of what is traced: on within a block, of this thread and what it begins."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TypeVar

ValueT = TypeVar("ValueT")


@contextlib.contextmanager
def switched(switch: contextvars.ContextVar[ValueT], value: ValueT) -> Iterator[None]:
    """Within it, a switch has a value; behind it, that which it had before."""
    token = switch.set(value)
    try:
        yield
    finally:
        switch.reset(token)
