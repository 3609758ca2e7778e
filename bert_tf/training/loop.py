"""The training loop: steps, checkpoints, resumption, orderly stops.

All randomness of a step follows from the seed and the number of the step, so a run that was killed
and resumed ends with the same bits as one that never stopped, whatever the steps per call.
"""

import contextlib
import dataclasses
import itertools
import math
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.objectives.base import Scalars
from bert_tf.training.checkpoints import MODEL_PREFIX, Checkpoints
from bert_tf.training.step import StepSource
from pipelines.common import stopping
from pipelines.common.errors import InputError

Counts = dict[str, float]  # the counts of a step by name


class TrainingDivergedError(InputError):
    """Training ended without a model, as its loss or its weights became NaN or infinite."""


class DivergenceError(InputError):
    """The loss, or an update of the weights, is NaN or infinite.

    Attributes:
      what: the message without the checkpoint.
      checkpoint: the last good checkpoint; None before the first.
    """

    def __init__(self, what: str, step: int, saved: Checkpoints):
        steps = saved.steps()
        self.checkpoint = saved.path(steps[-1]) if steps else None
        self.what = f"the {what} of step {step} is NaN or infinite"
        super().__init__(
            f"{self.what}. The last good checkpoint: {self.checkpoint or 'none was saved yet'}."
        )


@dataclasses.dataclass(frozen=True)
class LoopSettings:
    """Settings of the loop; numbers are steps."""

    total_steps: Callable[[], int]  # called for each step, as the end may be set during training
    seed: int = 12345
    save_every: int = 1000
    log_every: int = 20
    evaluate_every: int = 0  # 0: never
    steps_per_execution: int = 1  # in one call of a compiled function, at most
    save_at: frozenset[int] = frozenset()  # additional steps to save at
    source_ends: tuple[int, ...] = ()  # where another source begins, unless it may begin anywhere


def train(
    sources: Callable[[int], Iterator[StepSource]],
    checkpoints: Checkpoints,
    settings: LoopSettings,
    report: Callable[[int, list[Counts]], None],
    start: int,
    agree: Callable[[bool], bool] = bool,
    evaluate: Callable[[int], bool] | None = None,
    step_ended: Callable[[], None] = lambda: None,
) -> None:
    """Trains from step `start` to the last.

    Args:
      sources: returns the sources of all steps from a given one on.
      checkpoints: where to save.
      settings: settings of the loop.
      report: called every `log_every` steps with the number of steps done and the counts of each
        step since the last call.
      start: the steps done before.
      agree: returns whether any worker has received a signal to stop; all workers call it
        together, whenever counts are read.
      evaluate: called every `evaluate_every` steps, before the checkpoint, with the number of
        steps done; True ends training.
      step_ended: called after each call of a step.

    Raises:
      stopping.Stopped: SIGINT or SIGTERM came; a checkpoint was saved.
      DivergenceError: the loss is NaN or infinite.
    """
    pending: list[Scalars] = []
    with _stop_signals() as stop:
        seed = tf.constant(settings.seed, tf.int32)
        for source, first, count in _calls(sources(start), settings, start):
            pending.append(source.step(source.batches, first, count, seed))
            step_ended()
            done = first + count
            last = done == settings.total_steps()
            scored = bool(settings.evaluate_every) and done % settings.evaluate_every == 0
            saved = done % settings.save_every == 0 or done in settings.save_at
            due = last or scored or saved
            log = due or done % settings.log_every == 0
            # Several workers stop together, where all of them ask; a single one stops at once.
            ending = (bool(stop) and agree is bool) or (log and agree(bool(stop)))
            if log or ending:
                report(done, _read(pending, done, checkpoints))
                pending = []
            if due or ending:
                # A finite loss can still have had a gradient that was not.
                if not checkpoints.all_finite():
                    raise DivergenceError("update", done, checkpoints)
                enough = evaluate(done) if evaluate and scored else False
                checkpoints.save(done)
                if not ending and (last or enough or agree is bool):
                    ending = agree(bool(stop))  # a signal came meanwhile
                if enough and not ending:
                    return
            if ending:
                number = stop[0] if stop else signal.SIGTERM
                raise stopping.Stopped(number, f" at step {done}")


def _calls(
    sources: Iterator[StepSource], settings: LoopSettings, start: int
) -> Iterator[tuple[StepSource, int, int]]:
    """Yields the source, the first step and the number of steps of each call.

    A call ends where its source ends, and where something is due after a step.
    """
    done = start
    ends = (settings.save_every, settings.log_every, settings.evaluate_every or settings.save_every)
    for source, steps in itertools.groupby(sources):
        while True:
            ends_once = (*settings.save_at, *settings.source_ends)
            ahead = [step - done for step in ends_once if step > done]
            left = settings.total_steps() - done
            limit = min(
                *(settings.steps_per_execution, left), *(end - done % end for end in ends), *ahead
            )
            count = sum(1 for _ in itertools.islice(steps, max(limit, 0)))
            if not count:
                break
            yield source, done, count
            done += count
        if done >= settings.total_steps():
            return


def _read(pending: list[Scalars], done: int, checkpoints: Checkpoints) -> list[Counts]:
    """The counts of each step up to `done`.

    Raises:
      DivergenceError: a count is NaN or infinite.
    """
    counts: list[Counts] = []
    for call in pending:
        columns = {name: np.atleast_1d(value.numpy()).tolist() for name, value in call.items()}
        steps = zip(*columns.values(), strict=True)
        counts += [dict(zip(columns, values, strict=True)) for values in steps]
    for offset, values in enumerate(counts):
        if not all(map(math.isfinite, values.values())):
            raise DivergenceError("loss", done - len(counts) + offset + 1, checkpoints)
    return counts


@contextlib.contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Yields a list that collects SIGINT and SIGTERM; a second signal acts at once."""
    received: list[int] = []

    def handle(number: int, _: Any) -> None:
        if received:
            raise stopping.Stopped(number)
        received.append(number)
        logging.info("stopping after this step; a checkpoint is saved.")

    previous = {}
    with contextlib.suppress(ValueError):  # raised outside the main thread, which handles signals
        for number in stopping.SIGNALS:
            previous[number] = signal.signal(number, handle)
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def sum_counts(counts: Sequence[Counts]) -> Counts:
    """The sum of the counts of several steps by name; a missing count is 0."""
    total: Counts = {}
    for item in counts:
        for name, value in item.items():
            total[name] = total.get(name, 0.0) + value
    return total


def state_variables(
    model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> dict[str, tf.Variable]:
    """All variables that a run carries from step to step, by name."""
    named = {f"{MODEL_PREFIX}{variable.path}": variable.value for variable in model.variables}
    for variable in optimizer.variables:
        named[f"optimizer/{variable.path}"] = variable.value
    return named
