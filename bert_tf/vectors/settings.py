"""Settings of vectors: which hidden states, of what, and how they are combined."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Annotated, Any, Self

from bert_tf.models.head_config import Pooling
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Group, Parser, Range, choice, number
from pipelines.common.settings import Settings

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


def _layers(argument: Any) -> Any:
    """Numbers of layers separated by commas, or None for ALL."""
    try:
        return None if argument == ALL else _NUMBERS.parse(argument)
    except ValueError as error:
        raise ValueError(f"{error}, or {ALL}") from error


_NUMBERS = number(int, Range(), several=True)
_LAYERS = Parser(_layers, f"{_NUMBERS.placeholder}|{ALL}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSettings(Settings):
    """All that decides features, apart from model and texts.

    Flags:
      layers: Layers to take the vectors from: 0 is the embeddings, 1 the first block, -1 the last
        block; or all.
      unit: What has features of its own: each token ([CLS] and [SEP] included), each word, or the
        text as a whole.
      word_pooling: With --unit=word: the vector of a word is that of its first token, or the mean
        of its tokens.
      pooling: The vector of a text as a whole: the mean or the maximum of its tokens ([CLS] and
        [SEP] included), the vector of [CLS], or the output of the pooler. Not given: the mean; of a
        model that was trained to make vectors, its pooling, length and normalization.
      combine: How the vectors of several layers are combined: kept apart, concatenated, summed,
        averaged, or summed with --layer_weights.
      layer_weights: With --combine=weighted: a factor for each layer, in their order. The sum of
        the factors need not be 1. Not given: for the other combinations.
      max_seq_length: Maximum number of tokens of a text, special tokens included; longer texts are
        cut. Not given: the maximum of the model or, without --pooling, that of its training to make
        vectors.
      batch_tokens: Number of tokens of a batch, padding included; two are computed at once.
      precision: Data type of the weights and of the computation.
    """

    group = Group.MODEL

    layers: Annotated[tuple[int, ...] | None, _LAYERS] = (-1,)  # None: all
    unit: Unit = Unit.TOKEN
    word_pooling: WordPooling = WordPooling.FIRST
    pooling: Pooling | None = None
    combine: Combination = Combination.SEPARATE
    layer_weights: tuple[float, ...] | None = None
    max_seq_length: Annotated[int | None, Range(minimum=8)] = None
    batch_tokens: Annotated[int, Range(minimum=1, maximum=1 << 24), Group.MACHINE] = 4096
    precision: Annotated[str, choice(("float32", "bfloat16")), Group.MACHINE] = "float32"
    # Whether to divide each vector by its length (L2); None: as the model does.
    normalize: bool | None = None
    # Width of the dense layer that vectors of texts pass, of a model that was trained with one.
    dense: int = 0
    # Name of the prompt that begins each text, and its text; None: as the model does.
    prompt: str | None = None
    prefix: str | None = None
    # Dimensions that vectors of texts are cut to, before normalization; None: as the model does.
    truncate_dim: Annotated[int | None, Range(minimum=1)] = None
    # How vectors of texts are compared: "cosine" or "dot".
    similarity: str = "cosine"

    def check(self) -> None:
        """Raises InputError if a value is out of range, or weights do not match the combination."""
        super().check()
        weighted = self.combine == Combination.WEIGHTED
        if weighted and not self.layer_weights:
            raise InputError("--combine=weighted: give --layer_weights, a number for each layer.")
        if self.pooling and self.unit != Unit.TEXT:
            raise InputError(f"--pooling goes with --unit=text, not with {self.unit}.")
        if self.word_pooling != WordPooling.FIRST and self.unit != Unit.WORD:
            raise InputError(f"--word_pooling goes with --unit=word, not with {self.unit}.")
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
        for name in ("normalize", "dense", "prompt", "prefix", "truncate_dim"):
            if not found[name]:
                del found[name]
        if self.similarity == "cosine":
            del found["similarity"]
        return found

    @classmethod
    def described(cls, values: Mapping[str, Any]) -> Self:
        """The settings that `describe` described, as JSON values.

        Raises:
          InputError: a value is out of range.
          TypeError: a setting is unknown, or has another type; or the values have no names.
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"{values!r} is not an object.")
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        settings = cls(**fields)
        settings.check()
        return settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingSettings(FeatureSettings):
    """Settings of one vector for each text: features of texts, layers concatenated.

    Flags:
      layers: Layers to take the vectors from, several are concatenated: 0 is the embeddings, 1 the
        first block, -1 the last block.
      normalize: Divide each vector by its length (L2), so that dot products are cosine
        similarities. Not given: as the model does that was trained to make vectors, if there is no
        --pooling; no others are divided.
      prompt: Name of the prompt of the model that begins each text (the first one of a pair). Not
        given: its default prompt, if it has one and there is no --pooling.
      truncate_dim: Number of dimensions that vectors are cut to, before they are divided by their
        length, for models that were trained for shorter vectors. Not given: as the model states, if
        there is no --pooling; all.
    """

    layers: tuple[int, ...] = (-1,)
    normalize: bool | None = None
    prompt: str | None = None
    truncate_dim: Annotated[int | None, Range(minimum=1)] = None
    unit: Unit = dataclasses.field(default=Unit.TEXT, init=False)
    word_pooling: WordPooling = dataclasses.field(default=WordPooling.FIRST, init=False)
    layer_weights: tuple[float, ...] | None = dataclasses.field(default=None, init=False)
    combine: Combination = dataclasses.field(default=Combination.CONCAT, init=False)
