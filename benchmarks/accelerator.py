"""Times pre-training steps of BERT-Base and BERT-Large on a GPU, and shows their memory.

    python -m benchmarks.accelerator

Standard output has the rows of `accelerator.json`, which names the machine of its figures. Each
case is a process of its own. Operations are those of matrix products, three times those of a
forward pass; their rate is compared with that of large matrix products in the same process.
"""

import concurrent.futures
import dataclasses
import itertools
import json
import multiprocessing
import time
from typing import Any, NamedTuple

import tensorflow as tf

from benchmarks.step import random_batch, training_step
from bert_tf.models.config import BertConfig
from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from bert_tf.training import hardware
from pipelines.common import quiet_start

_PRECISION = "mixed_bfloat16"
_PREDICTIONS = {128: 20, 512: 77, 2048: 307}  # of a sequence, by its length
_WARMUP, _STEPS = 5, 20


class Case(NamedTuple):
    """What is timed."""

    model: str
    length: int
    batch: int
    dropout: float


CASES = (
    Case("base", 128, 128, 0.1),
    Case("base", 128, 128, 0.0),
    Case("base", 512, 32, 0.1),
    Case("base", 512, 32, 0.0),
    Case("base", 2048, 8, 0.0),
    Case("large", 512, 16, 0.0),
)


def timed(case: Case) -> dict[str, Any]:
    """The figures of a case; compilation is part of the first step."""
    config = BertConfig.named(case.model).with_dropout(case.dropout)
    positions = max(config.max_position_embeddings, case.length)
    config = dataclasses.replace(config, max_position_embeddings=positions)
    model = MaskedLMNextSentence(config, dtype=_PRECISION)
    step = training_step(model, "step", tf.distribute.get_strategy())
    predictions = _PREDICTIONS[case.length]
    batch = random_batch(0, batch_size=case.batch, length=case.length, predictions=predictions)
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    numbers, seed = itertools.count(), tf.constant(1)

    def seconds(calls: int, steps: int = 1) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            counts = step(batches, next(numbers), steps, seed)
        counts["masked_lm_loss"].numpy()  # waits for the device
        return time.perf_counter() - begin

    first, _ = seconds(1), seconds(_WARMUP)
    one_by_one = _STEPS / seconds(_STEPS)
    seconds(1, _STEPS)
    in_calls = _STEPS / seconds(1, _STEPS)
    (peak,) = hardware.peak_flops(tf.bfloat16)
    operations = case.batch * 3 * model.flops(case.length, predictions)
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


def main() -> None:
    """Times all cases and prints their rows."""
    quiet_start.import_silently()  # sets flags of XLA as for a command; the processes inherit them
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        print(json.dumps(list(pool.map(timed, CASES)), indent=1))


if __name__ == "__main__":
    main()
