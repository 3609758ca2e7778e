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

    def labels(self, batch: Batch) -> TokenLabels:
        """The next token at each position."""
        ids = tf.pad(batch["input_word_ids"][:, 1:], [[0, 0], [0, 1]])
        weights = tf.pad(batch["input_mask"][:, 1:], [[0, 0], [0, 1]])
        weights = tf.cast(tf.reshape(weights, [-1]), tf.float32)
        return TokenLabels(None, tf.reshape(ids, [-1]), weights)
