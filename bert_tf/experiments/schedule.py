"""Runs jobs in processes of their own, one or several at a time."""

import concurrent.futures
import contextlib
import dataclasses
import enum
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, NamedTuple

from absl import logging

from pipelines.common import parallel, quiet_start, stopping
from pipelines.common.errors import InputError

# A worker process imports this module before it silences TensorFlow, so it must not import it.
if TYPE_CHECKING:
    from bert_tf.experiments.jobs import Job, JobOutcome

_MAX_CALLS = 12  # of a process, before a new one replaces it; this bounds leaked memory


class JobState(enum.StrEnum):
    """The state of a job."""

    WAITING = "waits"
    RUNNING = "runs"
    DONE = "done"
    FAILED = "failed"  # it is tried again when the command is run again
    SKIPPED = "skipped"  # a job that it needs failed or diverged


@dataclasses.dataclass
class JobEntry:
    """A job, its state, its outcome when done, and why it failed or was skipped."""

    job: "Job"
    state: JobState = JobState.WAITING
    outcome: "JobOutcome | None" = None
    error: str = ""

    @property
    def is_lost(self) -> bool:
        """Whether the job has ended without a result that others could use."""
        diverged = self.outcome and self.outcome.get("diverged") and not self.outcome["scores"]
        return self.state in (JobState.FAILED, JobState.SKIPPED) or bool(diverged)


class CallResult(NamedTuple):
    """The result of a call in another process: a value, or an error message."""

    value: Any = None
    error: str = ""
    stopped: bool = False


class JobWorker:
    """A process that does one call at a time, so that TensorFlow starts once for several.

    Args:
      device: number of its GPU; "": all devices.
    """

    def __init__(self, device: str = ""):
        self._device = device
        self._pool: ProcessPoolExecutor | None = None
        self._process = self._calls = 0

    def submit(self, log: str, function: Callable[..., Any], *arguments: Any) -> Future:
        """Begins a call; its output is appended to a log, and its future gives a `CallResult`."""
        if self._calls >= _MAX_CALLS:
            self.close()
        if self._pool is None:
            self._pool = parallel.process_pool(1, _start, self._device)
            self._process, self._calls = self._pool.submit(os.getpid).result(), 0
        self._calls += 1
        return self._pool.submit(_call, log, function, arguments)

    def result(self, future: Future) -> CallResult:
        """Waits for the result of a call."""
        try:
            return future.result()
        except BrokenProcessPool:
            self.close()
            return CallResult(error="its process was killed; it may have run out of memory")

    def stop(self) -> None:
        """Asks the running call to end, as SIGTERM does with a command."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGTERM)

    def close(self) -> None:
        """Waits for the call and ends the process."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _start(device: str) -> None:
    """Prepares a worker process."""
    os.setsid()  # Ctrl-C is for the parent, which asks its workers to stop
    if device:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    quiet_start.import_silently()
    logging.set_verbosity(logging.INFO)
    stopping.raise_stopped()


def _call(log: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> CallResult:
    with _logged(log):
        try:
            return CallResult(function(*arguments))
        except stopping.Stopped:
            return CallResult(error="stopped", stopped=True)
        except InputError as error:
            return CallResult(error=str(error))
        except Exception as error:  # a bug: the log has the traceback
            traceback.print_exc()
            return CallResult(error=f"{type(error).__name__}: {error} (see {log})")


@contextlib.contextmanager
def _logged(path: str) -> Iterator[None]:
    """Appends everything that is printed to a file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    kept = os.dup(1), os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in enumerate(kept, 1):
            os.dup2(copy, number)
            os.close(copy)


def run(
    entries: Mapping[str, JobEntry],
    devices: Sequence[str],
    begin: Callable[[JobWorker, "Job"], Future],
    changed: Callable[[JobEntry], None],
) -> None:
    """Does all jobs that wait; those that fail do not keep the others from running.

    Args:
      entries: by the name of the job, in an order in which they can be done.
      devices: the GPU of each process, or "".
      begin: begins a job in a process.
      changed: is called with each entry whose state has changed.

    Raises:
      stopping.Stopped: a signal came; running jobs will resume from their checkpoints.
    """
    workers = list(map(JobWorker, devices))
    idle = list(workers)
    busy: dict[Future, tuple[JobWorker, JobEntry]] = {}
    try:
        while True:
            _skip_lost(entries, changed)
            while idle and (entry := _next(entries)):
                worker = idle.pop()
                entry.state = JobState.RUNNING
                busy[begin(worker, entry.job)] = worker, entry
                changed(entry)
            if not busy:
                return
            done, _ = concurrent.futures.wait(busy, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                worker, entry = busy.pop(future)
                result = worker.result(future)
                if result.stopped:
                    raise stopping.Stopped(signal.SIGTERM)
                entry.state = JobState.FAILED if result.error else JobState.DONE
                entry.outcome, entry.error = result.value, result.error
                changed(entry)
                idle.append(worker)
    finally:
        for worker, _ in busy.values():
            worker.stop()
        for worker in workers:
            worker.close()


def _next(entries: Mapping[str, JobEntry]) -> JobEntry | None:
    """A job that waits, with all its needs done."""
    for entry in entries.values():
        done = (entries[need.name].state is JobState.DONE for need in entry.job.needs)
        if entry.state is JobState.WAITING and all(done):
            return entry
    return None


def _skip_lost(entries: Mapping[str, JobEntry], changed: Callable[[JobEntry], None]) -> None:
    """Skips the jobs that need one without a result."""
    for entry in entries.values():
        lost = [need.name for need in entry.job.needs if entries[need.name].is_lost]
        if entry.state is JobState.WAITING and lost:
            entry.state, entry.error = JobState.SKIPPED, f"needs {lost[0]}, which has no result"
            changed(entry)


def table(entries: Iterable[JobEntry]) -> str:
    """A line for each job: its state, seconds, name, and error."""
    lines = []
    for entry in entries:
        seconds = f"{entry.outcome['seconds']:,.0f} s" if entry.outcome else ""
        remark = entry.error or ("diverged" if entry.is_lost else "")
        line = f"{entry.state:8} {seconds:>9}  {entry.job.name}"
        lines.append(f"{line}: {remark}" if remark else line)
    return "\n".join(lines)
