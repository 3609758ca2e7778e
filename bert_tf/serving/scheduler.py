"""Sequences of many requests, put together by length and computed by several threads.

A sequence that comes while a thread is free is computed at once, by the thread that brings it. What
comes while all are busy waits: a thread that gets free takes the sequence that waits longest, and
others about as long. Nothing waits for company. What nobody waits for any more is not computed.
"""

import collections
import contextlib
import contextvars
import dataclasses
import functools
import math
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.serving.engines.base import Compute, Sequences
from bert_tf.serving.engines.plans import MOST_TOKENS

# Sequences are computed together whose lengths differ by no more: what is longer costs padding.
_ALIKE = 1.25
_NEAR = 8  # tokens by which they may differ in any case
Results = list[np.ndarray]
_END = contextvars.ContextVar("end", default=math.inf)


@contextlib.contextmanager
def deadline(end: float) -> Iterator[None]:
    """Within it, sequences that this thread submits fail with TimeoutError if they wait too long.

    Args:
      end: by `time.monotonic`.
    """
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """What is computed of sequences.

    Attributes:
      outputs: the specifications of the results, as those of `Computation`.
      compute: computes them, as fast as it can where several computations run at once.
      alone: computes one sequence, as fast as it can where nothing else runs.
    """

    outputs: tuple[tf.TensorSpec, ...]
    compute: Compute
    alone: Compute

    @functools.cached_property
    def _forms(self) -> list[tuple[list[int | None], type, bool]]:
        """Of each result, its axes but the first, its dtype, and whether it is of tokens."""
        specs = [(spec.shape.as_list()[1:], spec.dtype.as_numpy_dtype) for spec in self.outputs]
        return [(axes, dtype, axes[:1] == [None]) for axes, dtype in specs]

    def nothing(self, count: int, length: int) -> Results:
        """Zeros of the form of the results.

        Args:
          count: of sequences.
          length: of the longest.
        """
        return [
            np.zeros([count, *(length if axis is None else axis for axis in axes)], dtype)
            for axes, dtype, _ in self._forms
        ]

    def place(self, results: Results, row: int, length: int, found: Results, source: int) -> None:
        """Puts the results of one sequence into those of a request.

        Args:
          results: where to.
          row: of the sequence in them.
          length: of the sequence.
          found: what was computed.
          source: the row of the sequence in that.
        """
        for (_, _, of_tokens), kept, fresh in zip(self._forms, results, found, strict=True):
            if of_tokens:
                kept[row, :length] = fresh[source, :length]
            else:
                kept[row] = fresh[source]


class Scheduler:
    """Computes sequences, several at once.

    Args:
      threads: that compute at once.
      most_tokens: of sequences that are computed together, padding included.
      grouped: whether sequences are computed together at all.
    """

    def __init__(
        self,
        threads: int,
        most_tokens: int = MOST_TOKENS,
        grouped: bool = True,
    ):
        self._threads, self._most_tokens, self._grouped = threads, most_tokens, grouped
        self._changed = threading.Condition()
        self._waiting: collections.deque[_Item] = collections.deque()
        self._busy = 0
        self._closed = False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for worker in self._workers:
            worker.start()

    @property
    def waiting(self) -> int:
        """How many sequences wait."""
        return len(self._waiting)

    def submit(self, step: Step, sequences: Sequences) -> "Future[Results]":
        """Begins to compute; the results are as long as the sequences are.

        Args:
          step: what to compute.
          sequences: of what.
        """
        request = _Request(step, sequences)
        if not request.left:
            request.future.set_result(request.results)
            return request.future
        items = [_Item(request, row, n) for row, n in enumerate(_lengths(sequences.mask))]
        with self._changed:
            at_once = len(items) == 1 and not self._waiting and self._busy < self._threads
            if at_once:
                alone = self._begin(items)
            else:
                self._waiting.extend(items)
                self._changed.notify(len(items))
        if at_once:  # handing it to another thread may take as long as it takes itself
            self._compute(items, alone)
        return request.future

    def close(self) -> None:
        """Computes what waits, and ends."""
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
                self._drop_late()
                if not self._waiting:
                    continue
                items = self._take()
                alone = self._begin(items)
            self._compute(items, alone)

    def _begin(self, items: "Sequence[_Item]") -> bool:
        """Notes that something is computed; returns whether it is a sequence and nothing else."""
        alone = len(items) == 1 and not self._waiting and not self._busy
        self._busy += 1
        return alone

    def _compute(self, items: "Sequence[_Item]", alone: bool) -> None:
        _compute(items, alone)
        with self._changed:
            self._busy -= 1
            self._changed.notify()

    def _drop_late(self) -> None:
        """Drops sequences that nobody waits for any more."""
        now = time.monotonic()
        late = {id(i.request): i.request for i in self._waiting if i.request.end < now}
        if not late:
            return
        self._waiting = collections.deque(i for i in self._waiting if id(i.request) not in late)
        for request in late.values():
            request.fail(TimeoutError())

    def _take(self) -> "list[_Item]":
        """The sequence that waits longest, and those that go with it.

        Free threads share what waits, so that none computes all of it while others do nothing.
        """
        if not self._grouped:
            return [self._waiting.popleft()]
        first = self._waiting[0]
        free = max(1, self._threads - self._busy)
        share = -(-len(self._waiting) // free)
        taken = [item for item in self._waiting if item.goes_with(first)]
        taken.sort(key=lambda item: abs(item.length - first.length))
        longest = max(item.length for item in taken)
        taken = taken[: max(1, min(share, self._most_tokens // max(longest, 1)))]
        chosen = set(map(id, taken))
        self._waiting = collections.deque(i for i in self._waiting if id(i) not in chosen)
        return taken


class _Request:
    """Sequences that were asked for together, and their results."""

    def __init__(self, step: Step, sequences: Sequences):
        self.step, self.sequences, self.end = step, sequences, _END.get()
        self.left, length = sequences.ids.shape
        self.results = step.nothing(self.left, length)
        self.future: Future[Results] = Future()
        self._lock = threading.Lock()

    def finish_one(self) -> None:
        """Notes that one more sequence has its results."""
        with self._lock:
            self.left -= 1
            done = not self.left
        if done and not self.future.done():
            self.future.set_result(self.results)

    def fail(self, error: BaseException) -> None:
        """Notes that the results cannot be computed."""
        with self._lock:
            if not self.future.done():
                self.future.set_exception(error)


class _Item(NamedTuple):
    """A sequence that waits."""

    request: _Request
    row: int
    length: int

    def goes_with(self, other: "_Item") -> bool:
        """Whether both are computed together well."""
        short, long = sorted((self.length, other.length))
        alike = long <= max(_ALIKE * short, short + _NEAR)
        return self.request.step is other.request.step and alike


def _lengths(mask: np.ndarray) -> list[int]:
    """The tokens of each sequence up to its last; one at the least."""
    length = mask.shape[1]
    last = length - mask[:, ::-1].argmax(1)
    return np.where(mask.any(1), last, 1).tolist()


def _compute(items: Sequence[_Item], alone: bool) -> None:
    """Computes sequences of one step, for their requests."""
    step = items[0].request.step
    try:
        compute = step.alone if alone else step.compute
        found = list(compute(_joined(items)))
    except Exception as error:  # whoever asked is told
        for item in items:
            item.request.fail(error)
        return
    for source, (request, row, length) in enumerate(items):
        step.place(request.results, row, length, found, source)
        request.finish_one()


def _joined(items: Sequence[_Item]) -> Sequences:
    """Sequences in one batch, as long as the longest."""
    if len(items) == 1:
        (request, row, length) = items[0]
        return Sequences(*(values[row : row + 1, :length] for values in request.sequences))
    joined = Sequences(*np.zeros([3, len(items), max(i.length for i in items)], np.int32))
    for place, (request, row, length) in enumerate(items):
        for values, given in zip(joined, request.sequences, strict=True):
            values[place, :length] = given[row, :length]
    return joined
