"""Evaluation of a pre-training model on held-out examples."""

from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.objectives.bert import Counts, Metrics, PretrainingModel
from bert_tf.training import distribution


def make_evaluation(model: PretrainingModel, strategy: tf.distribute.Strategy) -> Any:
    """Makes the function that evaluates a dataset of batches and returns `Metrics`."""

    def replica_counts(batch: dict[str, tf.Tensor]) -> Counts:
        _, counts = model.batch_loss(batch, model.totals(batch), training=False)
        return counts

    @tf.function(autograph=False)
    def count(batch: dict[str, tf.Tensor]) -> Counts:
        return distribution.run_and_sum(strategy, replica_counts, batch)

    def evaluate(batches: tf.data.Dataset) -> Metrics:
        total = np.zeros(len(Counts._fields))
        for batch in strategy.experimental_distribute_dataset(batches):
            total += [float(value) for value in count(batch)]
        return Metrics.of(Counts(*total))

    return evaluate
