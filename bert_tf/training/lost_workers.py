"""Detects that another worker is lost, so that all workers end and can be started again.

A collective operation cannot continue without a worker, nor with one that has lost its state. All
workers end with one status (`command_line.RETRY`); restarted, they resume from the last checkpoint.

There are two detectors. TensorFlow's coordination service notices missing heartbeats of a dead or
stopped process: collectives fail within seconds (`reported`). Where a process lives but makes no
progress (storage that does not answer, a deadlock), heartbeats continue and collectives would wait
for ever; so each worker monitors its own steps (`watchdog`).
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

_REMEDY = "Run the same command again on all workers: they resume from the last checkpoint."
_MIN_LIMIT = 600.0  # seconds for a step, in which the chief may save a checkpoint
_OTHER_LIMIT = 1800.0  # seconds for everything that is not a step
_TIMES_THE_LONGEST = 10
_CHECKS = 20  # within a limit
_MAX_PERIOD = 10.0  # seconds between checks

# Errors of collectives and of the coordination service where a peer is dead, silent, has restarted
# or has given up itself.
_PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
# Errors that can have other causes too, and the words in their messages that indicate a peer.
_AMBIGUOUS_ERRORS = (
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.InvalidArgumentError,
    tf.errors.UnknownError,
)
_WORDS = ("collective", "coordination", "incarnation", "heartbeat", "/job:", "rpc")
_CAUSE, _NO_CAUSE = "aborted by: ", "Graph execution error:"


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turns TensorFlow's error for a lost worker into a `RetryError`.

    Raises:
      RetryError: another worker was lost; only where TF_CONFIG names several.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if not (distribution.in_cluster() and _is_peer_error(error)):
            raise
        raise RetryError(f"another worker was lost ({_reason(error)}). {_REMEDY}") from error


def _is_peer_error(error: tf.errors.OpError) -> bool:
    if isinstance(error, _PEER_ERRORS):
        return True
    text = error.message.lower()
    return isinstance(error, _AMBIGUOUS_ERRORS) and any(word in text for word in _WORDS)


def _reason(error: tf.errors.OpError) -> str:
    """TensorFlow's status and the cause, or else the first line; not its list of operations."""
    status = type(error).__name__.removesuffix("Error")
    lines = error.message.removeprefix(_NO_CAUSE).splitlines()
    line = next((line for line in lines if _CAUSE in line), "".join(lines[:1]))
    cause = line.rpartition(_CAUSE)[2].strip().rstrip(".:")
    return f"{status}: {cause}" if cause else status


class Watchdog:
    """Monitors from a thread of its own whether steps end.

    Work other than steps, and the first step, which is compiled, may take half an hour, or the
    limit if that is longer.

    Args:
      limit: seconds that may pass without a step; None: ten times the longest one, at least 600.
      end: is called with the seconds that have passed if they exceed the limit.
      clock: returns the time in seconds.
    """

    def __init__(
        self,
        limit: float | None,
        end: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._limit, self._end, self._clock = limit, end, clock
        self._longest = 0.0  # seconds of a step, but for the first one, which is compiled
        # Whether steps run, and when the last one ended or other work began; one value, as two
        # threads use it.
        self._state = (False, clock())
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    @property
    def allowed(self) -> float:
        """Seconds that may pass without a step at the moment."""
        if not self._state[0]:
            return max(_OTHER_LIMIT, self._limit or 0.0)
        return self._limit or max(_MIN_LIMIT, _TIMES_THE_LONGEST * self._longest)

    def step_ended(self) -> None:
        """Notes that a step has ended."""
        now, (in_steps, last) = self._clock(), self._state
        if in_steps:
            self._longest = max(self._longest, now - last)
        self._state = (True, now)

    def other_work(self) -> None:
        """Notes that other work than steps begins."""
        self._state = (False, self._clock())

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A context of other work between steps."""
        self.other_work()
        try:
            yield
        finally:
            self._state = (True, self._clock())

    def start(self) -> None:
        """Starts monitoring."""
        self._thread.start()

    def close(self) -> None:
        """Ends monitoring."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        period = min(_MAX_PERIOD, (self._limit or _MIN_LIMIT) / _CHECKS)
        while not self._closed.wait(period):
            allowed, silent = self.allowed, self._clock() - self._state[1]
            if silent > allowed:
                self._end(silent)
                return


@contextlib.contextmanager
def watchdog(strategy: tf.distribute.Strategy, limit: float | None) -> Iterator[Watchdog]:
    """Ends this process with a message and status 75 if nothing ends within a limit.

    A process that waits in a collective operation can be ended in no other way. Nothing is
    monitored with one worker, which waits for nobody.

    Args:
      strategy: the workers.
      limit: as of `Watchdog`.
    """

    def end(seconds: float) -> None:
        print(file=sys.stderr)  # ends the line of a progress bar
        command_line.leave(
            f"error: nothing has ended for {seconds:.0f} s (--worker_timeout): this worker or "
            f"another one hangs. {_REMEDY}"
        )

    dog = Watchdog(limit, end)
    if not distribution.has_several_workers(strategy):
        yield dog
        return
    dog.start()
    try:
        yield dog
    finally:
        dog.close()
