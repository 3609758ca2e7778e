"""The course of a run: its steps from the last checkpoint on, and what is noted of them."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from bert_tf.objectives.base import Trainable
from bert_tf.training import distribution, loop, progress
from bert_tf.training.checkpoints import Checkpoints
from bert_tf.training.session import Session
from bert_tf.training.step import INPUT_WAIT, Source


class Course:
    """Trains a session, and keeps history, progress bar and TensorBoard; a context.

    Args:
      session: what is trained.
      objective: makes metrics of counts.
      folder: for history.jsonl and tensorboard/.
      name: for the progress bar.
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
        sources: Callable[[int], Iterator[Source]],
        checkpoints: Checkpoints,
        settings: loop.LoopSettings,
        report: Callable[[int, list[loop.Counts]], None],
        evaluate: Callable[[int], bool] | None = None,
    ) -> None:
        """Trains to the last step; arguments and errors as those of `loop.train`.

        What `evaluate` does counts as no time of training.
        """
        watch = self._session.watch

        def evaluate_apart(done: int) -> bool:
            with self.apart(), watch.unmeasured():
                return evaluate(done) if evaluate else False

        watch.other_work()  # the first step is compiled
        try:
            loop.train(
                sources,
                checkpoints,
                settings,
                report,
                self._start,
                distribution.make_agreement(self._session.strategy),
                evaluate_apart if evaluate else None,
                watch.alive,
            )
        finally:
            watch.other_work()

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """What is done within, after a call of `note`, counts as no time of training."""
        yield
        self._lap = time.perf_counter()

    def seconds(self, begin: float | None = None) -> float:
        """Seconds given to the run, by earlier processes too.

        Args:
          begin: from when those of this one count; None: from the making of the course.
        """
        since = self._begin if begin is None else begin
        return self._earlier_seconds + time.perf_counter() - since

    def note(
        self,
        done: int,
        counts: Sequence[loop.Counts],
        batch_size: int,
        phase: int | None = None,
        peak_share: float | None = None,
    ) -> None:
        """Notes and shows the steps since the last call.

        Args:
          done: all steps of the run so far.
          counts: of each step since the last call.
          batch_size: sequences of each of them.
          phase: that they are of, where there are several.
          peak_share: of what the devices could compute in a second, the part that a
            sequence takes; None: not known.
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
            None if peak_share is None else rate * peak_share,
            waited / seconds,
        )
        self.history.add(point)
        self.display.show(point)
        self._lap = time.perf_counter()  # what was done here is not training
