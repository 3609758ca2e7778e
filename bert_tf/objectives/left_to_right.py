"""Left-to-right LM: each token from those before it ("LTR", Devlin et al. 2018, section 5.1)."""

from typing import ClassVar

import tensorflow as tf

from bert_tf.models.layers.base import serializable
from bert_tf.objectives.base import Batch
from bert_tf.objectives.token_prediction import Labels, TokenPrediction


@serializable
class LeftToRight(TokenPrediction):
    """Guesses each token from those before it, which are all that the encoder sees."""

    causal: ClassVar[bool | None] = True

    def labels(self, batch: Batch) -> Labels:
        """Each next token, at the position before it."""
        ids = tf.pad(batch["input_word_ids"][:, 1:], [[0, 0], [0, 1]])
        weights = tf.pad(batch["input_mask"][:, 1:], [[0, 0], [0, 1]])
        return Labels(None, tf.reshape(ids, [-1]), tf.cast(tf.reshape(weights, [-1]), tf.float32))
