"""Which tokens are of which unit: a token, a word or a text; and what their outputs are put to."""

import dataclasses
from collections.abc import Iterator
from typing import Self

import numpy as np

from bert_tf.vectors.extraction.extracted import Units
from bert_tf.vectors.extraction.inputs import Inputs
from bert_tf.vectors.extraction.settings import Unit
from bert_tf.vectors.extraction.tokenized import SPECIAL, TokenizedTexts


@dataclasses.dataclass(frozen=True)
class Layout:
    """The units of some texts.

    Attributes:
      texts: the texts.
      unit: what has features of its own.
      first: bool [tokens], whether a token is the first of its unit.
      unit_of: int64 [tokens], the unit of each; below 0 where it is of none. Of texts as a whole
        both count for nothing.
      splits: int64 [texts + 1], where the units of each text are.
    """

    texts: TokenizedTexts
    unit: Unit
    first: np.ndarray
    unit_of: np.ndarray
    splits: np.ndarray

    @classmethod
    def of(cls, texts: TokenizedTexts, unit: Unit) -> Self:
        """The units of a kind."""
        tokens = len(texts.piece_of)
        if unit is Unit.WORD:
            first = texts.begins_word(texts.piece_of)
            unit_of = np.where(texts.piece_of < 0, SPECIAL, np.cumsum(first) - 1)
        else:
            first, unit_of = np.ones(tokens, bool), np.arange(tokens)
        ends = np.cumsum(texts.sequences.lengths)
        if unit is Unit.TEXT:
            ends = np.arange(1, len(ends) + 1)
        elif unit is Unit.WORD:
            ends = np.cumsum(first)[ends - 1]
        return cls(texts, unit, first, unit_of, np.append(0, ends))

    def blocks(self, most: int) -> Iterator[range]:
        """Yields rows that follow each other, as many as have so many units, but at least one."""
        start = 0
        for row in range(1, len(self.splits)):
            if row - start > 1 and self.splits[row] - self.splits[start] > most:
                yield range(start, row - 1)
                start = row - 1
        yield range(start, len(self.splits) - 1)

    def values(
        self, rows: np.ndarray, outputs: np.ndarray, mean: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """The units of some rows, and what is put there.

        Args:
          rows: int64 [rows].
          outputs: [tokens, ...] of all their tokens, one row after the other; of texts as a whole
            [rows, ...].
          mean: whether a word has the mean of its tokens; else it has its first one.

        Returns:
          int64 [units], and [units, ...].
        """
        if self.unit is Unit.TEXT:
            return rows, outputs
        lengths = self.texts.sequences.lengths[rows]
        before = np.cumsum(lengths) - lengths
        index = np.repeat(self.texts.sequences.starts[rows] - before, lengths)
        index += np.arange(len(index))
        first, unit_of = self.first[index], self.unit_of[index]
        if not mean:
            return unit_of[first], outputs[first]
        # Tokens of a word follow each other.
        inside = unit_of >= 0
        begins = np.flatnonzero(first[inside])
        units = unit_of[first]
        if not len(units):
            return units, outputs[:0]
        sums = np.add.reduceat(outputs[inside], begins, axis=0)
        sizes = np.diff(np.append(begins, inside.sum()))
        return units, sums / sizes.reshape(-1, *[1] * (sums.ndim - 1)).astype(np.float32)

    def units(self, rows: range, inputs: Inputs, vocabulary: tuple[str, ...]) -> Units | None:
        """What the units of rows are; None of texts as a whole.

        Args:
          rows: that follow each other.
          inputs: all texts.
          vocabulary: the text of each id.
        """
        if self.unit is Unit.TEXT:
            return None
        part = self.texts.tokens_of(rows)
        pieces = self.texts.piece_of[part]
        counts = np.diff(self.splits[rows.start : rows.stop + 1])
        row_of = np.repeat(np.arange(rows.start, rows.stop), counts)
        if self.unit is Unit.WORD:
            words = self.texts.word_of[pieces[self.first[part]]]
            starts, ends, segments = (values[words] for values in self.texts.words)
            tokens = _words(inputs, row_of, starts, ends, segments)
            return Units(tokens, starts, ends, segments, None)
        tokens = [vocabulary[token] for token in self.texts.sequences.ids[part].tolist()]
        starts, ends, segments = (_taken(values, pieces) for values in self.texts.pieces)
        numbers = None
        if inputs.sentences is not None:
            before = np.cumsum([0, *map(len, inputs.sentences)])
            words = _taken(self.texts.word_of, pieces)
            numbers = np.where(words < 0, SPECIAL, words - before[row_of])
        return Units(tokens, starts, ends, segments, numbers)


def _taken(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The values at indices, and SPECIAL at those below 0."""
    return np.append(values, SPECIAL)[np.maximum(index, -1)]


def _words(
    inputs: Inputs, rows: np.ndarray, starts: np.ndarray, ends: np.ndarray, segments: np.ndarray
) -> list[str]:
    """The bytes from start to end of each row's text, as text."""
    found = []
    last: tuple[int, int] | None = None
    data = b""
    for row, start, end, segment in zip(
        *(part.tolist() for part in (rows, starts, ends, segments)), strict=True
    ):
        if (row, segment) != last:
            last, data = (row, segment), inputs.segment(row, segment).encode()
        found.append(data[start:end].decode(errors="replace"))
    return found
