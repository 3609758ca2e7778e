"""Denoising: the objective of BART (Lewis et al. 2019, arXiv 1910.13461, section 2)."""

from collections.abc import Mapping
from typing import ClassVar

import tensorflow as tf

from bert_tf.models.encoder_decoder import TARGET, TARGET_MASK, EncoderDecoder
from bert_tf.models.layers.base import Shape, serializable
from bert_tf.objectives.base import Batch
from bert_tf.objectives.masked_lm import TokenLabels, TokenPrediction


@serializable
class Denoising(TokenPrediction):
    """An encoder reads a noised text, and a decoder predicts each token of the original one.

    The configuration must have decoder layers.
    """

    encoder: EncoderDecoder
    parts: ClassVar[tuple[str, ...]] = ("denoising",)
    curves: ClassVar[tuple[str, ...]] = ("loss", "denoising_accuracy")

    @property
    def features(self) -> frozenset[str]:
        """The original text."""
        return frozenset((TARGET, TARGET_MASK))

    def call(self, inputs: Batch, training: bool = False) -> dict[str, tf.Tensor]:
        """Returns float32 logits: `masked_lm` [batch, target length, vocab_size].

        Without a target, it is the input.
        """
        return self.logits(self.encoder(inputs, training=training))

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits for the shapes of the inputs."""
        batch, length = input_shape.get(TARGET, input_shape["input_word_ids"])
        return {"masked_lm": (batch, length, self.config.vocab_size)}

    def labels(self, batch: Batch) -> TokenLabels:
        """The tokens of the original text."""
        weights = tf.cast(tf.reshape(batch[TARGET_MASK], [-1]), tf.float32)
        return TokenLabels(None, tf.reshape(batch[TARGET], [-1]), weights)
