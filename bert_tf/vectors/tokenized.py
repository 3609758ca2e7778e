"""Texts as packed sequences of tokens, and the units (tokens, words, texts) they belong to."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.tasks.numbered import NumberedTokenizer
from bert_tf.vectors.settings import Unit
from pipelines.labelled.schema import TextExample, WordsExample
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

Example = TextExample | WordsExample
_NONE = -1  # the place, segment and word of special tokens


class Units(NamedTuple):
    """The tokens or words that have features of their own, [units] each.

    Attributes:
      tokens: the tokenizer's pieces and special tokens; or words as in the text.
      starts, ends: int64, the first byte in the text (UTF-8), and the byte after the last one; -1
        for special tokens. The text of given words is the words with blanks between them.
      segments: int64, 0 in the first text, 1 in the second text, -1 for special tokens.
      words: int64, for the tokens of given words the number of the word in its sentence, from 0;
        -1 for special tokens. None for other units.
    """

    tokens: list[str]
    starts: np.ndarray
    ends: np.ndarray
    segments: np.ndarray
    words: np.ndarray | None

    def cut(self, start: int, end: int) -> "Units":
        """A range of the units."""
        parts = (None if part is None else part[start:end] for part in self)
        return Units(*parts)  # type: ignore[arg-type]  # each part keeps its type


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
    """Packed sequences, one for each text or pair of texts, one after the other.

    Attributes:
      unit: the kind of units.
      ids, types: int32 [tokens].
      splits: int64 [texts + 1], the first token of each text, and the end.
      uncut: int64 [texts], the number of tokens of each text before it was cut.
      first: bool [tokens], whether a token is the first of its unit.
      in_unit: bool [tokens], whether a token is in a unit.
      unit_splits: int64 [texts + 1], the first unit of each text, and the end.
      units: all units; None for texts as a whole.
      pad_id: the id of padding.
    """

    unit: Unit
    ids: np.ndarray
    types: np.ndarray
    splits: np.ndarray
    uncut: np.ndarray
    first: np.ndarray
    in_unit: np.ndarray
    unit_splits: np.ndarray
    units: Units | None
    pad_id: int

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each text, int64 [texts]."""
        return np.diff(self.splits)

    def batch(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Padded ids, mask and types of some texts, int32 [rows, longest] each."""
        lengths = self.lengths[rows][:, None]
        at = np.arange(lengths.max())
        there = at < lengths
        index = np.where(there, self.splits[rows][:, None] + at, 0)
        ids = np.where(there, self.ids[index], np.int32(self.pad_id))
        return ids, there.astype(np.int32), np.where(there, self.types[index], np.int32(0))

    def pooled(
        self, rows: np.ndarray, outputs: np.ndarray, mean: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """The units of some texts, and their values.

        Args:
          rows: int64 [rows], the texts.
          outputs: [tokens, ...] of all their tokens, one text after the other; for texts as a whole
            [rows, ...].
          mean: whether the value of a word is the mean of its tokens, or else its first token.

        Returns:
          int64 [units], and [units, ...].
        """
        if self.unit is Unit.TEXT:
            return rows, outputs
        token, unit = (_ranges(splits, rows) for splits in (self.splits, self.unit_splits))
        first = self.first[token]
        if not (mean and len(unit)):
            return unit, outputs[first]
        inside = self.in_unit[token]  # the tokens of a word follow each other
        begins = np.flatnonzero(first[inside])
        sums = np.add.reduceat(outputs[inside], begins, axis=0)
        sizes = np.diff(np.append(begins, inside.sum()))
        return unit, sums / sizes.reshape(-1, *[1] * (sums.ndim - 1)).astype(np.float32)


def _ranges(splits: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The numbers from splits[row] to splits[row + 1] of each row, one after the other."""
    lengths = splits[rows + 1] - splits[rows]
    before = np.cumsum(lengths) - lengths
    return np.repeat(splits[rows] - before, lengths) + np.arange(lengths.sum())


def text_of(example: Example) -> tuple[str, str | None]:
    """The text of an example and its second text; words are joined with blanks."""
    if isinstance(example, WordsExample):
        return " ".join(example.words), None
    return example.text_a, example.text_b


class _Pieces(NamedTuple):
    """The pieces of all texts and their words, one after the other.

    Attributes:
      first: int32 [texts, (pieces)], the numbers of the pieces of each text.
      second: int32 [pairs, (pieces)], the same of second texts.
      places: int64 [3, pieces], the first byte, end byte and segment of each piece.
      word_of: int64 [pieces], the word of each piece.
      words: int64 [3, words], the first byte, end byte and segment of each word.
    """

    first: tf.RaggedTensor
    second: tf.RaggedTensor
    places: np.ndarray
    word_of: np.ndarray
    words: np.ndarray


def tokenize(
    tokenizer: Tokenizer, examples: Sequence[Example], max_seq_length: int, unit: Unit
) -> TokenizedTexts:
    """Tokenizes texts, each alone or with a second text, or sentences of given words.

    Args:
      tokenizer: the tokenizer of the model.
      examples: at least one, all of one kind.
      max_seq_length: maximum number of tokens of a sequence.
      unit: the kind of units; for words, texts are split as for tagging.
    """
    numbered = NumberedTokenizer(tokenizer, with_places=unit is not Unit.TEXT)
    texts = [text_of(example) for example in examples]
    sentences = [example.words for example in examples if isinstance(example, WordsExample)]
    pieces = _of_words(numbered, sentences) if sentences else _of_texts(numbered, texts, unit)
    is_pair = np.array([second is not None for _, second in texts])
    packed = _pack(numbered, pieces, is_pair, max_seq_length)
    piece_of, splits = packed.word_ids.flat_values.numpy(), packed.word_ids.row_splits.numpy()
    ids = numbered.ids_of(piece_of)
    uncut = pieces.first.row_lengths().numpy() + tokenizer.overhead[0]
    uncut[is_pair] += pieces.second.row_lengths().numpy() + np.diff(tokenizer.overhead)
    first = in_unit = np.ones(len(ids), bool)
    units, unit_splits = None, splits
    if unit is Unit.TEXT:
        unit_splits = np.arange(len(splits))
    elif unit is Unit.TOKEN:
        tokens = [tokenizer.vocabulary.tokens[token] for token in ids.tolist()]
        words = _word_numbers(pieces, piece_of, splits, sentences) if sentences else None
        starts, ends, segments = _taken(pieces.places, piece_of)
        units = Units(tokens, starts, ends, segments, words)
    else:
        in_unit = piece_of >= 0
        first = _taken(np.diff(pieces.word_of, prepend=-1), piece_of) > 0
        unit_splits = np.append(0, np.cumsum(first))[splits]
        places = pieces.words[:, pieces.word_of[piece_of[first]]]
        starts, ends, segments = places
        units = Units(_words(texts, unit_splits, places), starts, ends, segments, None)
    types = packed.type_ids.flat_values.numpy() * np.int32(tokenizer.typed)
    return TokenizedTexts(
        unit, ids, types, splits, uncut, first, in_unit, unit_splits, units, tokenizer.pad_id
    )


def _of_texts(
    numbered: NumberedTokenizer, texts: Sequence[tuple[str, str | None]], unit: Unit
) -> _Pieces:
    """The pieces of texts; a word ends with its text."""

    def numbers(some: Sequence[str]) -> tf.RaggedTensor:
        by_word = unit is Unit.WORD
        return numbered.tokenize_by_word(some).ids if by_word else numbered.tokenize(some)

    seconds = [second for _, second in texts if second is not None]
    first = numbers([text for text, _ in texts])
    second = numbers(seconds) if seconds else first[:0]
    begins = numbered.begins | (np.diff(numbered.text_of, prepend=-1) > 0)
    places = np.stack([numbered.starts, numbered.ends, numbered.text_of >= len(texts)])
    start = np.flatnonzero(begins)
    end = np.append(start[1:], len(begins))[: len(start)] - 1
    words = np.stack([places[0, start], places[1, end], places[2, start]])
    return _Pieces(first, second, places, np.cumsum(begins) - 1, words)


def _of_words(numbered: NumberedTokenizer, sentences: Sequence[Sequence[str]]) -> _Pieces:
    """The pieces of given words."""
    words = [word for sentence in sentences for word in sentence]
    splits = np.cumsum([0, *map(len, sentences)])
    numbers = numbered.tokenize_words(words).flat_values
    word_of = numbered.text_of
    sizes = np.array([len(word.encode()) for word in words], np.int64)
    before = np.cumsum(sizes + 1) - (sizes + 1)
    start = before - np.repeat(np.append(before, 0)[splits[:-1]], np.diff(splits))
    first = tf.RaggedTensor.from_row_splits(numbers, np.searchsorted(word_of, splits))
    starts, ends = (values + start[word_of] for values in (numbered.starts, numbered.ends))
    return _Pieces(
        first,
        first[:0],
        np.stack([starts, ends, np.zeros_like(starts)]),
        word_of,
        np.stack([start, start + sizes, np.zeros_like(start)]),
    )


def _pack(
    numbered: NumberedTokenizer, pieces: _Pieces, is_pair: np.ndarray, max_seq_length: int
) -> packing.Packed:
    """Packs texts, with their second texts where `is_pair`, bool [texts]."""
    if not is_pair.any():
        return packing.pack(numbered, pieces.first, None, max_seq_length)
    alone, pairs = np.flatnonzero(~is_pair), np.flatnonzero(is_pair)
    first = tf.gather(pieces.first, pairs)
    parts = [packing.pack(numbered, first, pieces.second, max_seq_length)]
    if len(alone):
        parts.append(packing.pack(numbered, tf.gather(pieces.first, alone), None, max_seq_length))
    order = np.argsort(np.concatenate([pairs, alone]))
    columns = zip(*parts, strict=True)
    return packing.Packed(*(tf.gather(tf.concat(same, 0), order) for same in columns))


def _taken(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The values [..., n] at indices, and _NONE at those below 0."""
    padding = [(0, 0)] * (values.ndim - 1) + [(0, 1)]
    return np.pad(values, padding, constant_values=_NONE)[..., np.maximum(index, -1)]


def _word_numbers(
    pieces: _Pieces, piece_of: np.ndarray, splits: np.ndarray, sentences: Sequence[Sequence[str]]
) -> np.ndarray:
    """The number of the word of each token in its sentence."""
    words = _taken(pieces.word_of, piece_of)
    before = np.cumsum([0, *map(len, sentences)])[:-1]
    return np.where(words < 0, _NONE, words - np.repeat(before, np.diff(splits)))


def _words(
    texts: Sequence[tuple[str, str | None]], splits: np.ndarray, places: np.ndarray
) -> list[str]:
    """The words of texts at places, int64 [3, words]; `splits` has those of each text."""
    found = []
    for row, text in enumerate(texts):
        data = [(part or "").encode() for part in text]
        for start, end, segment in places[:, splits[row] : splits[row + 1]].T.tolist():
            found.append(data[segment][start:end].decode(errors="replace"))
    return found
