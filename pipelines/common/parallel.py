"""Work in parallel: in threads, and in processes that end with this one."""

import collections
import contextlib
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import connection, forkserver
from typing import Any, TypeVar

from pipelines.common import machine

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def mapped(
    function: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
) -> Generator[ResultT, None, None]:
    """Yields the results for items, in order; only a few items are read ahead.

    Args:
      function: Computes one result; its exceptions are raised here.
      items: Any number of items.
      threads: Number of threads; with 1, the work is done in this thread.
    """
    if threads == 1:
        yield from map(function, items)
        return
    waiting: collections.deque[Future[ResultT]] = collections.deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class ProcessPool(ProcessPoolExecutor):
    """A pool that knows how its processes ended."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._oom_kills = machine.oom_kills()

    def death(self) -> str:
        """What is known of the process that broke the pool, as a predicate; ends the others."""
        processes = list((self._processes or {}).values())  # there is no public way
        self.shutdown()
        codes = [process.exitcode for process in processes if process.exitcode]
        # The pool ends the others by SIGTERM.
        code = next((code for code in codes if code != -signal.SIGTERM), codes[0] if codes else 0)
        if code >= 0:
            return f"ended with exit code {code}" if code else "ended"
        text = f"was killed by {signal.Signals(-code).name}"
        if code != -signal.SIGKILL:
            return text
        known = machine.oom_kills() > self._oom_kills
        return f"{text}, {'because' if known else 'perhaps because'} memory ran out"


def process_pool(
    workers: int, prepare: Callable[..., object], *arguments: object, preload: str = ""
) -> ProcessPool:
    """A pool of processes that end when this process ends, however it ends.

    Args:
      workers: Number of processes.
      prepare: Called in each process before its first work.
      *arguments: Arguments of `prepare`.
      preload: Name of a module. The processes are forked from a server that has imported it and
        TensorFlow, so that they share its memory; threads of this process do no harm. If empty,
        each process is a new Python.
    """
    context = multiprocessing.get_context("forkserver" if preload else "spawn")
    if preload:
        start_server(preload)
    start = functools.partial(_start_worker, prepare, *arguments)
    return ProcessPool(workers, context, start)


def start_server(preload: str) -> None:
    """Starts the server of `process_pool`, unless it runs: it imports while this process goes on.

    Args:
      preload: See `process_pool`.
    """
    multiprocessing.set_forkserver_preload(["pipelines.common.quiet_worker", preload])
    with _ctrl_c_ignored():  # by the server, also while it imports
        forkserver.ensure_running()


def ignore_ctrl_c() -> None:
    """Leaves the decision to stop to the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Ctrl-C does not reach the processes that are started in the block."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread, which owns the signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start_worker(prepare: Callable[..., object], *arguments: object) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare(*arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # a worker has one
    connection.wait([parent.sentinel])
    os._exit(1)
