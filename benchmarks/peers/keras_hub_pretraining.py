"""Pre-trains KerasHub's BERT to the quality of ours, and reports the time.

The peer is `keras_hub.models.BertMaskedLM` of 2 layers, 128 wide, which has no next-sentence loss,
on the examples of `benchmarks.quality`. Its defaults are those of `compile()`: Adam at 5e-5,
batches of 32, dropout 0.1. Our recipe is that of recipes/builtin.flags: `keras.optimizers.Muon`,
which updates other weights by AdamW, batches of 32, no dropout, the rate at its peak until the last
30 % of the time.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_hub
import learning
import numpy as np


def inputs_of(arrays: learning.Arrays) -> tuple[learning.Arrays, np.ndarray, np.ndarray]:
    """Features, labels and their weights."""
    features = {
        "token_ids": arrays["input_word_ids"],
        "segment_ids": arrays["input_type_ids"],
        "padding_mask": arrays["input_mask"],
        "mask_positions": arrays["masked_lm_positions"],
    }
    return features, arrays["masked_lm_ids"], arrays["masked_lm_weights"]


def model_of(ours: bool) -> keras.Model:
    """The compiled model."""
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=8192,
        num_layers=2,
        num_heads=2,
        hidden_dim=128,
        intermediate_dim=512,
        max_sequence_length=512,
        dropout=0.0 if ours else 0.1,
    )
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    if ours:
        # The optimizer leaves embeddings and heads to AdamW by itself.
        optimizer = keras.optimizers.Muon(
            2 * learning.RATE, adam_lr_ratio=0.5, adam_beta_2=0.98, weight_decay=0.01,
            rms_rate=0.2, global_clipnorm=1.0,
        )  # fmt: skip
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=optimizer, loss=loss, jit_compile=False)
    return model


def main() -> None:
    """Trains and prints the seconds."""
    args = learning.arguments(__doc__.splitlines()[0])
    ours = args.recipe == "ours"
    keras.utils.set_random_seed(args.seed)
    keras.config.set_dtype_policy({"bfloat16": "mixed_bfloat16"}.get(args.precision, "float32"))
    model = model_of(ours)
    training, held_out = learning.examples(args.examples)
    source = learning.batches(training, learning.BATCH if ours else 32)

    def step(fraction: float, number: int) -> None:
        if ours:
            rate = learning.rate_at(fraction, number, 2 * learning.RATE)
            model.optimizer.learning_rate.assign(rate)
        model.train_on_batch(*inputs_of(next(source)))

    def count_right(arrays: learning.Arrays) -> tuple[int, int]:
        features, labels, weights = inputs_of(arrays)
        guesses = model.predict_on_batch(features).argmax(-1)
        return int(((guesses == labels) * weights).sum()), int(weights.sum())

    described = {"peer": "keras_hub", "version": keras_hub.__version__}
    learning.report_seconds(step, count_right, held_out, args, **described)


if __name__ == "__main__":
    main()
