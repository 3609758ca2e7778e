"""Features of some texts, and what they are features of."""

import dataclasses
from typing import NamedTuple

import numpy as np


class Units(NamedTuple):
    """The tokens or words that have features of their own, [units] each.

    Attributes:
      tokens: the tokenizer's pieces, special tokens as it writes them; or words as in the text.
      starts, ends: int64, the first byte in the text (UTF-8), and the byte after the last one; -1
        of special tokens. Of given words, the text is the words with blanks between them.
      segments: int64, 0 in a first text, 1 in a second one, -1 of special tokens.
      words: int64, of the tokens of given words the number of the word in its sentence, from 0; -1
        of special tokens. None of others.
    """

    tokens: list[str]
    starts: np.ndarray
    ends: np.ndarray
    segments: np.ndarray
    words: np.ndarray | None

    def cut(self, start: int, end: int) -> "Units":
        """Some units that follow each other."""
        parts = (None if part is None else part[start:end] for part in self)
        return Units(*parts)  # type: ignore[arg-type]  # what is cut keeps its type


class TextFeatures(NamedTuple):
    """Features of a text, or pair of texts.

    Attributes:
      values: float32 [units, layers, width] where layers are kept apart, else [units, width]; of
        texts as a whole without the first axis.
      units: what has them; None of texts as a whole.
    """

    values: np.ndarray
    units: Units | None


@dataclasses.dataclass(frozen=True)
class Extracted:
    """Features of some texts, one after the other.

    Attributes:
      values: float32; its first axis are units of all texts, else as those of `TextFeatures`.
      row_splits: int64 [texts + 1], where the units of each text are.
      units: of all texts; None: texts as a whole.
      uncut: int64 [texts], the tokens that each text has, also those beyond `max_length`.
    """

    values: np.ndarray
    row_splits: np.ndarray
    units: Units | None
    uncut: np.ndarray

    def __len__(self) -> int:
        return len(self.uncut)

    def row(self, index: int) -> TextFeatures:
        """The features of a text."""
        if self.units is None:
            return TextFeatures(self.values[index], None)
        start, end = self.row_splits[index : index + 2]
        return TextFeatures(self.values[start:end], self.units.cut(start, end))
