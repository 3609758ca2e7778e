"""Switches of what is traced: on within a block, of this thread and what it begins."""

import contextlib
import contextvars
from collections.abc import Iterator


@contextlib.contextmanager
def switched(switch: contextvars.ContextVar[bool], on: bool) -> Iterator[None]:
    """Within it, a switch is on, or off; behind it, as it was before."""
    token = switch.set(on)
    try:
        yield
    finally:
        switch.reset(token)
