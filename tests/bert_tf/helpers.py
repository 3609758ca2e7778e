"""What several tests of the model share."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.ports import free_ports
from tests.tiny import tiny_config

CONFIG = tiny_config(hidden_size=16, intermediate_size=32, max_position_embeddings=12)


def make_batch(rows=4, length=10, predictions=3, seed=0, config=CONFIG):
    """A random pre-training batch with padding."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(6, length + 1, rows)
    position = np.arange(length)
    mask = position < lengths[:, np.newaxis]
    slots = np.arange(predictions)
    return {
        name: tf.constant(value)
        for name, value in {
            "input_word_ids": (rng.integers(1, config.vocab_size, (rows, length)) * mask).astype(
                "i4"
            ),
            "input_mask": mask.astype("i4"),
            "input_type_ids": ((position >= 4) & mask).astype("i4"),
            "masked_lm_positions": np.stack(
                [np.sort(rng.choice(np.arange(1, 6), predictions, False)) for _ in range(rows)]
            ).astype("i4"),
            "masked_lm_ids": rng.integers(1, config.vocab_size, (rows, predictions)).astype("i4"),
            "masked_lm_weights": (slots < rng.integers(1, predictions + 1, (rows, 1))).astype("f4"),
            "next_sentence_labels": rng.integers(0, 2, rows).astype("i4"),
        }.items()
    }


def with_one_segment(model):
    """A bundle whose token types are cut to one, so that it takes no pairs."""
    name = "encoder/embeddings/token_type_embeddings"
    return dataclasses.replace(
        model,
        config=dataclasses.replace(model.config, type_vocab_size=1),
        weights=model.weights | {name: model.weights[name][:1]},
    )


def slope_at(loss, variable, where, change):
    """The slope of a loss at one element of a variable, by differences."""
    kept, ends = variable.numpy(), []
    for sign in (1, -1):
        moved = kept.copy()
        moved[where] += sign * change
        variable.assign(moved)
        ends.append(float(loss()))
    variable.assign(kept)
    return (ends[0] - ends[1]) / (2 * change)


def report_of(folder):
    """The report of a run."""
    return json.loads(Path(folder, "report.json").read_text())


def history_of(folder):
    """What a run logged, one dict for each point."""
    return [json.loads(line) for line in Path(folder, "history.jsonl").read_text().splitlines()]


def cluster_of(count):
    """TF_CONFIG of each worker of a cluster on this machine, on ports that are free."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(count)]}
    return [
        json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        for index in range(count)
    ]
