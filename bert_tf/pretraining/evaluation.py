"""Evaluation of a pre-training objective on held-out examples."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf

from bert_tf.objectives.base import Batch, PretrainingObjective, Scalars
from bert_tf.training import distribution, loop

BATCH = 64  # held-out examples at a time, at most
_LOGITS = 1 << 28  # of a batch, at most: a gigabyte in float32


def make_evaluation(
    objective: PretrainingObjective, strategy: tf.distribute.Strategy
) -> Callable[[tf.data.Dataset], dict[str, float]]:
    """Makes a function that returns the metrics of a dataset of batches.

    All randomness follows from the number of the batch, so that the metrics of several
    evaluations can be compared.
    """

    def replica_counts(batch: Batch, number: tf.Tensor) -> Scalars:
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        batch = objective.prepare(batch, number ^ replica)
        _, counts = objective.batch_loss(batch, objective.totals(batch), training=False)
        return counts

    @tf.function(autograph=False)
    def count(batch: Batch, number: tf.Tensor) -> Scalars:
        return distribution.run_and_sum(strategy, replica_counts, batch, number)

    def evaluate(batches: tf.data.Dataset) -> dict[str, float]:
        parts = strategy.distribute_datasets_from_function(lambda context: _cut(batches, context))
        found = (count(batch, tf.constant(number)) for number, batch in enumerate(parts))
        each = [{name: float(value) for name, value in counts.items()} for counts in found]
        return objective.metrics_of(loop.sum_counts(each))

    return evaluate


def batch_size(objective: PretrainingObjective, length: int, max_predictions: int) -> int:
    """The number of held-out examples whose logits are computed at a time.

    Args:
      objective: the model.
      length: tokens of an example.
      max_predictions: maximum number of masked tokens of an example.
    """
    logits = objective.predictions(length, max_predictions) * objective.config.vocab_size
    return max(1, min(BATCH, _LOGITS // logits))


def _cut(batches: tf.data.Dataset, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """The parts of batches for the replicas of a worker; parts of short batches may be empty."""
    replicas = context.num_replicas_in_sync
    mine = replicas // context.num_input_pipelines
    first = context.input_pipeline_id * mine

    def parts(batch: Batch) -> tf.data.Dataset:
        size = -(-tf.shape(next(iter(batch.values())), tf.int64)[0] // replicas)
        indices = tf.data.Dataset.range(first, first + mine)
        return indices.map(lambda n: {k: v[n * size : (n + 1) * size] for k, v in batch.items()})

    return batches.flat_map(parts).prefetch(4)


def prepared(objective: PretrainingObjective, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yields batches as one device evaluates them."""
    for number, batch in enumerate(batches):
        yield objective.prepare(batch, tf.constant(number))


def prepared_arrays(
    objective: PretrainingObjective, batches: Iterable[Batch]
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the batches of `prepared` as arrays."""
    for batch in prepared(objective, batches):
        yield {name: value.numpy() for name, value in batch.items()}
