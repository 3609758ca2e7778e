"""Masked LM with next-sentence prediction (BERT) or sentence-order prediction (ALBERT)."""

from collections.abc import Mapping
from typing import ClassVar

import tensorflow as tf

from bert_tf.models.config import BertConfig
from bert_tf.models.layers import Dense
from bert_tf.models.layers.base import Shape, serializable
from bert_tf.objectives.base import Batch, LossSums, Scalars, score
from bert_tf.objectives.dynamic_masking import DynamicMasking
from bert_tf.objectives.masked_lm import MaskedLM


@serializable
class MaskedLMNextSentence(MaskedLM):
    """Predicts masked tokens, and whether the second segment follows the first (section 3.1)."""

    trains_pooler: ClassVar[bool] = True
    pair_part: ClassVar[str] = "next_sentence"
    parts: ClassVar[tuple[str, ...]] = ("masked_lm", pair_part)

    def __init__(self, config: BertConfig, masking: DynamicMasking | None = None, **kwargs):
        super().__init__(config, masking, **kwargs)
        # 0: the second segment follows the first; 1: it is random, or the first follows it.
        self.pairs = Dense(
            config.hidden_size,
            2,
            config.initializer_range,
            # Only ALBERT's formats have a head on the order of segments.
            name=self.pair_part if config.model_type == "albert" else "next_sentence",
            dtype=self.dtype_policy,
        )
        self.pairs.build(self.pairs.expected_shape)

    @property
    def features(self) -> frozenset[str]:
        """The features of masked LM, and the labels of pairs."""
        return super().features | {"next_sentence_labels"}

    def compute_output_shape(self, input_shape: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes of the logits, by those of the inputs."""
        batch, _ = input_shape["input_word_ids"]
        return super().compute_output_shape(input_shape) | {self.pair_part: (batch, 2)}

    def logits(self, outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The logits of masked LM, and those of pairs [batch, 2], float32."""
        logits = tf.cast(self.pairs(outputs["pooled_output"]), tf.float32)
        return super().logits(outputs) | {self.pair_part: logits}

    def totals(self, batch: Batch) -> Scalars:
        """The numbers of masked tokens and of pairs."""
        pairs = tf.cast(tf.shape(batch["input_word_ids"])[0], tf.float32)
        return super().totals(batch) | {self.pair_part: pairs}

    def sums(
        self, outputs: dict[str, tf.Tensor], batch: Batch, seed: tf.Tensor | None
    ) -> dict[str, LossSums]:
        """The sums for masked tokens and for pairs."""
        found = super().sums(outputs, batch, seed)
        labels = batch["next_sentence_labels"]
        logits = self.pairs(outputs["pooled_output"], add_bias=False)
        weights = tf.ones_like(labels, tf.float32)
        return found | {self.pair_part: score(logits, self.pairs.bias, labels, weights)}


@serializable
class MaskedLMSentenceOrder(MaskedLMNextSentence):
    """Predicts masked tokens, and whether two segments are in order (Lan et al. 2019, 3.1)."""

    pair_part: ClassVar[str] = "sentence_order"
    parts: ClassVar[tuple[str, ...]] = ("masked_lm", pair_part)
    curves: ClassVar[tuple[str, ...]] = ("loss", "masked_lm_accuracy", "sentence_order_accuracy")
