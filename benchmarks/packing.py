"""Times the pre-training step on padded and on packed sequences of the same length.

Steps on examples of each folder follow each other in turn, in one process, so that both have the
same machine: those of benchmarks/step.py, with masked LM as the only objective. Counted are tokens
of the text: neither padding nor special tokens. The last line of stdout is one JSON object.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator

import tensorflow as tf

from benchmarks.step import BATCH, LENGTH, training_step
from bert_tf.objectives.masked_lm import MaskedLM
from bert_tf.training.step import TrainingStep
from pipelines.pretraining import example_folder, example_reader


class Timed:
    """Steps on the examples of a folder, and how long they take."""

    def __init__(self, folder: str, step: TrainingStep):
        examples = example_reader.open_examples(folder)
        assert examples.max_seq_length == LENGTH
        self._step, self._seed = step, tf.constant(12345)
        self._batches = iter(example_reader.training_batches(examples, BATCH, 0))
        vocabulary = example_folder.read_vocabulary(folder)
        self._special = tf.constant(
            [vocabulary.id_of(role) for role in ("pad", "start", "separator")], tf.int32
        )
        self.seconds: list[float] = []
        self.tokens: list[int] = []

    def once(self, number: int) -> None:
        """Makes a step on the next batch; its own time is measured, without that of reading."""
        batch = next(self._batches)
        ids = batch["input_word_ids"][..., tf.newaxis]
        of_text = tf.reduce_all(ids != self._special, axis=-1)
        self.tokens.append(int(tf.reduce_sum(tf.cast(of_text, tf.int32))))
        begin = time.perf_counter()
        counts = self._step(self._one(batch), number, 1, self._seed)
        float(counts["masked_lm_loss"])
        self.seconds.append(time.perf_counter() - begin)

    @staticmethod
    def _one(batch: dict[str, tf.Tensor]) -> Iterator[dict[str, tf.Tensor]]:
        yield {name: value for name, value in batch.items() if "next" not in name}

    def result(self, warmup: int) -> dict[str, float]:
        """Figures of the steps after the first ones."""
        seconds = statistics.median(self.seconds[warmup:])
        tokens = statistics.mean(self.tokens[warmup:])
        return {
            "step_seconds": round(seconds, 4),
            "tokens_a_sequence": round(tokens / BATCH, 1),
            "tokens_per_second": round(tokens / seconds, 1),
        }


def main() -> None:
    """Times steps on each folder in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--padded", required=True, help="folder of examples with padding")
    parser.add_argument("--packed", required=True, help="folder of packed examples")
    parser.add_argument("--precision", default="mixed_bfloat16")
    parser.add_argument("--steps", type=int, default=12, help="timed steps of each")
    parser.add_argument("--warmup", type=int, default=3, help="steps of each before the timed ones")
    args = parser.parse_args()
    step = training_step(MaskedLM, args.precision)
    timed = {"padded": Timed(args.padded, step), "packed": Timed(args.packed, step)}
    for number in range(args.warmup + args.steps):
        for each in timed.values():
            each.once(number)
    print(json.dumps({name: each.result(args.warmup) for name, each in timed.items()}))


if __name__ == "__main__":
    main()
