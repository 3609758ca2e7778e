"""The training loop: one step on every device, checkpoints, resumption, orderly stops.

Everything that happens at a step follows from the seed and the number of the
step, so a run that is killed and started again ends with the same bits as one
that never stopped.
"""

import contextlib
import dataclasses
import hashlib
import math
import signal
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.models import fused_ops
from bert_tf.training.checkpoints import MODEL_PREFIX, Checkpoints
from bert_tf.training.distribution import Compilation, run_and_sum
from pipelines.common import stopping
from pipelines.common.errors import InputError

Batch = dict[str, tf.Tensor]
Step = Callable[[Batch, tf.Tensor, tf.Tensor], Any]


class Trainable(Protocol):
    """What the loop needs of a model; pre-training objectives and tasks are such."""

    trainable_variables: list[keras.Variable]

    def totals(self, batch: Batch) -> tuple[tf.Tensor, ...]:
        """Divisors of the loss, summed over the replicas."""

    def batch_loss(
        self, batch: Batch, totals: tuple[tf.Tensor, ...], training: bool, dropout_seed: tf.Tensor
    ) -> tuple[tf.Tensor, Any]:
        """The loss of a part of a batch, and a named tuple of counts."""


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

    total_steps: int
    seed: int = 12345
    accumulation: int = 1  # parts that a batch is cut into, their gradients summed
    compilation: Compilation = Compilation.FUSED
    save_every: int = 1000  # steps
    log_every: int = 20  # steps
    evaluate_every: int = 0  # steps; 0: never


def make_step(
    model: Trainable,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
    settings: LoopSettings,
    batch_spec: Any = None,
) -> Step:
    """Makes the function that trains on one global batch.

    Args:
      model: what to train.
      optimizer: built with the model's variables.
      strategy: the replicas.
      settings: of the loop.
      batch_spec: `element_spec` of the batches, where their lengths differ, so
        that one trace serves them all; None: of the first batch.

    Returns:
      A function of a distributed batch, the step and the seed (int32 scalars),
      which returns the counts of the batch, summed over replicas.
    """
    variables = model.trainable_variables

    def gradients(batch: Batch, totals: tuple[tf.Tensor, ...], seed: tf.Tensor) -> Any:
        fused = settings.compilation is Compilation.FUSED
        values = [variable.value for variable in variables]
        with fused_ops.compile_fused(fused):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(values)
                loss, counts = model.batch_loss(batch, totals, training=True, dropout_seed=seed)
            found = tape.gradient(loss, values)  # in the scope too: backward passes are fused
        # A gradient of look-ups alone is sparse; the sum and the clipping want it dense.
        return [tf.convert_to_tensor(gradient) for gradient in found], counts

    compiled = tf.function(
        gradients, jit_compile=settings.compilation is Compilation.STEP, autograph=False
    )

    def replica_step(batch: Batch, step: tf.Tensor, run_seed: tf.Tensor) -> Any:
        context = tf.distribute.get_replica_context()
        totals = model.totals(batch)
        if context.num_replicas_in_sync > 1:
            totals = context.all_reduce(tf.distribute.ReduceOp.SUM, totals)
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        total, total_counts = None, None
        for part in range(settings.accumulation):
            key = tf.stack([run_seed, step * settings.accumulation + part])
            seed = tf.random.stateless_uniform([], key, minval=None, maxval=None, dtype=tf.int32)
            found, counts = compiled(
                _part(batch, part, settings.accumulation), totals, seed ^ replica
            )
            if total is None:
                total, total_counts = found, counts
            else:
                total = [a + b for a, b in zip(total, found, strict=True)]
                total_counts = type(counts)(*map(tf.add, total_counts, counts))
        optimizer.apply(total, variables)
        return total_counts

    scalar = tf.TensorSpec([], tf.int32)
    signature = None if batch_spec is None else (batch_spec, scalar, scalar)

    @tf.function(autograph=False, input_signature=signature)
    def step(batch: Batch, number: tf.Tensor, seed: tf.Tensor) -> Any:
        return run_and_sum(strategy, replica_step, batch, number, seed)

    return step


def _part(batch: Batch, part: int, parts: int) -> Batch:
    if parts == 1:
        return batch
    return {name: tf.split(value, parts)[part] for name, value in batch.items()}


def train(
    step_function: Step,
    batches: Callable[[int], Iterator[Batch]],
    checkpoints: Checkpoints,
    settings: LoopSettings,
    report: Callable[[int, list[Any]], None],
    start: int,
    agree: Callable[[bool], bool] = bool,
    evaluate: Callable[[int], bool] | None = None,
) -> None:
    """Trains from step `start` to the last.

    Args:
      step_function: of `make_step`.
      batches: gives, from a step on, one batch a step.
      checkpoints: where to save.
      settings: of the loop.
      report: called every `log_every` steps with the number of the steps done
        and the counts of each step since the last call, as floats.
      start: the steps done before.
      agree: tells whether any worker wants to stop; asked where counts are read.
      evaluate: called every `evaluate_every` steps, before the checkpoint, with
        the number of the steps done; True ends training.

    Raises:
      stopping.Stopped: SIGINT or SIGTERM came; a checkpoint was saved.
      DivergenceError: the loss is no number any more.
    """
    pending: list[Any] = []
    with _stop_signals() as stop:
        iterator, seed = batches(start), tf.constant(settings.seed, tf.int32)
        for step in range(start, settings.total_steps):
            pending.append(step_function(next(iterator), tf.constant(step, tf.int32), seed))
            done = step + 1
            last = done == settings.total_steps
            scored = bool(settings.evaluate_every) and done % settings.evaluate_every == 0
            due = last or scored or done % settings.save_every == 0
            log = due or done % settings.log_every == 0
            # Workers stop together, where all of them ask; one alone need not wait for that.
            ending = (bool(stop) and agree is bool) or (log and agree(bool(stop)))
            if log or ending:
                counts = [type(value)(*map(float, value)) for value in pending]
                pending = []
                for offset, values in enumerate(counts):
                    if not all(map(math.isfinite, values)):
                        raise DivergenceError("loss", done - len(counts) + offset + 1, checkpoints)
                report(done, counts)
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
