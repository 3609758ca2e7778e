"""Which features are extracted, and how layers are combined."""

import dataclasses
import enum
from typing import Any, ClassVar

from bert_tf.vectors.encoding.settings import (
    Pooling,
    batch_tokens_setting,
    max_length_setting,
    precision_setting,
)
from pipelines.common.errors import InputError
from pipelines.common.flag_groups import Group
from pipelines.common.settings import Settings, setting

ALL = "all"


class Unit(enum.StrEnum):
    """What has features of its own."""

    TOKEN = "token"  # special ones too
    WORD = "word"
    TEXT = "text"


class WordPooling(enum.StrEnum):
    """What makes one vector of those of the tokens of a word."""

    FIRST = "first"
    MEAN = "mean"


class Combination(enum.StrEnum):
    """What is made of the vectors of several layers."""

    SEPARATE = "separate"
    CONCAT = "concat"  # side by side
    SUM = "sum"
    MEAN = "mean"
    WEIGHTED = "weighted"  # a sum with weights


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSettings(Settings):
    """All that decides features, beside model and texts.

    Attributes:
      layers: numbers of layers; None: all of them, the embeddings too.
    """

    not_flags: ClassVar[frozenset[str]] = frozenset({"layers"})

    layers: tuple[int, ...] | None = setting(
        (-1,),
        "Which layers' vectors: 0 the embeddings', 1 the first block's, -1 the last one's; or all "
        "of them.",
        group=Group.MODEL,
    )
    unit: str = setting(
        Unit.TOKEN,
        "What has features of its own: each token, [CLS] and [SEP] too; each word; or a text as a "
        "whole.",
        choices=tuple(Unit),
        group=Group.MODEL,
    )
    word_pooling: str = setting(
        WordPooling.FIRST,
        "Of --unit=word, what makes one vector of those of a word's tokens: the first one, or "
        "their mean.",
        choices=tuple(WordPooling),
        group=Group.MODEL,
    )
    pooling: str = setting(
        Pooling.MEAN,
        "Of --unit=text, what makes one vector of those of the tokens: their mean or max ([CLS] "
        "and [SEP] count), that of [CLS], or what the pooler makes of it.",
        choices=tuple(Pooling),
        group=Group.MODEL,
    )
    combine: str = setting(
        Combination.SEPARATE,
        "What is made of the vectors of several layers: they are kept apart, put side by side, "
        "added up, averaged, or added up with --layer_weights.",
        choices=tuple(Combination),
        group=Group.MODEL,
    )
    layer_weights: tuple[float, ...] | None = setting(
        None,
        "Of --combine=weighted, a factor for each of the layers, in their order. They are taken "
        "as they are: their sum need not be 1. Not given: of the other combinations.",
        group=Group.MODEL,
    )
    max_length: int | None = max_length_setting()
    batch_tokens: int = batch_tokens_setting()
    precision: str = precision_setting()

    def check(self) -> None:
        """Raises InputError where a value is out of its range, or weights do not go with layers."""
        super().check()
        weighted = self.combine == Combination.WEIGHTED
        if weighted and not self.layer_weights:
            raise InputError("--combine=weighted: give --layer_weights, a number for each layer.")
        if self.layer_weights and not weighted:
            raise InputError(
                f"--layer_weights goes with --combine=weighted, not with {self.combine}."
            )
        if self.layers is not None and self.layer_weights is not None:
            self.check_weights(len(self.layers))

    def check_weights(self, layers: int) -> None:
        """Raises InputError where there are weights, and not as many as layers."""
        weights = self.layer_weights
        if weights is not None and len(weights) != layers:
            raise InputError(
                f"--layer_weights: there are {len(weights)} for {layers} layers; give one for each."
            )

    def describe(self) -> dict[str, Any]:
        """All fields that count, as JSON values."""
        found = super().describe()
        if self.unit != Unit.WORD:
            del found["word_pooling"]
        if self.unit != Unit.TEXT:
            del found["pooling"]
        return found
