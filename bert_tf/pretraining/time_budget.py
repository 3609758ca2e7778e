"""Steps for a run that is to take a number of minutes.

The learning rate stays at its peak until most of the time is over. How many steps fit into the
rest, in which it falls, is known then.
"""

from typing import TypedDict

import tensorflow as tf
from absl import logging

from bert_tf.training import distribution
from bert_tf.training.progress import History
from bert_tf.training.schedules import WarmupHoldDecay
from pipelines.common import files, json_files
from pipelines.common.texts import counted

ENDING = "ending.json"  # in the folder of a run
_USUAL_DECAY = 0.3  # share of the time
_FEWEST_POINTS = 3  # of the history, that tell the speed: in the first one, much is compiled


class _Ending(TypedDict):
    """When a run ends, and over how many steps the rate falls before that."""

    total_steps: int
    decay_steps: int


class TimeBudget:
    """Ends the schedule of a run in time.

    Args:
      minutes: of training.
      decay_fraction: of this time, in which the rate falls; None: as usual.
      schedule: whose end is open.
      folder: of the run, where the end is kept: a run that goes on ends where it was to.
      start: the steps done before; without any, an end that was kept is of no run.
      strategy: the workers, who end together.
      write: whether this process writes.
    """

    def __init__(
        self,
        minutes: float,
        decay_fraction: float | None,
        schedule: WarmupHoldDecay,
        folder: str,
        start: int,
        strategy: tf.distribute.Strategy,
        write: bool,
    ):
        self._seconds, self._schedule, self._strategy = 60 * minutes, schedule, strategy
        self._decay_seconds = (decay_fraction or _USUAL_DECAY) * self._seconds
        self._path, self._write = f"{folder}/{ENDING}", write
        self._known = start > 0 and files.gfile.exists(self._path)
        if self._known:
            ending = json_files.read(self._path, _Ending)
            schedule.end_at(ending["total_steps"], ending["decay_steps"])

    def note(self, done: int, history: History, batch_size: int) -> None:
        """Sets the end, once it is time for the rate to fall.

        Args:
          done: steps of the run so far.
          history: of the run so far.
          batch_size: sequences of a step.
        """
        if self._known or len(history.points) < _FEWEST_POINTS:
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
