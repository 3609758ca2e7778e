"""The training loop: steps, checkpoints, resumption, orderly stops.

Everything that happens at a step follows from the seed and the number of the
step, so a run that is killed and started again ends with the same bits as one
that never stopped, whatever the number of steps that one call does.
"""

import contextlib
import dataclasses
import hashlib
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
from bert_tf.training.step import Source
from pipelines.common import stopping
from pipelines.common.errors import InputError

# What a step adds to the metrics, by name.
Counts = dict[str, float]


class TrainingDivergedError(InputError):
    """Training ended without a model, as its loss or its weights were no numbers any more."""


class DivergenceError(InputError):
    """The loss, or an update of the weights, is not a number.

    Attributes:
      what: the same without the remedy.
      checkpoint: the last good one; None before the first.
    """

    def __init__(self, what: str, step: int, saved: Checkpoints):
        steps = saved.steps()
        self.checkpoint = saved.path(steps[-1]) if steps else None
        self.what = f"the {what} of step {step} is not a number"
        super().__init__(
            f"{self.what}. The last good checkpoint: {self.checkpoint or 'none was saved yet'}."
        )


@dataclasses.dataclass(frozen=True)
class LoopSettings:
    """How the loop runs."""

    total_steps: Callable[[], int]  # asked anew at each call of a step
    seed: int = 12345
    save_every: int = 1000  # steps
    log_every: int = 20  # steps
    evaluate_every: int = 0  # steps; 0: never
    steps_per_execution: int = 1  # at the most, in one call of a compiled function
    save_at: frozenset[int] = frozenset()  # steps to save at, besides


def train(
    sources: Callable[[int], Iterator[Source]],
    checkpoints: Checkpoints,
    settings: LoopSettings,
    report: Callable[[int, list[Counts]], None],
    start: int,
    agree: Callable[[bool], bool] = bool,
    evaluate: Callable[[int], bool] | None = None,
    alive: Callable[[], None] = lambda: None,
) -> None:
    """Trains from step `start` to the last.

    Args:
      sources: gives, from a step on, the source of each step.
      checkpoints: where to save.
      settings: of the loop.
      report: called every `log_every` steps with the number of the steps done
        and the counts of each step since the last call.
      start: the steps done before.
      agree: tells whether any worker wants to stop; asked where counts are read.
      evaluate: called every `evaluate_every` steps, before the checkpoint, with
        the number of the steps done; True ends training.
      alive: called after each call of a step.

    Raises:
      stopping.Stopped: SIGINT or SIGTERM came; a checkpoint was saved.
      DivergenceError: the loss is no number any more.
    """
    pending: list[Scalars] = []
    with _stop_signals() as stop:
        seed = tf.constant(settings.seed, tf.int32)
        for source, first, count in _calls(sources(start), settings, start):
            pending.append(source.step(source.batches, first, count, seed))
            alive()
            done = first + count
            last = done == settings.total_steps()
            scored = bool(settings.evaluate_every) and done % settings.evaluate_every == 0
            saved = done % settings.save_every == 0 or done in settings.save_at
            due = last or scored or saved
            log = due or done % settings.log_every == 0
            # Workers stop together, where all of them ask; one alone need not wait for that.
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
                ending = ending or (bool(stop) and agree is bool)  # a signal came meanwhile
                if enough and not ending:
                    return
            if ending:
                number = stop[0] if stop else signal.SIGTERM
                raise stopping.Stopped(number, f" at step {done}")


def _calls(
    sources: Iterator[Source], settings: LoopSettings, start: int
) -> Iterator[tuple[Source, int, int]]:
    """Yields, for each call of a step: its source, its first step, and how many steps it does.

    A call ends where its source does, and where something is due after a step.
    """
    done = start
    ends = (settings.save_every, settings.log_every, settings.evaluate_every or settings.save_every)
    for source, steps in itertools.groupby(sources):
        while True:
            ahead = [step - done for step in settings.save_at if step > done]
            left = settings.total_steps() - done
            most = min(
                *(settings.steps_per_execution, left), *(end - done % end for end in ends), *ahead
            )
            count = sum(1 for _ in itertools.islice(steps, max(most, 0)))
            if not count:
                break
            yield source, done, count
            done += count
        if done >= settings.total_steps():
            return


def _read(pending: list[Scalars], done: int, checkpoints: Checkpoints) -> list[Counts]:
    """The counts of each step, the last of which is `done`.

    Raises:
      DivergenceError: one of them is no number.
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
    """Yields a list that SIGINT and SIGTERM are put in; the second one acts at once."""
    received: list[int] = []

    def handle(number: int, _: Any) -> None:
        if received:
            raise stopping.Stopped(number)
        received.append(number)
        logging.info("stopping after this step; a checkpoint is saved.")

    previous = {}
    with contextlib.suppress(ValueError):  # not in the main thread: signals are others' business
        for number in stopping.SIGNALS:
            previous[number] = signal.signal(number, handle)
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def sum_counts(counts: Sequence[Counts]) -> Counts:
    """Counts of several steps, name by name; a name that some lack counts as 0 there."""
    total: Counts = {}
    for item in counts:
        for name, value in item.items():
            total[name] = total.get(name, 0.0) + value
    return total


def state_variables(
    model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> dict[str, tf.Variable]:
    """All that a run carries from step to step, by name."""
    named = {f"{MODEL_PREFIX}{variable.path}": variable.value for variable in model.variables}
    for variable in optimizer.variables:
        named[f"optimizer/{variable.path}"] = variable.value
    return named


def fingerprint(variables: dict[str, tf.Variable]) -> str:
    """A checksum of the bits of all variables, for comparing runs."""
    digest = hashlib.sha256()
    for name in sorted(variables):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(variables[name].numpy()).tobytes())
    return digest.hexdigest()
