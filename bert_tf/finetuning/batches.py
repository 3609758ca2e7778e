"""Batches of one or several tasks as tf.data datasets, and logits computed from them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.finetuning.task_data import TaskData
from bert_tf.models import fused_ops
from bert_tf.tasks import Task
from bert_tf.tasks.model import TEACHER, TaskObjective
from pipelines.common.parallel import mapped
from pipelines.labelled import bucketing
from pipelines.labelled.features import Features, pad
from pipelines.pretraining import example_reader

_EVALUATION_BATCH = 64
_LABELS = frozenset(["labels", "weights"])  # in a batch, besides the model's inputs

LogitsFunction = Callable[[Features], list[np.ndarray]]


class TaskOrder:
    """Which task each step trains: all batches of all tasks, shuffled in each epoch.

    Args:
      data: the tasks.
      batch_size: number of rows in a batch.
    """

    def __init__(self, data: Sequence[TaskData], batch_size: int):
        self._steps = [
            bucketing.steps_per_epoch(len(item.train.features), batch_size) for item in data
        ]

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches of all tasks."""
        return sum(self._steps)

    def tasks(self, seed: int) -> Iterator[int]:
        """Yields the index of the task of each step, endlessly."""
        epoch = 0
        each = np.repeat(np.arange(len(self._steps)), self._steps)
        while True:
            key = np.random.SeedSequence([seed, epoch, len(self._steps)])
            yield from np.random.Generator(np.random.Philox(key)).permutation(each).tolist()
            epoch += 1


def training_streams(
    data: Sequence[TaskData],
    order: TaskOrder,
    batch_size: int,
    seed: int,
    start: int,
    strategy: tf.distribute.Strategy,
) -> Iterator[tuple[int, Iterator[dict[str, tf.Tensor]]]]:
    """Yields for each step from `start` on the index of its task, and that task's batches.

    Every batch is a function of the seed and the step alone.
    """
    numbers = order.tasks(seed)
    done = [0] * len(data)
    for _ in range(start):
        done[next(numbers)] += 1
    streams = [
        iter(training_batches(item, batch_size, seed + index, done[index], strategy))
        for index, item in enumerate(data)
    ]
    for index in numbers:
        yield index, streams[index]


def training_batches(
    data: TaskData, batch_size: int, seed: int, start: int, strategy: tf.distribute.Strategy
) -> tf.distribute.DistributedDataset:
    """Endless distributed batches of a task, starting at any."""
    lengths = data.task.row_lengths(data.train.features)

    def order() -> Iterator[np.ndarray]:
        return bucketing.training_order(lengths, batch_size, seed, start)

    return _distribute(
        data.task, data.train.features, order, batch_size, strategy, teacher=data.teacher
    )


def spec(data: TaskData, batch_size: int, strategy: tf.distribute.Strategy) -> Any:
    """The `element_spec` of the training batches of a task."""
    return training_batches(data, batch_size, 0, 0, strategy).element_spec


def make_logits_function(
    objective: TaskObjective,
    strategy: tf.distribute.Strategy,
    fused: bool = False,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
    at_once: int = 1,
) -> LogitsFunction:
    """Makes the function that gives the results of each row of features: mostly float32 logits.

    It computes in float32, whatever the precision of training, so that scores are those of the
    exported model.

    Args:
      objective: the model and the task.
      strategy: all its replicas share the work.
      fused: whether XLA compiles the element-wise passes.
      progress: wraps the batches, to show progress.
      at_once: number of batches that are computed in parallel.
    """
    task, replicas = objective.task, strategy.num_replicas_in_sync
    beams = task.generation.beams if task.generation else 1  # which are sequences, too
    sequences: Any = task.max_sequences or getattr(task, "windows", 1)  # of a row
    most = max(1, _EVALUATION_BATCH // (beams * sequences))  # rows in a batch
    runs: dict[Any, Any] = {}  # by the form of batches

    def replica_logits(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        with fused_ops.compile_fused(fused):
            return objective.logits(batch)

    def predict(features: Features) -> list[np.ndarray]:
        lengths = task.row_lengths(features)
        size = -(-max(1, min(most, len(features))) // replicas) * replicas
        order = list(bucketing.evaluation_order(lengths, size))
        dataset = _distribute(task, features, lambda: iter(order), size, strategy, labels=False)
        form = tuple(sorted(dataset.element_spec.items()))
        if form not in runs:
            runs[form] = tf.function(
                lambda batch: strategy.run(replica_logits, args=(batch,)),
                autograph=False,
                input_signature=[dataset.element_spec],
            )
        run = runs[form]
        results: dict[int, np.ndarray] = {}
        gathered = mapped(lambda b: strategy.gather(run(b), axis=0).numpy(), dataset, at_once)
        for rows, found in zip(progress(order), gathered, strict=True):
            rows = rows.tolist()
            each = objective.results(found[: len(rows)], [lengths[row] for row in rows])
            results |= zip(rows, each, strict=True)
        return [results[row] for row in range(len(features))]

    return predict


def _distribute(
    task: Task,
    features: Features,
    order: Callable[[], Iterator[np.ndarray]],
    batch_size: int,
    strategy: tf.distribute.Strategy,
    labels: bool = True,
    teacher: Sequence[np.ndarray] = (),
) -> tf.distribute.DistributedDataset:
    """Batches of the rows that `order` yields, each divided evenly among the replicas."""
    size = batch_size // strategy.num_replicas_in_sync

    def assemble(rows: np.ndarray) -> dict[str, np.ndarray]:
        batch = task.assemble(features, rows, batch_size)
        if teacher:
            of_length = "input_mask" if task.per_token else "choice_mask"
            length = batch[of_length].shape[-1] if of_length in batch else len(teacher[0])
            logits = [teacher[row][:length] for row in rows]
            batch[TEACHER] = pad(logits, batch_size, length, fill=-1e9)
        return batch if labels else {k: v for k, v in batch.items() if k not in _LABELS}

    def known(sizes: tuple[int, ...]) -> tuple[int | None, ...]:
        """The sizes that all batches share."""
        return sizes if task.fixed_length else (None,) * len(sizes)

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        mine = context.num_replicas_in_sync // context.num_input_pipelines
        first = context.input_pipeline_id * mine

        def generate() -> Iterator[dict[str, np.ndarray]]:
            for rows in order():
                batch = assemble(rows)
                for piece in range(first, first + mine):
                    yield {k: v[piece * size : (piece + 1) * size] for k, v in batch.items()}

        signature = {
            name: tf.TensorSpec([size, *known(value.shape[1:])], value.dtype)
            for name, value in assemble(np.arange(1)).items()
        }
        return (
            tf.data.Dataset.from_generator(generate, output_signature=signature)
            .prefetch(4)
            .with_options(example_reader.make_options())
        )

    return strategy.distribute_datasets_from_function(dataset)
