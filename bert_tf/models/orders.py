"""Pairs of texts in both orders, for models that read from left to right.

Which text of a pair comes first matters to such a model, but not to whether the two are similar;
the vectors of both orders are added (Radford et al. 2018, section 3.3).
"""

from collections.abc import Mapping

import tensorflow as tf

_SPECIAL_TOKENS = 3  # of a pair: at the start, between the texts, and at the end


def both(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The sequences of pairs, followed by the same with the second text first.

    Args:
      inputs: inputs of the encoder, int32 [batch, length] each. A sequence of one segment stays
        as it is.

    Returns:
      The inputs, int32 [2 * batch, length] each.
    """
    mask, types = inputs["input_mask"], inputs["input_type_ids"] * inputs["input_mask"]
    place = tf.range(tf.shape(mask)[1])[tf.newaxis]
    second = tf.reduce_sum(types, 1, keepdims=True) - 1  # tokens of the second text; -1: none
    first = tf.reduce_sum(mask, 1, keepdims=True) - second - _SPECIAL_TOKENS
    pair = second >= 0
    # The place from which each token of the other order comes.
    source = tf.where(place <= first + second + 1, place - second - 1, place)
    source = tf.where(place == second + 1, first + 1, source)
    source = tf.where(place <= second, place + first + 1, source)
    source = tf.where((place > 0) & pair, source, place)
    swapped = {
        "input_word_ids": tf.gather(inputs["input_word_ids"], source, axis=1, batch_dims=1),
        "input_mask": mask,
        "input_type_ids": tf.where(pair, mask * tf.cast(place >= second + 2, tf.int32), types),
    }
    return {name: tf.concat([inputs[name], swapped[name]], 0) for name in swapped}


def added(logits: tf.Tensor) -> tf.Tensor:
    """The sums [batch, units] of the logits of both orders, [2 * batch, units].

    A linear map of the sum of two vectors is the sum of two maps, with twice the bias.
    """
    return tf.add(*tf.split(logits, 2))
