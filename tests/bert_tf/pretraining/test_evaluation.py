"""How batches are shared by the replicas of several workers when held-out examples are counted."""

import types

import pytest
import tensorflow as tf

from bert_tf.pretraining import evaluation


@pytest.mark.parametrize(
    ("positions", "vocab_size", "size"), [(20, 30_522, 64), (1024, 50_257, 5), (1 << 20, 1024, 1)]
)
def test_logits_limit_the_examples_at_a_time(positions, vocab_size, size):
    objective = types.SimpleNamespace(
        config=types.SimpleNamespace(vocab_size=vocab_size),
        predictions=lambda length, max_predictions: positions,
    )
    assert evaluation.batch_size(objective, 1024, 20) == size


@pytest.mark.parametrize(
    ("workers", "replicas", "rows"), [(1, 1, 10), (1, 2, 11), (2, 2, 10), (2, 8, 17), (4, 4, 1)]
)
def test_each_row_is_counted_by_one_replica(workers, replicas, rows):
    batches = tf.data.Dataset.range(rows).map(lambda row: {"a": row, "b": [row, row]}).batch(8)
    parts = [
        list(
            evaluation._cut(
                batches, tf.distribute.InputContext(workers, worker, replicas)
            ).as_numpy_iterator()
        )
        for worker in range(workers)
    ]
    mine = replicas // workers
    steps = -(-rows // 8)
    assert [len(each) for each in parts] == [steps * mine] * workers  # as many on each worker
    found = []
    for step in range(steps):
        for each in parts:
            for part in each[step * mine : (step + 1) * mine]:
                found += part["a"].tolist()
                assert part["b"].tolist() == [[row, row] for row in part["a"]]
    assert found == list(range(rows))
