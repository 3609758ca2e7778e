"""Where the steps of a plan are run: in processes of this machine, or on a cluster.

A step is a pure function and the things that it is done for. So the results, and the files that it
writes, are the same whoever runs it, in whatever order, and if it is done twice.
"""

import abc
import collections
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pipelines.common import process_pool

ThingT = TypeVar("ThingT")
ResultT = TypeVar("ResultT")


class Workers(abc.ABC):
    """What computes functions of many things while a runner is started."""

    @abc.abstractmethod
    def map(
        self,
        function: Callable[[ThingT], ResultT],
        things: Sequence[ThingT],
        reads_only: bool = False,
    ) -> Iterator[tuple[ThingT, ResultT]]:
        """Yields each thing with its result, as they are done.

        Args:
          function: a pure one that can be pickled. What it returns is small: JSON values.
          things: small, too, and picklable.
          reads_only: whether it does little but read files, so that it is not worth the start of
            a process.

        Raises:
          InputError: the function raised it, or workers were lost.
        """

    @abc.abstractmethod
    def count(
        self,
        function: Callable[[ThingT], Mapping[bytes, int]],
        things: Sequence[ThingT],
        done: Callable[[], object],
    ) -> collections.Counter[bytes]:
        """The sum of what a function counts of each thing; arguments and errors as of `map`.

        Args:
          function: as of `map`; it may return more.
          things: as of `map`.
          done: is called for each thing that is done.
        """


class ThisProcess(Workers):
    """Does one thing after the other, here."""

    def map(
        self,
        function: Callable[[ThingT], ResultT],
        things: Sequence[ThingT],
        reads_only: bool = False,
    ) -> Iterator[tuple[ThingT, ResultT]]:
        """See `Workers`."""
        del reads_only
        return ((thing, function(thing)) for thing in things)

    def count(
        self,
        function: Callable[[ThingT], Mapping[bytes, int]],
        things: Sequence[ThingT],
        done: Callable[[], object],
    ) -> collections.Counter[bytes]:
        """See `Workers`."""
        total: collections.Counter[bytes] = collections.Counter()
        for _, counts in self.map(function, things):
            total.update(counts)
            done()
        return total


class Runner(abc.ABC):
    """Runs the steps of plans."""

    @abc.abstractmethod
    def started(self, place: str, module: str) -> contextlib.AbstractContextManager[Workers]:
        """Workers for the time of a block.

        Args:
          place: the path of what is about to be written; files that are needed meanwhile are
            beside it.
          module: of the functions; workers may import it before they get one.

        Raises:
          InputError: there can be no such workers.
        """


class LocalRunner(Runner):
    """Runs in processes of this machine.

    Args:
      count: of processes; None: one for each core. With one, the work is done in this process.

    Raises:
      InputError: this machine cannot have so many.
    """

    def __init__(self, count: int | None = None):
        self._count = process_pool.check_count(count)

    @contextlib.contextmanager
    def started(self, place: str, module: str) -> Iterator[Workers]:
        """See `Runner`; processes start with the first work that is worth it."""
        del place  # results come back through pipes
        with contextlib.ExitStack() as stack:
            yield _Processes(self._count, module, stack)


class _Processes(ThisProcess):
    def __init__(self, count: int, module: str, stack: contextlib.ExitStack):
        self._count, self._module, self._stack = count, module, stack
        self._run: Callable[..., Iterator[Any]] | None = None

    def map(
        self,
        function: Callable[[ThingT], ResultT],
        things: Sequence[ThingT],
        reads_only: bool = False,
    ) -> Iterator[tuple[ThingT, ResultT]]:
        if reads_only or len(things) == 1:
            return super().map(function, things)
        if self._run is None:
            pool = process_pool.pool(self._count, self._module)
            self._run = self._stack.enter_context(pool)
        return self._run(function, things)
