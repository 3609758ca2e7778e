"""Where the steps of a plan run: in processes of this machine, or on a cluster.

A step is a pure function and the items that it is applied to. So its results, and the files that it
writes, are the same for every runner, in any order, and if an item is done twice.
"""

import abc
import collections
import concurrent.futures
import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from pipelines.common import machine, parallel
from pipelines.common.errors import UnfinishedError

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
_BYTES_PER_WORKER = 100_000_000  # at least


class Workers:
    """Computes functions of many items while a runner is started; here, in this process."""

    def map(
        self, function: Callable[[ItemT], ResultT], items: Sequence[ItemT]
    ) -> Generator[tuple[ItemT, ResultT]]:
        """Yields each item with its result, as they are done; no other is begun once it is closed.

        Args:
          function: A pure function that can be pickled. Its results are small JSON values.
          items: Small items that can be pickled.

        Raises:
          InputError: The function raised it, or workers were lost.
        """
        return ((item, function(item)) for item in items)

    def count(
        self,
        function: Callable[[ItemT], Mapping[bytes, int]],
        items: Sequence[ItemT],
        done: Callable[[], object],
    ) -> collections.Counter[bytes]:
        """The sum of the counts that a function returns for each item.

        Args:
          function: See `map`; its results may be large.
          items: See `map`.
          done: Called after each item.

        Raises:
          InputError: See `map`.
        """
        total: collections.Counter[bytes] = collections.Counter()
        for _, counts in self.map(function, items):
            total.update(counts)
            done()
        return total


class Runner(abc.ABC):
    """Runs the steps of plans."""

    @abc.abstractmethod
    def started(self, place: str, module: str) -> contextlib.AbstractContextManager[Workers]:
        """Workers for the duration of a block.

        Args:
          place: Path of the output; temporary files are put next to it.
          module: Name of the module of the functions, which workers may import before.

        Raises:
          InputError: The workers cannot be started.
        """


class LocalRunner(Runner):
    """Runs in processes of this machine.

    Args:
      count: Number of processes; None: one for each core. With 1, the work is done in this process.

    Raises:
      InputError: The memory is too small for so many processes.
    """

    def __init__(self, count: int | None = None):
        self._count = count or machine.cores()
        if count:
            machine.check_memory(count * _BYTES_PER_WORKER, f"--workers={count}")

    @contextlib.contextmanager
    def started(self, place: str, module: str) -> Iterator[Workers]:
        """See `Runner`; processes start with the first work that is worth it."""
        del place  # results come back through pipes
        with contextlib.ExitStack() as stack:
            yield _Processes(self._count, module, stack)


class _Processes(Workers):
    def __init__(self, count: int, module: str, stack: contextlib.ExitStack):
        self._count, self._module, self._stack = count, module, stack
        self._pool: concurrent.futures.Executor | None = None

    def map(
        self, function: Callable[[ItemT], ResultT], items: Sequence[ItemT]
    ) -> Generator[tuple[ItemT, ResultT]]:
        if self._count == 1 or len(items) == 1:
            yield from super().map(function, items)
            return
        if self._pool is None:
            self._pool = self._stack.enter_context(_pool(self._count, self._module))
        futures = {self._pool.submit(function, item): item for item in items}
        try:
            for future in concurrent.futures.as_completed(futures):
                yield futures.pop(future), future.result()  # frees the result
        finally:
            concurrent.futures.wait([future for future in futures if not future.cancel()])


@contextlib.contextmanager
def _pool(count: int, module: str) -> Iterator[concurrent.futures.Executor]:
    pool = parallel.process_pool(count, parallel.ignore_ctrl_c, preload=module)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise UnfinishedError(
            f"a worker process {pool.death()}. Finished work is kept: run the same command again, "
            "with fewer --workers if memory is short."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
