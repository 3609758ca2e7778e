"""Words as WordPiece splits them, before it takes them apart."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Self

import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.tokenizers import normalizer
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS


def settings(chosen: Mapping[str, bool]) -> dict[str, bool | None]:
    """What decides the words: uncased, unless another choice was made."""
    return {
        "lower_case": chosen.get("lower_case", True),
        "strip_accents": chosen.get("strip_accents"),
    }


def settings_of_words(chosen: Mapping[str, bool]) -> dict[str, bool | None]:
    """What decides the words of a vocabulary of words: cased, unless another choice was made."""
    return settings({"lower_case": False, **chosen})


@dataclasses.dataclass(frozen=True)
class WordSplitter:
    """Splits texts into words as the tokenizer does, by a tokenizer that knows but one piece.

    Attributes:
      lower_case: whether words are lower-cased.
      strip_accents: whether letters lose their accents.
    """

    lower_case: bool
    strip_accents: bool

    @classmethod
    def of(cls, chosen: Mapping[str, bool | None]) -> Self:
        """That of the settings of a tokenizer."""
        lower_case, strip_accents = bool(chosen["lower_case"]), chosen["strip_accents"]
        return cls(lower_case, lower_case if strip_accents is None else strip_accents)

    def __call__(self, texts: list[str]) -> tf.Tensor:
        """Returns all words of the texts, string [words]."""
        normalized = _normalizer(self.lower_case, self.strip_accents)(texts)
        _, starts, ends = _tokenizer().tokenize_with_offsets(normalized)
        # Sentences are short: copying one for each of its words is the faster way.
        return tf.strings.substr(
            tf.gather(normalized, starts.value_rowids()),
            tf.cast(starts.flat_values, tf.int32),
            tf.cast(ends.flat_values - starts.flat_values, tf.int32),
        )


# Made once a process, so that a splitter can be sent to another.
@functools.cache
def _normalizer(lower_case: bool, strip_accents: bool) -> normalizer.Normalizer:
    return normalizer.Normalizer(lower_case, strip_accents)


@functools.cache
def _tokenizer() -> Any:
    return tf_text.FastBertTokenizer([*SPECIAL_TOKENS, "x"], token_out_type=tf.int32)
