"""Runs each job in a process of its own, one or several at a time."""

import concurrent.futures
import contextlib
import dataclasses
import enum
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from absl import logging

from pipelines.common import parallel, stopping
from pipelines.common.errors import InputError

# A new process imports this module, which must be quick.
if TYPE_CHECKING:
    from bert_tf.experiments.jobs import Job, JobOutcome
    from bert_tf.experiments.plan import ExperimentPlan


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

    @classmethod
    def of(cls, job: "Job", plan: "ExperimentPlan") -> "JobEntry":
        """The entry of a job, which may already be done."""
        outcome = job.outcome(plan)
        return cls(job, JobState.DONE if outcome else JobState.WAITING, outcome)

    @property
    def is_lost(self) -> bool:
        """Whether the job has ended without a result that others could use."""
        diverged = self.outcome and self.outcome.get("diverged") and not self.outcome["scores"]
        return self.state in (JobState.FAILED, JobState.SKIPPED) or bool(diverged)


class JobProcess:
    """A process that calls a function once.

    Args:
      device: number of its GPU; "": all devices.
      log: file that its output is appended to.
      function: the function, which can be pickled; its result is not returned.
      *arguments: its arguments.

    Attributes:
      done: a future that is done when the process has ended.
    """

    def __init__(self, device: str, log: str, function: Callable[..., object], *arguments: Any):
        import tensorflow as tf

        # A process that is forked cannot use GPUs that its server has seen.
        preload = "" if tf.config.list_physical_devices("GPU") else "bert_tf.experiments.jobs"
        self._pool = parallel.process_pool(1, _start, device, log, preload=preload)
        self._process = self._pool.submit(os.getpid)
        self.done = self._pool.submit(_call, log, function, arguments)

    def error(self) -> str:
        """Waits for the end, and returns an error message, or "" if there was no error.

        Raises:
          stopping.Stopped: a signal came; the process was stopped, too.
        """
        try:
            error = self.done.result()
        except BrokenProcessPool:
            error = "its process was killed; it may have run out of memory"
        except stopping.Stopped:
            self.stop()
            raise
        self._pool.shutdown()
        return error

    def stop(self) -> None:
        """Stops the call as SIGTERM stops a command, and waits for its end."""
        with contextlib.suppress(ProcessLookupError, BrokenProcessPool):
            os.kill(self._process.result(), signal.SIGTERM)
        self._pool.shutdown()


def _start(device: str, log: str) -> None:
    os.setsid()  # Ctrl-C is for the parent, which stops its processes
    stopping.raise_stopped()
    if device:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    logging.set_verbosity(logging.INFO)


def _call(log: str, function: Callable[..., object], arguments: tuple[Any, ...]) -> str:
    """Calls a function and returns an error message, or "" if there was no error."""
    try:
        function(*arguments)
    except (stopping.Stopped, InputError) as error:
        return str(error)
    except Exception as error:  # a bug: the log has the traceback
        traceback.print_exc()
        return f"{type(error).__name__}: {error} (see {log})"
    return ""


def run(
    entries: Mapping[str, JobEntry],
    plan: "ExperimentPlan",
    devices: Sequence[str],
    changed: Callable[[JobEntry], None],
) -> None:
    """Does all jobs that wait; those that fail do not keep the others from running.

    Args:
      entries: by the name of the job, in an order in which they can be done.
      plan: the plan of the jobs.
      devices: for each job at a time, the number of its GPU, or "".
      changed: is called with each entry whose state has changed.

    Raises:
      stopping.Stopped: a signal came; running jobs will resume from their checkpoints.
    """
    from bert_tf.experiments.jobs import perform

    idle = list(devices)
    running: dict[concurrent.futures.Future, tuple[str, JobEntry, JobProcess]] = {}
    try:
        while True:
            _skip_lost(entries, changed)
            while idle and (entry := _next(entries)):
                device = idle.pop()
                log = f"{entry.job.folder(plan)}/log.txt"
                process = JobProcess(device, log, perform, entry.job, plan)
                running[process.done] = device, entry, process
                entry.state = JobState.RUNNING
                changed(entry)
            if not running:
                return
            first = concurrent.futures.FIRST_COMPLETED
            for future in concurrent.futures.wait(running, return_when=first).done:
                device, entry, process = running.pop(future)
                entry.error, entry.outcome = process.error(), entry.job.outcome(plan)
                entry.state = JobState.FAILED if entry.error else JobState.DONE
                changed(entry)
                idle.append(device)
    finally:
        for _, entry, process in running.values():
            process.stop()
            entry.state = JobState.WAITING


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
