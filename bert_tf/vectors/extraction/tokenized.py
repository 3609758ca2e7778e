"""Texts as packed sequences, with the way back from each token to the text."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.vectors.encoding.sequences import Sequences
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import Packed

# Packed in place of special tokens, where places of pieces are packed in place of ids.
_START, _SEPARATOR = -1, -2
SPECIAL = -1  # what special tokens have in place of a place


class Places(NamedTuple):
    """Where pieces, or words, stand; int64 [n] each.

    Attributes:
      starts, ends: the first byte in its text, and the byte after the last one.
      segments: 0 of a first text, 1 of a second one.
    """

    starts: np.ndarray
    ends: np.ndarray
    segments: np.ndarray


@dataclasses.dataclass(frozen=True)
class TokenizedTexts:
    """Packed sequences of some texts, or pairs of texts.

    Attributes:
      sequences: a sequence of each.
      uncut: int64 [texts], the tokens of each, also those that were cut off.
      piece_of: int [tokens], the piece that each token of the sequences is; SPECIAL where it is a
        special one.
      pieces: of all texts.
      word_of: int64 [pieces], the word that each piece belongs to.
      words: of all texts.
    """

    sequences: Sequences
    uncut: np.ndarray
    piece_of: np.ndarray
    pieces: Places
    word_of: np.ndarray
    words: Places

    def tokens_of(self, rows: range) -> slice:
        """The tokens of rows that follow each other."""
        starts, lengths = self.sequences.starts, self.sequences.lengths
        return slice(int(starts[rows[0]]), int(starts[rows[-1]] + lengths[rows[-1]]))

    def begins_word(self, piece: np.ndarray) -> np.ndarray:
        """Whether tokens, by their `piece_of`, are the first of a word, bool."""
        first = np.diff(self.word_of, prepend=-1) > 0
        return np.append(first, False)[piece]


class _Pieces(NamedTuple):
    """Pieces of texts, one after the other, and of their second texts behind all of them.

    Attributes:
      ids: int [pieces].
      places: of pieces.
      word_of: int64 [pieces], the word that each belongs to.
      words: places of these.
      splits: int64 [texts + 1], where the pieces of each text are.
      second_splits: int64 [pairs + 1], the same of second texts, from 0.
    """

    ids: np.ndarray
    places: Places
    word_of: np.ndarray
    words: Places
    splits: np.ndarray
    second_splits: np.ndarray


@dataclasses.dataclass
class _PlaceRules:
    """Packs places of pieces as a tokenizer's ids are packed; see `PackingRules`."""

    separators: int
    typed: bool
    overhead: tuple[int, int]
    pad_id: int = SPECIAL
    start_id: int = _START
    separator_id: int = _SEPARATOR


def tokenize_texts(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    second: Sequence[str | None],
    by_word: bool,
    max_length: int,
) -> TokenizedTexts:
    """Tokenizes texts, each alone or with a second one.

    Args:
      tokenizer: of the model.
      texts: at least one.
      second: as many; None: a text is alone.
      by_word: whether words are tokenized as they are for tagging.
      max_length: tokens of a sequence.
    """
    others = [text for text in second if text is not None]
    parts = [_cut(tokenizer, some, by_word) for some in (texts, others)]
    ids, starts, ends, begins = (
        np.concatenate(same) for same in list(zip(*parts, strict=True))[:4]
    )
    splits, second_splits = (part.splits for part in parts)
    segments = np.repeat([0, 1], [splits[-1], second_splits[-1]])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(ids))[: len(first)] - 1
    pieces = _Pieces(
        ids,
        Places(starts, ends, segments),
        np.cumsum(begins) - 1,
        Places(starts[first], ends[last], segments[first]),
        splits,
        second_splits,
    )
    is_pair = np.array([text is not None for text in second])
    return _packed(tokenizer, pieces, is_pair, max_length)


def tokenize_sentences(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], max_length: int
) -> TokenizedTexts:
    """Tokenizes sentences that are given by their words, of which each has a piece at least.

    Places are those in the words with blanks between them.
    """
    words = [word for sentence in sentences for word in sentence]
    word_splits = np.cumsum([0, *map(len, sentences)])
    ragged = tokenizer.tokenize_words_with_offsets(words)
    sizes = np.array([len(word.encode()) for word in words], np.int64)
    ids, starts, ends = (part.flat_values.numpy() for part in ragged)
    counts = ragged[0].row_lengths().numpy()
    # A word that normalization makes empty is an unknown token: it has features, too.
    lost = np.flatnonzero(counts == 0)
    at = np.cumsum(counts)[lost]
    ids = np.insert(ids, at, tokenizer.unknown_id)
    starts, ends = np.insert(starts, at, 0), np.insert(ends, at, sizes[lost])
    word_of = np.repeat(np.arange(len(words)), np.maximum(counts, 1))
    before = np.cumsum(sizes + 1) - (sizes + 1)
    origin = before - np.repeat(np.append(before, 0)[word_splits[:-1]], np.diff(word_splits))
    pieces = _Pieces(
        ids,
        Places(starts + origin[word_of], ends + origin[word_of], np.zeros(len(ids), np.int64)),
        word_of,
        Places(origin, origin + sizes, np.zeros(len(words), np.int64)),
        np.searchsorted(word_of, word_splits),
        np.zeros(1, np.int64),
    )
    return _packed(tokenizer, pieces, np.zeros(len(sentences), bool), max_length)


class _CutTexts(NamedTuple):
    """Texts in pieces: ids and places, whether each is the first of its word, and the texts'."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    begins: np.ndarray
    splits: np.ndarray


def _cut(tokenizer: Tokenizer, texts: Sequence[str], by_word: bool) -> _CutTexts:
    if not texts:
        none = np.zeros(0, np.int64)
        return _CutTexts(none, none, none, none.astype(bool), np.zeros(1, np.int64))
    if by_word:
        ids, starts, ends, begins_word = tokenizer.tokenize_by_word(texts)
        begins = begins_word.flat_values.numpy().copy()
    else:
        ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
        begins = tokenizer.begins_word[ids.flat_values.numpy()]
    splits = ids.row_splits.numpy()
    begins[splits[:-1][np.diff(splits) > 0]] = True  # words end with their texts
    first, last = starts.flat_values.numpy(), ends.flat_values.numpy()
    return _CutTexts(ids.flat_values.numpy(), first, last, begins, splits)


def _packed(
    tokenizer: Tokenizer, pieces: _Pieces, is_pair: np.ndarray, max_length: int
) -> TokenizedTexts:
    """Packs pieces to sequences of texts, which have a second one where `is_pair`, bool [texts]."""
    rules = _PlaceRules(tokenizer.separators, tokenizer.typed, tokenizer.overhead)
    first = _numbered(pieces.splits, 0)
    parts, order = [], []
    uncut = np.diff(pieces.splits) + tokenizer.overhead[0]
    alone, pairs = np.flatnonzero(~is_pair), np.flatnonzero(is_pair)
    if len(alone):
        parts.append(packing.pack(rules, tf.gather(first, alone), None, max_length))
        order.append(alone)
    if len(pairs):
        second = _numbered(pieces.second_splits, int(pieces.splits[-1]))
        parts.append(packing.pack(rules, tf.gather(first, pairs), second, max_length))
        order.append(pairs)
        more = tokenizer.overhead[1] - tokenizer.overhead[0]
        uncut[pairs] += np.diff(pieces.second_splits) + more
    place = np.argsort(np.concatenate(order))
    packed = Packed(*(tf.gather(tf.concat(same, 0), place) for same in zip(*parts, strict=True)))
    sequences = Sequences.of(packed, tokenizer.pad_id)
    piece_of = np.maximum(sequences.ids, SPECIAL)
    special = np.where(sequences.ids == _START, tokenizer.start_id, tokenizer.separator_id)
    ids = np.where(piece_of < 0, special, np.append(pieces.ids, 0)[piece_of]).astype(np.int32)
    sequences = sequences._replace(ids=ids)
    return TokenizedTexts(sequences, uncut, piece_of, pieces.places, pieces.word_of, pieces.words)


def _numbered(splits: np.ndarray, start: int) -> tf.RaggedTensor:
    """The number of each piece, int32 [texts, (pieces)]."""
    numbers = np.arange(start, start + splits[-1], dtype=np.int32)
    return tf.RaggedTensor.from_row_splits(numbers, splits)
