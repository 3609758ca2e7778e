"""Work that several threads share."""

import collections
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def mapped(
    function: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
) -> Iterator[ResultT]:
    """The results for items, in their order; no more than a few are waited for at once.

    Args:
      function: of one item; what it raises is raised here.
      items: any number of them.
      threads: that work; with one, this thread does it.
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
