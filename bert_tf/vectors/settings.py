"""Settings of vectors: which hidden states, of what, and how they are combined."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, Self

from bert_tf.models.head_config import Pooling
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group, NumberParser
from pipelines.common.settings import Settings, setting

ALL = "all"


class Unit(enum.StrEnum):
    """What has features of its own."""

    TOKEN = "token"  # special tokens too
    WORD = "word"
    TEXT = "text"


class WordPooling(enum.StrEnum):
    """How the vectors of a word's tokens become one vector."""

    FIRST = "first"
    MEAN = "mean"


class Combination(enum.StrEnum):
    """How the vectors of several layers are combined."""

    SEPARATE = "separate"
    CONCAT = "concat"
    SUM = "sum"
    MEAN = "mean"
    WEIGHTED = "weighted"  # a weighted sum


class _LayersParser(NumberParser):
    """Parses numbers of layers separated by commas, or ALL as None."""

    def __init__(self) -> None:
        super().__init__(int, several=True)
        self.placeholder = f"{self.placeholder}|{ALL}"
        self.expected = f"{self.expected}, or {ALL}"

    def parse(self, argument: Any) -> Any:
        """The numbers, or None."""
        return None if argument == ALL else super().parse(argument)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSettings(Settings):
    """All that decides features, apart from model and texts.

    Attributes:
      layers: numbers of layers; None: all layers, the embeddings included.
      normalize: whether to divide each vector by its length (L2); None: as the model does.
    """

    group = Group.MODEL

    layers: tuple[int, ...] | None = setting(
        (-1,),
        "Layers to take the vectors from: 0 is the embeddings, 1 the first block, -1 the last "
        "block; or all.",
        parser=_LayersParser(),
    )
    unit: str = setting(
        Unit.TOKEN,
        "What has features of its own: each token ([CLS] and [SEP] included), each word, or the "
        "text as a whole.",
        choices=tuple(Unit),
    )
    word_pooling: str = setting(
        WordPooling.FIRST,
        "With --unit=word: the vector of a word is that of its first token, or the mean of its "
        "tokens.",
        choices=tuple(WordPooling),
    )
    pooling: str | None = setting(
        None,
        "The vector of a text as a whole: the mean or the maximum of its tokens ([CLS] and [SEP] "
        "included), the vector of [CLS], or the output of the pooler. Not given: the mean; of a "
        "model that was trained to make vectors, its pooling, length and normalization.",
        choices=tuple(Pooling),
    )
    combine: str = setting(
        Combination.SEPARATE,
        "How the vectors of several layers are combined: kept apart, concatenated, summed, "
        "averaged, or summed with --layer_weights.",
        choices=tuple(Combination),
    )
    layer_weights: tuple[float, ...] | None = setting(
        None,
        "With --combine=weighted: a factor for each layer, in their order. The sum of the factors "
        "need not be 1. Not given: for the other combinations.",
    )
    max_seq_length: int | None = setting(
        None,
        "Maximum number of tokens of a text, special tokens included; longer texts are cut. Not "
        "given: the maximum of the model or, without --pooling, that of its training to make "
        "vectors.",
        minimum=8,
    )
    batch_tokens: int = setting(
        4096,
        "Number of tokens that are computed at once, padding included.",
        group=Group.MACHINE,
        minimum=1,
        maximum=1 << 24,
    )
    precision: str = setting(
        "float32",
        "Data type of the weights and of the computation.",
        group=Group.MACHINE,
        choices=("float32", "bfloat16"),
    )
    normalize: bool | None = None

    def check(self) -> None:
        """Raises InputError if a value is out of range, or weights do not match the combination."""
        super().check()
        weighted = self.combine == Combination.WEIGHTED
        if weighted and not self.layer_weights:
            raise InputError("--combine=weighted: give --layer_weights, a number for each layer.")
        if self.layer_weights and not weighted:
            raise InputError(
                f"--layer_weights goes with --combine=weighted, not with {self.combine}."
            )

    def describe(self) -> dict[str, Any]:
        """All fields that have an effect, as JSON values."""
        found = super().describe()
        if self.unit != Unit.WORD:
            del found["word_pooling"]
        if self.unit != Unit.TEXT:
            del found["pooling"]
        if not self.normalize:
            del found["normalize"]
        return found

    @classmethod
    def described(cls, values: Mapping[str, Any]) -> Self:
        """The settings that `describe` described, as JSON values.

        Raises:
          InputError: a value is out of range.
          TypeError: a setting is unknown, or has another type.
        """
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        settings = cls(**fields)
        settings.check()
        return settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingSettings(FeatureSettings):
    """Settings of one vector for each text: features of texts, layers concatenated."""

    layers: tuple[int, ...] = setting(
        (-1,),
        "Layers to take the vectors from, several are concatenated: 0 is the embeddings, 1 the "
        "first block, -1 the last block.",
    )
    normalize: bool | None = setting(
        None,
        "Divide each vector by its length (L2), so that dot products are cosine similarities. Not "
        "given: as the model does that was trained to make vectors, if there is no --pooling; no "
        "others are divided.",
    )
    unit: str = dataclasses.field(default=Unit.TEXT, init=False)
    word_pooling: str = dataclasses.field(default=WordPooling.FIRST, init=False)
    layer_weights: tuple[float, ...] | None = dataclasses.field(default=None, init=False)
    combine: str = dataclasses.field(default=Combination.CONCAT, init=False)
