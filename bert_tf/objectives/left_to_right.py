"""Left-to-right language model ("LTR", Devlin et al. 2018, section 5.1)."""

from typing import ClassVar

import tensorflow as tf

from bert_tf.models.layers.base import serializable
from bert_tf.objectives.base import Batch
from bert_tf.objectives.token_prediction import TokenLabels, TokenPrediction


@serializable
class LeftToRight(TokenPrediction):
    """Predicts each token from those before it; the encoder sees no others."""

    causal: ClassVar[bool | None] = True
    parts: ClassVar[tuple[str, ...]] = ("next_token",)
    curves: ClassVar[tuple[str, ...]] = ("loss", "next_token_accuracy")

    def labels(self, batch: Batch) -> TokenLabels:
        """The next token at each position."""
        return TokenLabels(None, *next_tokens(batch))


def next_tokens(inputs: Batch) -> tuple[tf.Tensor, tf.Tensor]:
    """The next token at each position.

    Args:
      inputs: `input_word_ids` and `input_mask`, int32 [batch, length].

    Returns:
      int32 [batch * length], and float32 [batch * length]: 1, or 0 where no token follows.
    """
    ids, weights = (
        tf.reshape(tf.pad(inputs[name][:, 1:], [[0, 0], [0, 1]]), [-1])
        for name in ("input_word_ids", "input_mask")
    )
    return ids, tf.cast(weights, tf.float32)
