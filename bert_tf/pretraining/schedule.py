"""The learning rate of a pre-training run, and its end if the run is limited by time.

With --minutes, the learning rate stays at its peak until most of the time is over. The number of
steps that fit into the rest, in which it falls, is known then.
"""

from typing import TypedDict

from absl import logging

from bert_tf.pretraining.settings import PretrainingSettings
from bert_tf.training import distribution
from bert_tf.training.progress import History
from bert_tf.training.schedules import PhaseCycles, Schedule, WarmupHoldDecay, WarmupLinearDecay
from bert_tf.training.session import Session
from pipelines.common import files, json_files
from pipelines.common.texts import counted

ENDING = "ending.json"  # in the folder of a run
_DECAY_FRACTION = 0.3  # of the time, by default
_MIN_POINTS = 3  # of the history; the first one is slow, as functions are compiled


def make_schedule(settings: PretrainingSettings) -> Schedule:
    """The schedule of a run; with minutes, its end is still open."""
    if settings.minutes is not None:
        return WarmupHoldDecay(settings.learning_rates[0], settings.warmup_steps[0])
    if len(settings.learning_rates) > 1:
        steps = [phase.steps for phase in settings.phases]
        return PhaseCycles(settings.learning_rates, settings.warmup_steps, steps)
    (rate,), (warmup,), total = settings.learning_rates, settings.warmup_steps, settings.total_steps
    if warmup >= total:
        logging.warning(
            "a warm-up of %d steps is as long as the run; it is shortened to %d.",
            warmup,
            total // 10,
        )
        warmup = total // 10
    if settings.decay_fraction is not None:
        return WarmupHoldDecay(rate, warmup, total, round(settings.decay_fraction * total))
    return WarmupLinearDecay(rate, warmup, total)


class _Ending(TypedDict):
    """The last step of a run, and the length of the decay before it."""

    total_steps: int
    decay_steps: int


class TimeBudget:
    """Sets the end of a run's schedule so that training takes the given minutes.

    Args:
      minutes: the minutes.
      decay_fraction: of the time, in which the rate falls; None: as usual.
      session: the session, with a schedule whose end is open; its workers end together.
      folder: of the run. The end is kept there, so that a resumed run ends at the same step.
      start: the steps done before; at 0 an end that was kept is of another run.
    """

    def __init__(
        self,
        minutes: float,
        decay_fraction: float | None,
        session: Session,
        folder: str,
        start: int,
    ):
        assert isinstance(session.schedule, WarmupHoldDecay)  # see `make_schedule`
        self._seconds, self._schedule = 60 * minutes, session.schedule
        self._decay_seconds = (decay_fraction or _DECAY_FRACTION) * self._seconds
        self._strategy, self._write = session.strategy, session.is_chief
        self._path = f"{folder}/{ENDING}"
        found = files.gfile.exists(self._path)
        self._known = found and start > 0
        if self._known:
            ending = json_files.read(self._path, _Ending)
            self._schedule.end_at(ending["total_steps"], ending["decay_steps"])
        elif found and self._write:
            files.gfile.remove(self._path)

    def note(self, done: int, history: History, batch_size: int) -> None:
        """Sets the end, once it is time for the learning rate to fall.

        Args:
          done: steps of the run so far.
          history: history of the run so far.
          batch_size: sequences of a step.
        """
        if self._known or len(history.points) < _MIN_POINTS:
            return
        spent = history.training_seconds(batch_size)
        left = self._seconds - distribution.mean_of_workers(self._strategy, spent)
        if left > self._decay_seconds:
            return
        step_seconds = batch_size / history.rate
        step_seconds = distribution.mean_of_workers(self._strategy, step_seconds)
        decay = max(1, round(left / step_seconds))
        if self._write:
            json_files.write(self._path, _Ending(total_steps=done + decay, decay_steps=decay))
        self._schedule.end_at(done + decay, decay)
        self._known = True
        if left <= 0:
            logging.warning(
                "%s took longer than --minutes, so the learning rate does not fall; smaller "
                "batches or --log_every=1 suit so short a run.",
                counted(done, "step"),
            )
        if done < self._schedule.warmup_steps:
            logging.warning(
                "the warm-up of %s is not over; --warmup_steps=%d suits so short a run.",
                counted(self._schedule.warmup_steps, "step"),
                done // 10,
            )
        logging.info(
            "%s from now on, in which the learning rate falls: %s in all.",
            counted(decay, "step"),
            counted(done + decay, "step"),
        )
