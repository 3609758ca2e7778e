"""Logits of a task's features, in batches of like lengths."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.finetuning import batches
from bert_tf.models import fused_ops
from bert_tf.tasks.model import TaskObjective
from pipelines.common.parallel import mapped
from pipelines.labelled.features import Features

_BATCH = 64

LogitsFunction = Callable[[Features], list[np.ndarray]]


def make_logits_function(
    objective: TaskObjective,
    strategy: tf.distribute.Strategy,
    fused: bool = False,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
    at_once: int = 1,
) -> LogitsFunction:
    """Makes the function that gives the float32 logits of each row of features.

    Everything is computed in float32, whatever the precision of training, so
    that scores are those of the exported model.

    Args:
      objective: the model and the task.
      strategy: all its replicas share the work.
      fused: whether XLA compiles the element-wise passes.
      progress: wraps the batches, to show how far they are.
      at_once: batches that are computed at once.
    """
    task = objective.task
    replicas = strategy.num_replicas_in_sync
    size = -(-_BATCH // replicas) * replicas
    run: Any = None

    def replica_logits(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        with fused_ops.compile_fused(fused):
            return objective.logits(batch)

    def predict(features: Features) -> list[np.ndarray]:
        nonlocal run
        order, dataset = batches.evaluation_batches(task, features, size, strategy)
        if run is None:
            run = tf.function(
                lambda batch: strategy.run(replica_logits, args=(batch,)),
                autograph=False,
                input_signature=[dataset.element_spec],
            )
        results: dict[int, np.ndarray] = {}
        lengths = task.row_lengths(features)
        gathered = mapped(lambda b: strategy.gather(run(b), axis=0).numpy(), dataset, at_once)
        for rows, found in zip(progress(order), gathered, strict=True):
            for row, logits in zip(rows, found[: len(rows)], strict=True):
                results[row] = logits[: lengths[row]] if objective.head.per_token else logits
        return [results[row] for row in range(len(features))]

    return predict
