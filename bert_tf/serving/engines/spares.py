"""What does one thing at a time, and of which there are as many as are used at once."""

import contextlib
import queue
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

ThingT = TypeVar("ThingT")


class Spares(Generic[ThingT]):
    """Lends things to threads, and makes one where none is there.

    Args:
      make: makes one.
    """

    def __init__(self, make: Callable[[], ThingT]):
        self._make = make
        self._there: queue.SimpleQueue[ThingT] = queue.SimpleQueue()

    @contextlib.contextmanager
    def lent(self) -> Iterator[ThingT]:
        """One that nobody else uses meanwhile."""
        try:
            thing = self._there.get_nowait()
        except queue.Empty:
            thing = self._make()
        try:
            yield thing
        finally:
            self._there.put(thing)
