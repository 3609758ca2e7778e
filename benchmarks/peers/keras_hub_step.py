"""Times a masked-LM training step of KerasHub's BERT on the TensorFlow backend.

The peer is `keras_hub.models.BertMaskedLM` with the model and batch of `timing`. Like the original
BERT it computes the vocabulary only at the masked positions; unlike it, it has no next-sentence
loss. Steps run through `train_on_batch`, which is as fast as `fit` here, and without XLA, which is
the fastest way on a CPU. Building the model and the first steps are not timed.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import timing


def build_model() -> keras.Model:
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=timing.VOCABULARY,
        num_layers=timing.LAYERS,
        num_heads=timing.HEADS,
        hidden_dim=timing.WIDTH,
        intermediate_dim=4 * timing.WIDTH,
        max_sequence_length=512,
        dropout=0.1,
    )
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=None,
        jit_compile=False,
    )
    return model


def main() -> None:
    args = timing.parser(__doc__.splitlines()[0], "float32", "mixed_bfloat16").parse_args()
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(args.precision)
    model, batch = build_model(), timing.random_batch(0)
    features = {
        "token_ids": batch["ids"],
        "segment_ids": batch["segments"],
        "padding_mask": batch["mask"],
        "mask_positions": batch["positions"],
    }
    weights = np.ones(batch["labels"].shape, np.float32)
    inputs = tf.nest.map_structure(tf.constant, (features, batch["labels"], weights))
    timing.report_steps(
        lambda: model.train_on_batch(*inputs, return_dict=True)["loss"],
        peer="keras_hub",
        version=keras_hub.__version__,
        precision=args.precision,
    )


if __name__ == "__main__":
    main()
