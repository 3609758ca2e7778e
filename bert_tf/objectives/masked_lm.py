"""Masked LM without next-sentence prediction ("No NSP", Devlin et al. 2018, section 5.1)."""

import dataclasses
from typing import ClassVar, Self

import tensorflow as tf

from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import serializable
from bert_tf.objectives.base import Batch
from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.token_prediction import TokenLabels, TokenPrediction

_MASKED = frozenset(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"))


@serializable
class MaskedLM(TokenPrediction):
    """Predicts masked tokens.

    Args:
      config: the encoder's configuration.
      masking: masks tokens on the device; None: the examples have masks.
    """

    causal: ClassVar[bool | None] = False
    guesses_masked: ClassVar[bool] = True

    def __init__(self, config: BertConfig, masking: DynamicMasking | None = None, **kwargs):
        super().__init__(config, **kwargs)
        self.masking = masking

    @classmethod
    def for_examples(
        cls, config: EncoderConfig, features: frozenset[str], masking: DynamicMasking, **kwargs
    ) -> Self:
        """Makes the objective, with masking on the device if the examples have no masks."""
        assert isinstance(config, BertConfig)  # see `config_type`
        return cls(config, None if _MASKED & features else masking, **kwargs)

    @property
    def features(self) -> frozenset[str]:
        """The masked tokens, unless they are drawn on the device."""
        return frozenset() if self.masking else _MASKED

    def prepare(self, batch: Batch, seed: tf.Tensor) -> Batch:
        """The batch with masked tokens."""
        return self.masking(batch, seed) if self.masking else batch

    def labels(self, batch: Batch) -> TokenLabels:
        """The masked tokens, at their positions."""
        names = ("masked_lm_ids", "masked_lm_weights")
        ids, weights = (tf.reshape(batch[name], [-1]) for name in names)
        return TokenLabels(batch["masked_lm_positions"], ids, weights)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        masking = self.masking and dataclasses.asdict(self.masking)
        return super().get_config() | {"masking": masking}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Makes what `get_config` describes."""
        masking = config["masking"] and DynamicMasking.from_dict(config["masking"])
        return super().from_config(config | {"masking": masking}, custom_objects)
