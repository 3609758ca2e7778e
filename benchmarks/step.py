"""Times our pre-training step: masked LM and next-sentence prediction, optimizer included.

Six layers of width 384, batches of 32 sequences of 128 tokens with 20 predictions each and a
next-sentence label, dropout 0.1, AdamW with the gradient norm clipped at 1.0: the loop's own
step, on random ids. The last line of stdout is one JSON object.
"""

import argparse
import itertools

import keras
import numpy as np
import tensorflow as tf

from benchmarks.peers.timing import report_steps
from bert_tf.models.config import BertConfig
from bert_tf.objectives.masked_lm import MaskedLM
from bert_tf.objectives.masked_lm_next_sentence import MaskedLMNextSentence
from bert_tf.training.adamw import AdamW
from bert_tf.training.distribution import Compilation
from bert_tf.training.step import TrainingStep

BATCH, LENGTH, PREDICTIONS = 32, 128, 20
CONFIG = BertConfig(
    num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536
)


def random_batch(seed: int) -> dict[str, tf.Tensor]:
    """A batch of full-length sequences of random ids."""
    rng = np.random.default_rng(seed)
    return {
        name: tf.constant(value)
        for name, value in {
            "input_word_ids": rng.integers(5, CONFIG.vocab_size, (BATCH, LENGTH), np.int32),
            "input_mask": np.ones((BATCH, LENGTH), np.int32),
            "input_type_ids": np.tile(np.arange(LENGTH) >= LENGTH // 2, (BATCH, 1)).astype("i4"),
            "masked_lm_positions": np.sort(
                rng.integers(1, LENGTH - 1, (BATCH, PREDICTIONS), np.int32)
            ),
            "masked_lm_ids": rng.integers(5, CONFIG.vocab_size, (BATCH, PREDICTIONS), np.int32),
            "masked_lm_weights": np.ones((BATCH, PREDICTIONS), np.float32),
            "next_sentence_labels": rng.integers(0, 2, BATCH, np.int32),
        }.items()
    }


def training_step(
    objective: type[MaskedLM], precision: str, compilation: Compilation = Compilation.FUSED
) -> TrainingStep:
    """The step of a new model of an objective, in a precision as `keras` names it."""
    keras.utils.set_random_seed(0)
    model = objective(CONFIG, dtype=precision)
    optimizer = AdamW(1e-4)
    optimizer.build(model.trainable_variables)
    return TrainingStep(model, optimizer, tf.distribute.get_strategy(), compilation=compilation)


def main() -> None:
    """Times the step and prints the median."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", choices=("float32", "mixed_bfloat16"), required=True)
    parser.add_argument("--compilation", choices=("fused", "step", "off"), default="fused")
    parser.add_argument("--steps", type=int, default=12, help="timed steps")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the timed ones")
    args = parser.parse_args()
    step = training_step(MaskedLMNextSentence, args.precision, Compilation(args.compilation))
    batches = itertools.cycle([random_batch(seed) for seed in range(4)])
    numbers, seed = itertools.count(), tf.constant(12345)

    def one_step() -> float:
        return float(step(batches, next(numbers), 1, seed)["masked_lm_loss"])

    report_steps(one_step, args.warmup, args.steps, BATCH, precision=args.precision)


if __name__ == "__main__":
    main()
