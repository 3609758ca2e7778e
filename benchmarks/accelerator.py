"""Times pre-training steps of BERT-Base and BERT-Large on a GPU, and shows their memory.

    python -m benchmarks.accelerator > benchmarks/accelerator.json

Each case is a process of its own. Operations are those of matrix products, three times those of a
forward pass; their rate is compared with that of large matrix products in the same process.
"""

import concurrent.futures
import itertools
import json
import multiprocessing
import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.objectives.masked_lm_next_sentence import MaskedLMNextSentence
from bert_tf.training import hardware
from bert_tf.training.distribution import Compilation, make_strategy
from bert_tf.training.optimizers import AdamW
from bert_tf.training.settings import StrategyName
from bert_tf.training.step import TrainingStep
from pipelines.common import quiet_start

_PRECISION = "mixed_bfloat16"
_PREDICTIONS = {128: 20, 512: 77}  # of a sequence, by its length
_WARMUP, _STEPS = 5, 20


class Case(NamedTuple):
    """What is timed."""

    model: str
    length: int
    batch: int


CASES = (
    Case("base", 128, 128),
    Case("base", 512, 32),
    Case("large", 128, 64),
    Case("large", 512, 16),
)


def timed(case: Case) -> dict[str, Any]:
    """The figures of a case; compilation is part of the first step."""
    strategy = make_strategy(StrategyName.ONE_DEVICE)
    with strategy.scope():
        config = BertConfig.named(case.model)
        model = MaskedLMNextSentence(config, dtype=_PRECISION)
        optimizer = AdamW(1e-4)
        optimizer.build(model.trainable_variables)
    step = TrainingStep(model, optimizer, strategy, compilation=Compilation.STEP)
    batches = iter(tf.data.Dataset.from_tensors(_batch(case, config.vocab_size)).repeat())
    numbers, seed = itertools.count(), tf.constant(1)

    def seconds(calls: int, steps: int = 1) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            counts = step(batches, next(numbers) * steps, steps, seed)
        counts["masked_lm_loss"].numpy()  # waits for the device
        return time.perf_counter() - begin

    first, _ = seconds(1), seconds(_WARMUP)
    one_by_one = _STEPS / seconds(_STEPS)
    seconds(1, _STEPS)
    in_calls = _STEPS / seconds(1, _STEPS)
    (peak,) = hardware.peak_flops(tf.bfloat16)
    operations = case.batch * hardware.training_flops(
        model.encoders, model.token_head, case.length, _PREDICTIONS[case.length]
    )
    return {
        **case._asdict(),
        "first_step_seconds": round(first, 1),
        "steps_per_second": round(one_by_one, 2),
        f"steps_per_second_in_calls_of_{_STEPS}": round(in_calls, 2),
        "sequences_per_second": round(case.batch * one_by_one, 1),
        "teraflops": round(operations * one_by_one / 1e12, 1),
        "teraflops_of_matrix_products": round(peak / 1e12, 1),
        "memory_gib": round(tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**30, 2),
    }


def _batch(case: Case, vocabulary: int) -> dict[str, tf.Tensor]:
    """Random tokens: full sequences of two segments, with the masked positions in order."""
    rng = np.random.default_rng(0)
    size, length, predictions = case.batch, case.length, _PREDICTIONS[case.length]
    positions = 1 + rng.random((size, length - 1)).argsort(axis=1)[:, :predictions]
    batch = {
        "input_word_ids": rng.integers(5, vocabulary, (size, length)),
        "input_mask": np.ones((size, length)),
        "input_type_ids": np.tile(np.arange(length) >= length // 2, (size, 1)),
        "masked_lm_positions": np.sort(positions, axis=1),
        "masked_lm_ids": rng.integers(5, vocabulary, (size, predictions)),
        "next_sentence_labels": rng.integers(0, 2, size),
    }
    features = {name: tf.constant(value.astype(np.int32)) for name, value in batch.items()}
    return features | {"masked_lm_weights": tf.ones([size, predictions])}


def main() -> None:
    """Times all cases and prints their rows."""
    quiet_start.import_silently()  # sets flags of XLA as for a command; the processes inherit them
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        print(json.dumps(list(pool.map(timed, CASES)), indent=1))


if __name__ == "__main__":
    main()
