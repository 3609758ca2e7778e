"""Jobs in the order of what they need, in one process or several, and a table of where they are."""

import dataclasses
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection
from typing import Any

from bert_tf.experiments.jobs import Job, Outcome, Place, State
from bert_tf.experiments.worker import Worker
from pipelines.common import stopping

_CALLS = 12  # of a process, before another takes its place: memory that is lost is bounded
_LOG = "log.txt"
_TELLING = 60  # seconds that jobs must have taken before they tell of the others


@dataclasses.dataclass
class Entry:
    """A job, and where it stands."""

    job: Job
    state: State = State.WAITING
    outcome: Outcome | None = None
    error: str = ""
    begin: float = 0.0


class Schedule:
    """Does jobs.

    Args:
      jobs: in an order in which they can be done.
      place: where.
      costs: the seconds that each may take, by key.
    """

    def __init__(self, jobs: Sequence[Job], place: Place, costs: Mapping[str, float]):
        self.place = place
        self._costs = costs
        self.entries = {job.key: Entry(job) for job in jobs}
        for entry in self.entries.values():
            entry.outcome = place.outcome(entry.job)
            entry.state = State.DONE if entry.outcome else State.WAITING

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Of the jobs that are done, by key."""
        return {key: e.outcome for key, e in self.entries.items() if e.outcome is not None}

    @property
    def seconds(self) -> float:
        """What all jobs may take, one after the other, as it was thought before the first."""
        return sum(self._costs.values())

    def seconds_left(self, processes: int) -> float:
        """What the jobs that are left may take, by what those that are done took."""
        done = [e for e in self.entries.values() if e.outcome]
        taken = sum(e.outcome["seconds"] for e in done if e.outcome)
        thought = sum(self._costs[e.job.key] for e in done)
        factor = taken / thought if taken > _TELLING else 1.0
        left = 0.0
        for entry in self.entries.values():
            cost = self._costs[entry.job.key] * factor
            if entry.state is State.WAITING:
                left += cost
            elif entry.state is State.RUNNING:
                left += max(0.0, cost - (time.monotonic() - entry.begin))
        return left / processes

    def run(
        self,
        environments: Sequence[dict[str, str]],
        changed: Callable[[Entry], None],
    ) -> None:
        """Does all jobs that can be done; those that fail are told, and the others go on.

        Args:
          environments: variables of each process; there are as many.
          changed: is told of each job that begins or ends.

        Raises:
          stopping.Stopped: a signal came; jobs that were begun go on from their checkpoints.
        """
        idle: list[tuple[dict[str, str], Worker | None]] = [(e, None) for e in environments]
        busy: dict[Any, tuple[dict[str, str], Worker, Entry]] = {}
        try:
            while True:
                self._skip(changed)
                while idle and (entry := self._next()):
                    environment, worker = idle.pop()
                    worker = worker or Worker(environment)
                    self._begin(worker, entry)
                    busy[worker.connection] = (environment, worker, entry)
                    changed(entry)
                if not busy:
                    break
                for ready in connection.wait(list(busy)):
                    environment, worker, entry = busy.pop(ready)
                    self._end(worker, entry)
                    changed(entry)
                    if worker.calls >= _CALLS or not worker.alive:
                        worker.close()
                        worker = None
                    idle.append((environment, worker))
        except stopping.Stopped:
            _stop(worker for _, worker, _ in busy.values())
            raise
        finally:
            for _, worker in idle:
                if worker is not None:
                    worker.close()

    def _next(self) -> Entry | None:
        """A job that waits for nothing."""
        for entry in self.entries.values():
            needs = [self.entries[need.key].state for need in entry.job.needs]
            if entry.state is State.WAITING and all(state is State.DONE for state in needs):
                return entry
        return None

    def _skip(self, changed: Callable[[Entry], None]) -> None:
        """Passes over the jobs that need what failed, or diverged."""
        for entry in self.entries.values():
            if entry.state is not State.WAITING:
                continue
            for need in entry.job.needs:
                other = self.entries[need.key]
                lost = other.state in (State.FAILED, State.SKIPPED)
                if lost or (other.outcome and _is_lost(other.outcome)):
                    entry.state = State.SKIPPED
                    entry.error = f"needs {need.kind} {need.label}, which there is not"
                    changed(entry)
                    break

    def _begin(self, worker: Worker, entry: Entry) -> None:
        entry.state, entry.begin = State.RUNNING, time.monotonic()
        log = f"{self.place.folder(entry.job)}/{_LOG}"
        worker.begin(log, do, entry.job, self.place)

    def _end(self, worker: Worker, entry: Entry) -> None:
        result = worker.result()
        if result.stopped:
            raise stopping.Stopped(signal.SIGTERM)
        if result.error is None:
            entry.state, entry.outcome = State.DONE, result.value
        else:
            entry.state, entry.error = State.FAILED, result.error


def do(job: Job, place: Place) -> Outcome:
    """Does a job, and keeps what came of it."""
    import keras

    keras.utils.clear_session()  # of the job before, in the same process
    outcome = job.work(place)
    place.keep(job, outcome)
    return outcome


def _is_lost(outcome: Outcome) -> bool:
    """Whether nothing but a divergence came of a job."""
    return bool(outcome.get("diverged")) and not outcome["scores"]


def _stop(workers: Any) -> None:
    workers = list(workers)
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.result()
        worker.close()


def table(entries: Sequence[Entry]) -> str:
    """A line for each job: its state, what it is, seconds, and why there is no outcome."""
    lines = []
    for entry in entries:
        seconds = f"{entry.outcome['seconds']:,.0f} s" if entry.outcome else ""
        diverged = "diverged" if entry.outcome and _is_lost(entry.outcome) else ""
        about = entry.error or diverged
        text = f"{entry.state:8} {seconds:>9}  {entry.job.kind} {entry.job.label}"
        lines.append(f"{text}: {about}" if about else text)
    return "\n".join(lines)
