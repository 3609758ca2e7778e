"""Batches sequences of many requests by length, and computes them in several threads.

A sequence that arrives while a thread is free is computed at once, by the thread that submits it.
Otherwise it waits until a thread is free, which takes the sequence that has waited longest and
others of similar length. No sequence waits for others to form a batch. Sequences past their
deadline are not computed.
"""

import collections
import contextlib
import contextvars
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.serving.engines import Batch, Compute
from bert_tf.serving.plan import MAX_TOKENS
from pipelines.common.errors import InputError

# Lengths of a batch differ by at most this factor, because padding costs time...
_MAX_RATIO = 1.25
_ALWAYS_NEAR = 8  # ...or by this number of tokens.
_AHEAD = 1024  # waiting sequences among which a batch is found; there may be a million
Results = list[np.ndarray]
_END = contextvars.ContextVar("end", default=math.inf)


@contextlib.contextmanager
def deadline(end: float) -> Iterator[None]:
    """A context in which sequences that this thread submits fail with TimeoutError after `end`.

    `end` is in seconds of `time.monotonic`.
    """
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


class Executable(NamedTuple):
    """A computation that an engine has loaded.

    Attributes:
      outputs: specifications of the results, as those of `Computation`.
      compute: runs it; several threads may call it at once.
      rows: how many sequences of a length it computes at once, if that is limited: one that writes
        texts takes long, and all others wait for it.
    """

    outputs: Sequence[tf.TensorSpec]
    compute: Compute
    rows: Callable[[int], int] | None = None


class Scheduler:
    """Computes sequences, several at once.

    Args:
      threads: number of concurrent computations.
      max_tokens: of a batch, padding included.
      batches: whether sequences are batched at all.
    """

    def __init__(self, threads: int, max_tokens: int = MAX_TOKENS, batches: bool = True):
        self._threads, self._max_tokens, self._batches = threads, max_tokens, batches
        self._changed = threading.Condition()
        self._waiting: collections.deque[_Item] = collections.deque()
        self._busy = 0
        self._closed = False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for worker in self._workers:
            worker.start()

    @property
    def waiting(self) -> int:
        """Number of waiting sequences."""
        return len(self._waiting)

    def submit(self, executable: Executable, batch: Batch) -> "Future[Results]":
        """Starts to compute a request; its results are padded as the request is.

        Raises:
          InputError: the scheduler is closed.
        """
        request = _Request(executable, batch)
        if not request.left:
            request.future.set_result(request.results)
            return request.future
        items = [_Item(request, row, n) for row, n in enumerate(_lengths(batch.mask))]
        with self._changed:
            if self._closed:
                raise InputError("the model was closed; load it again.")
            at_once = len(items) == 1 and not self._waiting and self._busy < self._threads
            if at_once:
                self._busy += 1
            else:
                self._waiting.extend(items)
                self._changed.notify(len(items))
        if at_once:  # handing it to another thread may take as long as the computation
            self._compute(items)
        return request.future

    def close(self) -> None:
        """Computes the waiting sequences, and ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting or self._busy >= self._threads:
                    if self._closed and not self._waiting:
                        return
                    self._changed.wait()
                items = self._take()
                if not items:
                    continue
                self._busy += 1
            self._compute(items)

    def _compute(self, items: "Sequence[_Item]") -> None:
        """Computes sequences of one executable for their requests."""
        executable = items[0].request.executable
        try:
            found = executable.compute(_join(items))
            for source, (request, row, length) in enumerate(items):
                request.finish(row, length, [values[source] for values in found])
        except Exception as error:  # reported to all requests
            for item in items:
                item.request.fail(error)
        with self._changed:
            self._busy -= 1
            self._changed.notify()

    def _take(self) -> "list[_Item]":
        """The sequence that has waited longest, and others of similar length among the next ones.

        Free threads share the waiting sequences, so that none computes all while others idle.
        Sequences past their deadline are dropped; if all are, there is none to compute.
        """
        now, ahead = time.monotonic(), list[_Item]()
        while self._waiting and len(ahead) < (_AHEAD if self._batches else 1):
            item = self._waiting.popleft()
            if item.request.end < now:
                item.request.fail(TimeoutError())
            else:
                ahead.append(item)
        if not ahead:
            return []
        free = max(1, self._threads - self._busy)
        share = -(-(len(ahead) + len(self._waiting)) // free)
        taken = [item for item in ahead if item.fits(ahead[0])]
        taken.sort(key=lambda item: abs(item.length - ahead[0].length))
        longest = max(item.length for item in taken)
        rows = ahead[0].request.executable.rows or (lambda _: share)
        taken = taken[: max(1, min(share, self._max_tokens // longest, rows(longest)))]
        chosen = set(map(id, taken))
        self._waiting.extendleft(item for item in reversed(ahead) if id(item) not in chosen)
        return taken


class _Request:
    """Sequences that were submitted together, and their results."""

    def __init__(self, executable: Executable, batch: Batch):
        self.executable, self.batch, self.end = executable, batch, _END.get()
        self.left, length = batch.ids.shape
        specs = [
            (spec.shape.as_list()[1:], spec.dtype.as_numpy_dtype) for spec in executable.outputs
        ]
        self._per_token = [axes[:1] == [None] for axes, _ in specs]
        self.results = [
            np.zeros([self.left, *(length if axis is None else axis for axis in axes)], dtype)
            for axes, dtype in specs
        ]
        self.future: Future[Results] = Future()
        self._lock = threading.Lock()

    def finish(self, row: int, length: int, found: Sequence[np.ndarray]) -> None:
        """Takes the results of a sequence of `length` tokens."""
        for per_token, kept, fresh in zip(self._per_token, self.results, found, strict=True):
            if per_token:
                kept[row, :length] = fresh[:length]
            else:
                kept[row] = fresh
        with self._lock:
            self.left -= 1
            done = not self.left
        if done and not self.future.done():
            self.future.set_result(self.results)

    def fail(self, error: BaseException) -> None:
        """Reports an error in place of results."""
        with self._lock:
            if not self.future.done():
                self.future.set_exception(error)


class _Item(NamedTuple):
    """A waiting sequence, with its length of at least 1."""

    request: _Request
    row: int
    length: int

    def fits(self, other: "_Item") -> bool:
        """Whether both belong in one batch."""
        short, long = sorted((self.length, other.length))
        alike = long <= max(_MAX_RATIO * short, short + _ALWAYS_NEAR)
        return self.request.executable is other.request.executable and alike


def _lengths(mask: np.ndarray) -> list[int]:
    """Tokens of each sequence up to its last one, at least 1."""
    length = mask.shape[1]
    last = length - mask[:, ::-1].argmax(1)
    return np.where(mask.any(1), last, 1).tolist()


def _join(items: Sequence[_Item]) -> Batch:
    """Sequences as one batch, padded to the longest."""
    if len(items) == 1:
        (request, row, length) = items[0]
        return Batch(*(values[row : row + 1, :length] for values in request.batch))
    joined = Batch(*np.zeros([3, len(items), max(i.length for i in items)], np.int32))
    for place, (request, row, length) in enumerate(items):
        for values, given in zip(joined, request.batch, strict=True):
            values[place, :length] = given[row, :length]
    return joined
