"""Times our pre-training step: masked LM and next-sentence prediction, optimizer included.

The model and the batch are those of `peers.timing`, the step that of the training loop. The last
line of stdout is one JSON object.
"""

import itertools

import keras
import tensorflow as tf

from benchmarks.peers import timing
from bert_tf.models.config import BertConfig
from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from bert_tf.training import distribution
from bert_tf.training.optimizers import AdamW
from bert_tf.training.settings import Compilation, StrategyName
from bert_tf.training.step import TrainingStep

_NAMES = {
    "input_word_ids": "ids",
    "input_mask": "mask",
    "input_type_ids": "segments",
    "masked_lm_positions": "positions",
    "masked_lm_ids": "labels",
    "next_sentence_labels": "next_sentence",
}


def random_batch(seed: int, **sizes: int) -> dict[str, tf.Tensor]:
    """The batch of `timing` with our names; arguments as there."""
    batch = timing.random_batch(seed, **sizes)
    features = {name: tf.constant(batch[theirs]) for name, theirs in _NAMES.items()}
    return features | {"masked_lm_weights": tf.ones_like(features["masked_lm_ids"], tf.float32)}


def training_step(
    model: MaskedLMNextSentence, compilation: str, strategy: tf.distribute.Strategy
) -> TrainingStep:
    """The training step of a model."""
    optimizer = AdamW(1e-4)
    optimizer.build(model.trainable_variables)
    return TrainingStep(model, optimizer, strategy, compilation=Compilation(compilation))


def main() -> None:
    """Times the step and prints the median."""
    parser = timing.parser(__doc__.splitlines()[0], "float32", "mixed_bfloat16")
    parser.add_argument("--compilation", choices=("fused", "step", "off"), default="fused")
    args = parser.parse_args()
    strategy = distribution.make_strategy(StrategyName.ONE_DEVICE)  # which sets the threads, too
    keras.utils.set_random_seed(0)
    config = BertConfig(
        vocab_size=timing.VOCABULARY,
        num_hidden_layers=timing.LAYERS,
        hidden_size=timing.WIDTH,
        num_attention_heads=timing.HEADS,
        intermediate_size=4 * timing.WIDTH,
    )
    model = MaskedLMNextSentence(config, dtype=args.precision)
    step = training_step(model, args.compilation, strategy)
    batches = itertools.cycle([random_batch(seed) for seed in range(4)])
    numbers, seed = itertools.count(), tf.constant(12345)
    timing.report_steps(
        lambda: float(step(batches, next(numbers), 1, seed)["masked_lm_loss"]),
        precision=args.precision,
    )


if __name__ == "__main__":
    main()
