"""Denoising: the objective of BART (Lewis et al. 2019, arXiv 1910.13461, section 2)."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.models.encoder_decoder import EncoderDecoder
from bert_tf.models.layers.base import Shape, serializable
from bert_tf.objectives.base import Batch
from bert_tf.objectives.token_prediction import TokenLabels, TokenPrediction

TARGET, TARGET_MASK = "target_word_ids", "target_mask"


@serializable
class Denoising(TokenPrediction):
    """An encoder reads a noised text, and a decoder predicts each token of the original one.

    The configuration must have decoder layers.
    """

    encoder: EncoderDecoder

    @property
    def features(self) -> frozenset[str]:
        """The original text."""
        return frozenset((TARGET, TARGET_MASK))

    def call(self, inputs: Batch, training: bool = False) -> dict[str, tf.Tensor]:
        """Returns float32 logits: `masked_lm` [batch, target length, vocab_size].

        Without a target, it is the input.
        """
        if TARGET not in inputs:
            return self.logits(self.encoder(inputs, training=training), inputs)
        return self.logits(self.encode(inputs, training, None), inputs)

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits for the shapes of the inputs."""
        batch, length = input_shape.get(TARGET, input_shape["input_word_ids"])
        return {"masked_lm": (batch, length, self.config.vocab_size)}

    def encode(
        self, batch: Batch, training: bool, dropout_seed: tf.Tensor | None
    ) -> dict[str, Any]:
        """The decoder's outputs [batch, target length, hidden_size] as `sequence_output`."""
        encoder = self.encoder
        seeds = encoder.draw_seeds(dropout_seed) if training else None
        read = shifted(batch[TARGET], batch[TARGET_MASK])
        sequence = encoder.decode(encoder.batch_of(batch), read, batch[TARGET_MASK], seeds)
        return {"sequence_output": sequence}

    def labels(self, batch: Batch) -> TokenLabels:
        """The tokens of the original text."""
        weights = tf.cast(tf.reshape(batch[TARGET_MASK], [-1]), tf.float32)
        return TokenLabels(None, tf.reshape(batch[TARGET], [-1]), weights)


def shifted(ids: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """What a decoder reads when it predicts texts: their last token, then the others in order.

    Args:
      ids: int32 [batch, length].
      mask: int32 [batch, length], 1 for tokens, 0 for padding, which is after them.
    """
    last = tf.maximum(tf.reduce_sum(mask, 1, keepdims=True) - 1, 0)
    return tf.concat([tf.gather(ids, last, batch_dims=1), ids[:, :-1]], 1)
