"""A pool of processes that ends with its parent and says why it broke."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, forkserver
from typing import Any

from pipelines.common import memory
from pipelines.common.errors import InputError

_BYTES_A_WORKER = 100_000_000  # at the least


def default_workers() -> int:
    """One worker for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_count(workers: int | None) -> int:
    """The number of workers asked for, or by default.

    Raises:
      InputError: it is none that this machine can have.
    """
    if workers is None:
        return default_workers()
    if workers < 1:
        raise InputError(f"--workers={workers}: it must be 1 or more.")
    memory.check(workers * _BYTES_A_WORKER, f"--workers={workers}")
    return workers


@contextlib.contextmanager
def pool(workers: int, preload: str) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yields `run(function, items)`, which yields (item, result) pairs as they are done.

    With one worker the work is done in this process. Otherwise the workers are
    forked from a server process that has imported `preload`, so that its
    memory is shared and threads of this process do no harm.

    Raises:
      InputError: a worker was killed.
    """
    if workers <= 1:
        yield lambda function, items: ((item, function(item)) for item in items)
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pipelines.common.quiet_worker", preload])
    with _ctrl_c_ignored():  # by the server, and while it imports, too
        forkserver.ensure_running()
    executor = concurrent.futures.ProcessPoolExecutor(workers, context, initializer=_start_worker)

    def run(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        futures = {executor.submit(function, item): item for item in items}
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()

    try:
        yield run
    except BrokenProcessPool as error:
        raise InputError(
            "a worker process was killed, most likely for want of memory. Finished work is kept: "
            "run the same command again, with fewer --workers if memory is short."
        ) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Processes that are started meanwhile leave Ctrl-C to their parent."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread: signals are others' business
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    end_with_parent()


def end_with_parent() -> None:
    """From now on this process, which another one has started, ends when that one does."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # a worker has one
    connection.wait([parent.sentinel])
    os._exit(1)
