"""Masks drawn on the device, new at every step (RoBERTa, arXiv 1907.11692, section 4.1)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

RESOLUTION = 1 << 24  # random integers are below it, so fractions are multiples of 2^-24


@dataclasses.dataclass(frozen=True)
class DynamicMasking:
    """Chooses the tokens to predict as `pipelines.pretraining.masking` does, by a seed.

    In a sequence of `length` tokens, special ones included, n = min(max_predictions, max(1,
    round(share * length))) are chosen, uniformly among those that are not special, or all of these
    if there are fewer. Shapes are static, so that XLA can compile it.

    Attributes:
      special_ids: tokens that are never chosen.
      mask_id: the token that replaces most of those chosen.
      vocab_size: size of the vocabulary, from which random tokens are drawn.
      max_predictions: maximum number of chosen tokens, by the length of the padded sequences.
      share: fraction of the tokens to choose.
      mask_fraction: fraction of those chosen that become `mask_id`.
      random_fraction: fraction of those chosen that become a random token; the rest is unchanged.
    """

    special_ids: tuple[int, ...]
    mask_id: int
    vocab_size: int
    max_predictions: Mapping[int, int]
    share: float = 0.15
    mask_fraction: float = 0.8
    random_fraction: float = 0.1

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "DynamicMasking":
        """The inverse of `dataclasses.asdict`, also after a round trip through JSON."""
        lengths = {int(length): limit for length, limit in values["max_predictions"].items()}
        special = tuple(values["special_ids"])
        return cls(**(dict(values) | {"special_ids": special, "max_predictions": lengths}))

    def __call__(self, batch: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        """Masks a batch.

        Args:
          batch: with `input_word_ids` and `input_mask`, int32 [batch, length].
          seed: int32 scalar; the same seed chooses the same tokens.

        Returns:
          The batch with masked `input_word_ids`, and with `masked_lm_positions` and
          `masked_lm_ids`, int32, and `masked_lm_weights`, float32, [batch, max_predictions]:
          positions ascending, padded with zeros.
        """
        ids = batch["input_word_ids"]
        positions, chosen = self._choose(ids, batch["input_mask"], seed)
        labels = tf.gather(ids, positions, batch_dims=1)
        replaced = self._replace(labels, seed)
        # Unused slots add nothing, at position 0.
        change = tf.where(chosen, replaced - labels, 0)
        hits = tf.one_hot(positions, ids.shape[1], dtype=ids.dtype)
        return batch | {
            "input_word_ids": ids + tf.einsum("bs,bsl->bl", change, hits),
            "masked_lm_positions": positions,
            "masked_lm_ids": tf.where(chosen, labels, 0),
            "masked_lm_weights": tf.cast(chosen, tf.float32),
        }

    def _choose(
        self, ids: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Positions [batch, max_predictions], and which of these slots are used."""
        limit = self.max_predictions[ids.shape[1]]
        candidates = mask > 0
        for special in self.special_ids:
            candidates &= ids != special
        # A table, because float32 would round some halves in the other direction.
        table = np.clip(np.rint(self.share * np.arange(ids.shape[1] + 1)), 1, limit)
        wanted = tf.gather(tf.constant(table, tf.int32), tf.reduce_sum(mask, 1))
        available = tf.reduce_sum(tf.cast(candidates, tf.int32), 1)
        counts = tf.minimum(wanted, available)
        _, drawn = tf.math.top_k(self.ranks(ids, candidates, seed), limit)
        chosen = tf.range(limit) < counts[:, tf.newaxis]
        # Unused slots are sorted after all positions, and then become 0.
        behind = ids.shape[1]
        positions = tf.sort(tf.where(chosen, drawn, behind), 1)
        return tf.where(chosen, positions, 0), chosen

    def ranks(self, ids: tf.Tensor, candidates: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Numbers [batch, length], the largest of which are chosen; others are the lowest."""
        return tf.where(candidates, draw(tf.shape(ids), seed, 0, tf.int32.max), -1)

    def _replace(self, labels: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """The tokens that replace chosen ones."""
        shape = tf.shape(labels)
        drawn, other = draw(shape, seed, 1, RESOLUTION), draw(shape, seed, 2, self.vocab_size)
        masked, changed = (
            round(RESOLUTION * part)
            for part in (self.mask_fraction, self.mask_fraction + self.random_fraction)
        )
        return tf.where(drawn < masked, self.mask_id, tf.where(drawn < changed, other, labels))


def draw(shape: tf.Tensor, seed: tf.Tensor, stream: int, limit: int) -> tf.Tensor:
    """Random int32 below a limit; integers, as XLA draws the same ones."""
    key = tf.stack([seed, stream])
    return tf.random.stateless_uniform(shape, key, 0, limit, tf.int32, alg="philox")
