"""Batches of one or several tasks as tf.data datasets, each a function of the step alone."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.finetuning.task_data import TaskData
from bert_tf.tasks import Task
from pipelines.labelled import bucketing
from pipelines.labelled.features import Features
from pipelines.pretraining import example_reader

Stream = tuple[int, Iterator[dict[str, tf.Tensor]]]
# What a batch holds beside the model's inputs.
_LABELS = frozenset(["labels", "weights"])


class Schedule:
    """Which task each step trains: all batches of all tasks, shuffled in each epoch.

    Args:
      data: of each task.
      batch_size: rows of a batch.
    """

    def __init__(self, data: Sequence[TaskData], batch_size: int):
        self._steps = [
            bucketing.steps_per_epoch(len(item.train.features), batch_size) for item in data
        ]

    @property
    def steps_per_epoch(self) -> int:
        """Batches of all tasks."""
        return sum(self._steps)

    def tasks(self, seed: int) -> Iterator[int]:
        """Yields the number of the task of each step, endlessly."""
        epoch = 0
        each = np.repeat(np.arange(len(self._steps)), self._steps)
        while True:
            key = np.random.SeedSequence([seed, epoch, len(self._steps)])
            yield from np.random.Generator(np.random.Philox(key)).permutation(each).tolist()
            epoch += 1


def training_streams(
    data: Sequence[TaskData],
    schedule: Schedule,
    batch_size: int,
    seed: int,
    start: int,
    strategy: tf.distribute.Strategy,
) -> Iterator[Stream]:
    """Yields the number of a task and its batches, the next of which to take, from any step on.

    Args:
      data: of each task.
      schedule: of the same.
      batch_size: rows of a global batch.
      seed: of all orders.
      start: the first step.
      strategy: to distribute by.
    """
    order = schedule.tasks(seed)
    done = [0] * len(data)
    for _ in range(start):
        done[next(order)] += 1
    streams = [
        iter(training_batches(item, batch_size, seed + index, done[index], strategy))
        for index, item in enumerate(data)
    ]
    for index in order:
        yield index, streams[index]


def training_batches(
    data: TaskData,
    batch_size: int,
    seed: int,
    start: int,
    strategy: tf.distribute.Strategy,
) -> tf.distribute.DistributedDataset:
    """Endless distributed batches of a task, from any one on."""
    features = data.train.features
    lengths = data.task.row_lengths(features)

    def order() -> Iterator[np.ndarray]:
        return bucketing.training_order(lengths, batch_size, seed, start)

    return _distribute(data.task, features, order, batch_size, strategy)


def spec(data: TaskData, batch_size: int, strategy: tf.distribute.Strategy) -> Any:
    """The `element_spec` of the training batches of a task."""
    return training_batches(data, batch_size, 0, 0, strategy).element_spec


def evaluation_batches(
    task: Task, features: Features, batch_size: int, strategy: tf.distribute.Strategy
) -> tuple[list[np.ndarray], tf.distribute.DistributedDataset]:
    """The rows of each batch, and the batches, without labels; all rows once."""
    order = list(bucketing.evaluation_order(task.row_lengths(features), batch_size))
    dataset = _distribute(task, features, lambda: iter(order), batch_size, strategy, labels=False)
    return order, dataset


def _distribute(
    task: Task,
    features: Features,
    order: Callable[[], Iterator[np.ndarray]],
    batch_size: int,
    strategy: tf.distribute.Strategy,
    labels: bool = True,
) -> tf.distribute.DistributedDataset:
    """Batches of the rows that `order` gives, each cut evenly for the replicas."""
    size = batch_size // strategy.num_replicas_in_sync

    def assemble(rows: np.ndarray) -> dict[str, np.ndarray]:
        batch = task.assemble(features, rows, batch_size)
        return batch if labels else {k: v for k, v in batch.items() if k not in _LABELS}

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        mine = context.num_replicas_in_sync // context.num_input_pipelines
        first = context.input_pipeline_id * mine

        def generate() -> Iterator[dict[str, np.ndarray]]:
            for rows in order():
                batch = assemble(rows)
                for piece in range(first, first + mine):
                    yield {k: v[piece * size : (piece + 1) * size] for k, v in batch.items()}

        signature = {
            name: tf.TensorSpec([size, *_known(task, value.shape[1:])], value.dtype)
            for name, value in assemble(np.arange(1)).items()
        }
        return (
            tf.data.Dataset.from_generator(generate, output_signature=signature)
            .prefetch(4)
            .with_options(example_reader.make_options())
        )

    return strategy.distribute_datasets_from_function(dataset)


def _known(task: Task, sizes: tuple[int, ...]) -> tuple[int | None, ...]:
    """The sizes of a feature beside its rows, as far as all batches have the same."""
    return sizes if task.fixed_length else (None,) * len(sizes)
