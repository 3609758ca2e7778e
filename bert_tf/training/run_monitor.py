"""Training from the last checkpoint on, with history, progress bar and TensorBoard."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from bert_tf.objectives.base import Trainable
from bert_tf.training import distribution, loop, progress
from bert_tf.training.checkpoints import Checkpoints
from bert_tf.training.session import Session
from bert_tf.training.step import INPUT_WAIT, StepSource


class RunMonitor:
    """Trains a session, and records and shows its progress; a context manager.

    Args:
      session: the session.
      objective: computes metrics from counts.
      folder: for history.jsonl and tensorboard/.
      name: of the progress bar.
      start: the steps done before.
      tensorboard: whether to write summaries.
      begin: when this process began with the run, by time.perf_counter; None: now.
    """

    def __init__(
        self,
        session: Session,
        objective: Trainable,
        folder: str,
        name: str,
        start: int,
        tensorboard: bool,
        begin: float | None = None,
    ):
        chief = session.is_chief
        self._session, self._objective, self._start = session, objective, start
        self.history = progress.History(f"{folder}/{progress.HISTORY}", start, chief)
        self._earlier_seconds = self.history.seconds
        logs = f"{folder}/tensorboard" if tensorboard and chief else None
        self.display = progress.Display(name, session.total_steps, start, logs)
        self._lap = time.perf_counter()
        self._begin = self._lap if begin is None else begin

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.display.close()

    def train(
        self,
        sources: Callable[[int], Iterator[StepSource]],
        checkpoints: Checkpoints,
        report: Callable[[int, list[loop.Counts]], None],
        evaluate: Callable[[int], bool] | None = None,
        **settings: Any,
    ) -> None:
        """Trains to the last step; arguments and errors as of `loop.train`.

        The time of `evaluate` does not count as training.

        Args:
          sources: as of `loop.train`.
          checkpoints: as of `loop.train`.
          report: as of `loop.train`.
          evaluate: as of `loop.train`.
          **settings: fields of `loop.LoopSettings`, but for those that the session has.
        """
        session, watchdog = self._session, self._session.watchdog

        def evaluate_apart(done: int) -> bool:
            with self.apart(), watchdog.paused():
                return evaluate(done) if evaluate else False

        watchdog.other_work()  # the first step is compiled
        try:
            loop.train(
                sources,
                checkpoints,
                loop.LoopSettings(
                    total_steps=lambda: session.total_steps,
                    steps_per_execution=session.settings.steps_per_execution,
                    **settings,
                ),
                report,
                self._start,
                distribution.make_agreement(session.strategy),
                evaluate_apart if evaluate else None,
                watchdog.step_ended,
            )
        finally:
            watchdog.other_work()

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """A context after a call of `note` that does not count as time of training."""
        yield
        self._lap = time.perf_counter()

    def seconds(self, begin: float | None = None) -> float:
        """Seconds spent on the run, those of earlier processes included.

        Args:
          begin: start of this process's part; None: the creation of the monitor.
        """
        since = self._begin if begin is None else begin
        return self._earlier_seconds + time.perf_counter() - since

    def note(
        self,
        done: int,
        counts: Sequence[loop.Counts],
        batch_size: int,
        phase: int | None = None,
        peak_fraction: float | None = None,
    ) -> None:
        """Records and shows the steps since the last call.

        Args:
          done: all steps of the run so far.
          counts: of each step since the last call.
          batch_size: sequences of a step.
          phase: the phase of the steps, if there are several.
          peak_fraction: fraction of the devices' peak operations per second that one sequence per
            second takes; None: not known.
        """
        seconds = time.perf_counter() - self._lap
        rate = len(counts) * batch_size / seconds
        total = loop.sum_counts(counts)
        waited = total.pop(INPUT_WAIT)
        metrics = self._objective.metrics_of(total)
        point = progress.Point(
            done,
            {name: metrics.get(name, math.nan) for name in self._objective.curves},
            float(self._session.optimizer.learning_rate),
            rate,
            self.seconds(),
            phase,
            None if peak_fraction is None else rate * peak_fraction,
            waited / seconds,
        )
        self.history.add(point)
        self.display.show(point)
        self._lap = time.perf_counter()  # the time of this call is not training
