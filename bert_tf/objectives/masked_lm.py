"""Masked LM alone: tokens from those on both sides ("No NSP", Devlin et al. 2018, section 5.1)."""

from typing import ClassVar

import tensorflow as tf

from bert_tf.objectives.base import Batch
from bert_tf.objectives.token_prediction import Labels, TokenPrediction


class MaskedLM(TokenPrediction):
    """Guesses the tokens that examples have masked."""

    causal: ClassVar[bool | None] = False
    guesses_masked: ClassVar[bool] = True

    @property
    def features(self) -> frozenset[str]:
        """The masked tokens."""
        return frozenset(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"))

    def labels(self, batch: Batch) -> Labels:
        """The masked tokens, at their positions."""
        names = ("masked_lm_ids", "masked_lm_weights")
        ids, weights = (tf.reshape(batch[name], [-1]) for name in names)
        return Labels(batch["masked_lm_positions"], ids, weights)
