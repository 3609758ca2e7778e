"""Several workers, one of which is lost: the others end, and say so, to be started again.

A collective operation cannot go on without a worker, nor with one that has forgotten its state. So
all of them end with one status (`command_line.RETRY`); started again, they go on from the last
checkpoint together.

Two things notice. TensorFlow's coordination service does where a process is dead, or stopped so
that its heartbeats are missing: collectives fail then, within seconds (`told`). Where a process
lives and does nothing (storage that does not answer, a deadlock), heartbeats go on, and collectives
wait for ever: so each worker watches that its own steps end, and what is around them (`watched`).
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from bert_tf.training import distribution
from pipelines.common import command_line
from pipelines.common.errors import RetryError

_REMEDY = "Run the same command again, on all workers: they go on from the last checkpoint."
_LEAST_SECONDS = 600.0  # that a step may take: the chief saves a checkpoint within
_UNMEASURED_SECONDS = 1800.0
_TIMES_THE_LONGEST = 10
_LOOKS = 20  # within the time that is allowed
_LONGEST_LOOK = 10.0  # seconds

# What collectives and the coordination service fail with, where a peer is dead, is silent, has
# started anew, or has given up itself.
_OF_PEERS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
# Errors that can have other reasons too, and what their messages say where they are of peers.
_PERHAPS_OF_PEERS = (
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.InvalidArgumentError,
    tf.errors.UnknownError,
)
_CAUSE = "aborted by: "
_WORDS = ("collective", "coordination", "incarnation", "heartbeat", "/job:", "grpc", "rpc")


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Within it, an error that means a lost worker is a `RetryError` that says so.

    Raises:
      RetryError: another worker was lost; only where TF_CONFIG names several.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if not (distribution.in_cluster() and _is_of_peers(error)):
            raise
        raise RetryError(f"another worker was lost ({_reason(error)}). {_REMEDY}") from error


def _is_of_peers(error: tf.errors.OpError) -> bool:
    if isinstance(error, _OF_PEERS):
        return True
    text = error.message.lower()
    return isinstance(error, _PERHAPS_OF_PEERS) and any(word in text for word in _WORDS)


def _reason(error: tf.errors.OpError) -> str:
    """What TensorFlow reports: its status and, where it names one, the cause.

    The rest of its message, which is of operations and where they were defined, is in the error
    that this one was raised from.
    """
    status = type(error).__name__.removesuffix("Error")
    causes = [line for line in error.message.splitlines() if _CAUSE in line]
    cause = causes[0].rpartition(_CAUSE)[2].strip().rstrip(".:") if causes else ""
    return f"{status}: {cause}" if cause else status


class Watch:
    """Looks whether steps end, from a thread of its own.

    Before the first step, which is compiled, and where there are no steps, other work has half an
    hour, or the limit where that is more.

    Args:
      limit: seconds that may pass without a step, once the first has ended; None: by how long they
        take.
      end: is called with the seconds that have passed, when it was too long.
      clock: gives seconds.
    """

    def __init__(
        self,
        limit: float | None,
        end: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._limit, self._end, self._clock = limit, end, clock
        self._longest = 0.0  # seconds of a step; the first one, which is compiled, left out
        # Whether steps are measured, and when the last one ended or other work began; one value, as
        # two threads use it.
        self._state = (False, clock())
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)

    @property
    def allowed(self) -> float:
        """Seconds that may pass without a step at the moment."""
        return self._allowed(self._state[0])

    def _allowed(self, measured: bool) -> float:
        if not measured:
            return max(_UNMEASURED_SECONDS, self._limit or 0.0)
        return self._limit or max(_LEAST_SECONDS, _TIMES_THE_LONGEST * self._longest)

    def alive(self) -> None:
        """A step has ended."""
        now, (measured, last) = self._clock(), self._state
        if measured:
            self._longest = max(self._longest, now - last)
        self._state = (True, now)

    def other_work(self) -> None:
        """What follows is no step, and takes a time of its own."""
        self._state = (False, self._clock())

    @contextlib.contextmanager
    def unmeasured(self) -> Iterator[None]:
        """What is done within is no step, and takes a time of its own; steps follow."""
        self.other_work()
        try:
            yield
        finally:
            self._state = (True, self._clock())

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def close(self) -> None:
        """Ends looking."""
        self._closed.set()
        self._thread.join()

    def _look(self) -> None:
        period = min(_LONGEST_LOOK, (self._limit or _LEAST_SECONDS) / _LOOKS)
        while not self._closed.wait(period):
            measured, last = self._state
            silent = self._clock() - last
            if silent > self._allowed(measured):
                self._end(silent)
                return


@contextlib.contextmanager
def watched(strategy: tf.distribute.Strategy, limit: float | None) -> Iterator[Watch]:
    """Within it, this process ends with a line and status 75 where nothing ends for too long.

    Only where there are several workers: one alone waits for nobody. A process that waits in a
    collective cannot be told anything else.

    Args:
      strategy: the workers.
      limit: see `Watch`.

    Yields:
      What is to be told of each step, and of other work.
    """

    def end(seconds: float) -> None:
        print(file=sys.stderr)  # a progress bar may be there
        command_line.leave(
            f"error: nothing has ended for {seconds:.0f} s (--worker_timeout): this worker hangs, "
            f"or another one does. {_REMEDY}"
        )

    watch = Watch(limit, end)
    if not distribution.has_several_workers(strategy):
        yield watch
        return
    watch.start()
    try:
        yield watch
    finally:
        watch.close()
