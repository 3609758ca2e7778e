"""The compiled step: gradients on every device, accumulated, and one update.

All randomness of a step follows from the seed of the run and the number of the step.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from bert_tf.models import fused_ops, rematerialization
from bert_tf.objectives.base import Batch, Scalars, Trainable
from bert_tf.training.distribution import Compilation, run_and_sum

# Name of a count: seconds that the step waited for its batch, in this process.
INPUT_WAIT = "input_wait"
# Any number; it makes the seeds of `prepare` differ from those of dropout.
_PREPARING = 0x2545F491


class TrainingStep:
    """Trains on one global batch, or on several in one call.

    Args:
      model: the model to train.
      optimizer: built with the model's variables.
      strategy: the replicas.
      accumulation: parts that a batch is split into; their gradients are summed.
      compilation: what XLA compiles; not AUTO.
      batch_spec: `element_spec` of batches of different lengths, so that one trace serves them
        all; None: that of the first batch.
      rematerialize: whether the inside of the encoder's layers is recomputed in the backward pass
        instead of kept.

    Attributes:
      on_batch: the tf.function of a distributed batch, the step and the seed (int32 scalars); it
        returns the counts of the batch, summed over replicas.
    """

    def __init__(
        self,
        model: Trainable,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        accumulation: int = 1,
        compilation: Compilation = Compilation.FUSED,
        batch_spec: Any = None,
        rematerialize: bool = False,
    ):
        self._model = model
        self._optimizer = optimizer
        self._strategy = strategy
        self._parts = accumulation
        self._fused = compilation is Compilation.FUSED
        self._whole = compilation is Compilation.STEP
        self._rematerialize = rematerialize
        self._gradients = tf.function(
            self._plain_gradients, jit_compile=self._whole, autograph=False
        )
        # Where batches have one shape, one program with the update is faster; each further shape
        # would compile the update again.
        self._is_one_program = self._whole and accumulation == 1 and batch_spec is None
        self._update = tf.function(self._plain_update, jit_compile=True, autograph=False)
        scalar = tf.TensorSpec([], tf.int32)
        signature = None if batch_spec is None else (batch_spec, scalar, scalar)
        self.on_batch = tf.function(self._on_batch, autograph=False, input_signature=signature)
        self._on_batches = tf.function(self._on_several, autograph=False)

    def __call__(
        self, batches: Iterator[Batch], first: int, count: int, seed: tf.Tensor
    ) -> Scalars:
        """Trains on the next batches.

        Args:
          batches: iterator over distributed batches; over a dataset if `count` exceeds 1.
          first: number of the first step.
          count: number of steps.
          seed: seed of the run, int32 scalar.

        Returns:
          The counts of each step, INPUT_WAIT among them: float32 [count], or scalars for one step.
        """
        number = tf.constant(first, tf.int32)
        if count == 1:
            begin = time.perf_counter()
            batch = next(batches)
            wait = tf.constant(time.perf_counter() - begin, tf.float32)
            return self.on_batch(batch, number, seed) | {INPUT_WAIT: wait}
        return self._on_batches(batches, number, tf.constant(count, tf.int32), seed)

    def _on_several(
        self, batches: Iterator[Batch], first: tf.Tensor, count: tf.Tensor, seed: tf.Tensor
    ) -> Scalars:
        names: list[str] = []

        def body(index: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            # `found` is complete when the previous step is, so only the input is timed.
            batch, wait = _timed_next(batches, after=found.flow)
            with tf.control_dependencies([wait]):
                counts = self.on_batch(batch, first + index, seed) | {INPUT_WAIT: wait}
            names[:] = counts
            return index + 1, found.write(index, tf.stack(list(counts.values())))

        _, found = tf.while_loop(
            lambda index, _: index < count,
            body,
            (tf.constant(0), tf.TensorArray(tf.float32, size=count)),
            parallel_iterations=1,
        )
        columns = tf.unstack(found.stack(), num=len(names), axis=1)
        return dict(zip(names, columns, strict=True))

    def _on_batch(self, batch: Batch, number: tf.Tensor, seed: tf.Tensor) -> Scalars:
        return run_and_sum(self._strategy, self._on_replica, batch, number, seed)

    def _on_replica(self, batch: Batch, number: tf.Tensor, run_seed: tf.Tensor) -> Scalars:
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        batch = self._model.prepare(batch, _seed(run_seed ^ _PREPARING, number) ^ replica)
        totals = self._model.totals(batch)
        if context.num_replicas_in_sync > 1:
            totals = context.all_reduce(tf.distribute.ReduceOp.SUM, totals)
        elif self._is_one_program:
            return self._update(batch, totals, _seed(run_seed, number) ^ replica)

        def of_part(part: int) -> tuple[list[tf.Tensor], Scalars]:
            seed = _seed(run_seed, number * self._parts + part) ^ replica
            return self._gradients(_part(batch, part, self._parts), totals, seed)

        gradients, counts = of_part(0)
        for part in range(1, self._parts):
            with tf.control_dependencies(gradients):  # one part at a time is in memory
                more, more_counts = of_part(part)
            gradients = [a + b for a, b in zip(gradients, more, strict=True)]
            counts = {name: counts[name] + value for name, value in more_counts.items()}
        self._optimizer.apply(gradients, self._model.trainable_variables)
        return counts

    def _plain_update(self, batch: Batch, totals: Scalars, seed: tf.Tensor) -> Scalars:
        gradients, counts = self._plain_gradients(batch, totals, seed)
        self._optimizer.apply(gradients, self._model.trainable_variables)
        return counts

    def _plain_gradients(
        self, batch: Batch, totals: Scalars, seed: tf.Tensor
    ) -> tuple[list[tf.Tensor], Scalars]:
        values = [variable.value for variable in self._model.trainable_variables]
        with (
            fused_ops.compile_fused(self._fused),
            fused_ops.compile_whole(self._whole),
            rematerialization.rematerialize(self._rematerialize),
        ):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(values)
                loss, counts = self._model.batch_loss(
                    batch, totals, training=True, dropout_seed=seed
                )
            found = tape.gradient(loss, values)  # in the scope too: backward passes are fused
        # A gradient of look-ups alone is sparse; the sum and the clipping want it dense.
        return [tf.convert_to_tensor(gradient) for gradient in found], counts


class StepSource(NamedTuple):
    """The batches of a step, and the step that trains on them."""

    step: TrainingStep
    batches: Iterator[Batch]


def _timed_next(batches: Iterator[Batch], after: tf.Tensor) -> tuple[Batch, tf.Tensor]:
    """In a graph: the next batch, and the seconds that it took, a float32 scalar.

    Args:
      batches: iterator over a dataset, which may be distributed.
      after: a tensor that must be computed before the clock starts.
    """
    with tf.control_dependencies([after]), tf.device("CPU:0"):
        begin = tf.timestamp()
    with tf.control_dependencies([begin]):
        batch = next(batches)
    whole = tf.nest.flatten(batch, expand_composites=True)
    with tf.control_dependencies(whole), tf.device("CPU:0"):
        return batch, tf.cast(tf.timestamp() - begin, tf.float32)


def _seed(run_seed: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """An int32 seed for each number."""
    key = tf.stack([run_seed, number])
    return tf.random.stateless_uniform([], key, minval=None, maxval=None, dtype=tf.int32)


def _part(batch: Batch, part: int, parts: int) -> Batch:
    if parts == 1:
        return batch
    return {name: tf.split(value, parts)[part] for name, value in batch.items()}
