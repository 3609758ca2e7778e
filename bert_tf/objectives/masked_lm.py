"""Masked LM alone: tokens from those on both sides ("No NSP", Devlin et al. 2018, section 5.1)."""

import dataclasses
from typing import ClassVar, Self

import tensorflow as tf

from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.models.layers.base import serializable
from bert_tf.objectives.base import Batch, ExampleTraits
from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.token_prediction import Labels, TokenPrediction

_MASKED = frozenset(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"))


@serializable
class MaskedLM(TokenPrediction):
    """Guesses masked tokens.

    Args:
      config: the encoder's configuration.
      masking: masks tokens on the device; None: examples have them masked.
    """

    causal: ClassVar[bool | None] = False
    guesses_masked: ClassVar[bool] = True

    def __init__(self, config: BertConfig, masking: DynamicMasking | None = None, **kwargs):
        super().__init__(config, **kwargs)
        self.masking = masking

    @classmethod
    def for_examples(cls, config: EncoderConfig, examples: ExampleTraits, **kwargs) -> Self:
        """Masks on the device where examples have no masked tokens."""
        assert isinstance(config, BertConfig)  # see `config_type`
        masked = bool(_MASKED & examples.features)
        masking = None if masked else DynamicMasking.for_examples(examples)
        return cls(config, masking, **kwargs)

    @property
    def features(self) -> frozenset[str]:
        """The masked tokens, where examples have to have them."""
        return frozenset() if self.masking else _MASKED

    def prepare(self, batch: Batch, seed: tf.Tensor) -> Batch:
        """The batch with masked tokens."""
        return self.masking(batch, seed) if self.masking else batch

    def labels(self, batch: Batch) -> Labels:
        """The masked tokens, at their positions."""
        names = ("masked_lm_ids", "masked_lm_weights")
        ids, weights = (tf.reshape(batch[name], [-1]) for name in names)
        return Labels(batch["masked_lm_positions"], ids, weights)

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        masking = self.masking and dataclasses.asdict(self.masking)
        return super().get_config() | {"masking": masking}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Makes what `get_config` describes."""
        masking = config["masking"] and DynamicMasking.from_dict(config["masking"])
        return super().from_config(config | {"masking": masking}, custom_objects)
