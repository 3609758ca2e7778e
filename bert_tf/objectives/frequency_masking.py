"""Masks that prefer rare tokens (Sanh et al. 2019, as XLM; their program, `distiller.py`)."""

import dataclasses
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from bert_tf.objectives.dynamic_masking import RESOLUTION, DynamicMasking, draw

SMOOTHING = 0.7


@dataclasses.dataclass(frozen=True)
class FrequencyMasking(DynamicMasking):
    """Chooses tokens with probabilities in proportion to count^-0.7, without replacement.

    They are drawn for each sequence; the original draws them for a whole batch.

    Attributes:
      rates: the relative probability of each token of the vocabulary.
    """

    rates: tuple[float, ...] = ()

    def ranks(self, ids: tf.Tensor, candidates: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """A weighted sample: the largest of u^(1/rate), u uniform (Efraimidis, Spirakis 2006)."""
        numbers = tf.cast(draw(tf.shape(ids), seed, 0, RESOLUTION), tf.float32)
        rates = tf.gather(tf.constant(self.rates, tf.float32), ids)
        return tf.where(candidates, tf.math.log((numbers + 1) / (RESOLUTION + 1)) / rates, -np.inf)


def rates(counts: np.ndarray) -> tuple[float, ...]:
    """The relative probabilities of tokens, from their counts [vocab_size]; unseen ones count 1."""
    return tuple((np.maximum(counts, 1.0) ** -SMOOTHING).tolist())


def count(batches: Iterable[dict[str, np.ndarray]], vocab_size: int) -> np.ndarray:
    """The number of occurrences of each token in batches of examples without masks."""
    counts = np.zeros(vocab_size, np.int64)
    for batch in batches:
        ids = batch["input_word_ids"][batch["input_mask"] > 0]
        counts += np.bincount(ids, minlength=vocab_size)
    return counts
