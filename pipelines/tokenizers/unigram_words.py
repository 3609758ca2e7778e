"""SentencePiece's ids of running text, from the words met so far.

A unigram model chooses the pieces whose scores have the highest sum, by the algorithm of Viterbi
(Kudo 2018, arXiv 1804.10959, section 3.2). Where no piece contains a space, the best pieces of a
text are those of its words, except for rounding: SentencePiece adds float32 scores from the
beginning of the text. So the two best segmentations of each word are compared. Where they are as
close as rounding can make a difference, the whole text is left to SentencePiece: 1 % of the lines
of English text, by ALBERT's model.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipelines.common.compiled import compiled
from pipelines.tokenizers import sentencepiece_numbering, word_cache
from pipelines.tokenizers.base import Ids, as_arrays
from pipelines.tokenizers.sentencepiece_vocabulary import SPACE, SentencePieceVocabulary
from pipelines.tokenizers.vocabulary import GEMMA

# Below 2^16, float32 numbers are 2^-8 apart. An addition rounds by half of that, in each of two
# segmentations.
_MAX_SUM, _ROUNDING = 2.0**16, 2.0**-8
_UNKNOWN_PENALTY = 10.0  # the score of an unknown character is the lowest one less this
_ONE, _FACTOR = np.uint64(1), np.uint64(0x100000001B3)  # of the hash FNV-1a


class UnigramWords:
    """Computes the ids of `tokenize`, with a table of words.

    Args:
      vocabulary: the model.
      scores: those of `independent_scores`.
      tokenize: returns the ids of texts, string [batch].
      normalize: returns the texts that SentencePiece is given by `tokenize`.
      divide: returns the ids of a batch of pieces.
    """

    def __init__(
        self,
        vocabulary: SentencePieceVocabulary,
        scores: Mapping[str, float],
        tokenize: Callable[[Sequence[str]], tf.RaggedTensor],
        normalize: Callable[[Sequence[bytes]], tf.Tensor],
        divide: Callable[[tf.RaggedTensor], tf.RaggedTensor],
    ):
        self._processor, self._tokenize = vocabulary.processor, tokenize
        self._normalize, self._divide = normalize, divide
        self._unknown = vocabulary.id_of("unknown")
        self._unsure = vocabulary.id_of("mask")  # stands for a word that is left to SentencePiece
        self._cache = word_cache.WordCache(self._ids_of_words)
        self._pieces, self._bounds = _joined([piece.encode() for piece in scores])
        self._scores = np.array([*scores.values()])
        self._slots = _table(self._pieces, self._bounds, self._scores)
        lowest = self._scores[np.isfinite(self._scores)].min() - _UNKNOWN_PENALTY
        # The scores of a longer text, with a space before each word, could add up to more.
        self._longest = int(_MAX_SUM / -lowest / 2)
        self._scores[self._unknown] = lowest

    def ids(self, texts: Sequence[str]) -> Ids:
        """Returns the ids of texts."""
        ids, splits = self._cache.ids(texts)  # white space alone divides words
        unsure = np.array([len(text) > self._longest for text in texts], bool)
        unsure[np.searchsorted(splits, np.nonzero(ids == self._unsure)[0], "right") - 1] = True
        rows = np.nonzero(unsure)[0].tolist()
        if not rows:
            return ids, splits
        parts = [ids[start:end] for start, end in itertools.pairwise(splits.tolist())]
        whole, ends = as_arrays(self._tokenize([texts[row] for row in rows]))
        for row, found in zip(rows, np.split(whole, ends[1:-1]), strict=True):
            parts[row] = found
        return np.concatenate(parts), np.cumsum([0, *map(len, parts)], dtype=np.int64)

    def _ids_of_words(self, words: list[bytes]) -> Ids:
        texts = [text.decode() for text in self._normalize(words).numpy()]
        normalized = self._processor.normalize(texts)
        data, bounds = _joined([text.encode() for text in normalized])
        # Those that become longer could make the sum of a text larger than its length allows.
        longer = [
            len(text) > len(word.decode()) + 1 for text, word in zip(normalized, words, strict=True)
        ]
        pieces = (self._pieces, self._bounds, self._scores, self._slots)
        ids, splits = _segment(
            data, bounds, np.array(longer, bool), *pieces, self._unknown, self._unsure
        )
        return as_arrays(self._divide(tf.RaggedTensor.from_row_splits(ids, splits)))


def independent_scores(vocabulary: SentencePieceVocabulary) -> dict[str, float] | None:
    """The scores of pieces, as `sentencepiece_numbering.unigram_scores` returns them.

    None where the pieces of a word can depend on the words around it. Otherwise each word begins
    with a space, which is a piece of texts and within no other one, and runs of white space are one
    space.
    """
    if vocabulary.form is GEMMA:
        return None
    scores = sentencepiece_numbering.unigram_scores(vocabulary.model)
    if scores is None or max(scores.values()) > 0 or scores.get(SPACE, -math.inf) == -math.inf:
        return None
    if any(SPACE in piece[1:] or set(" \t\n\r") & set(piece) for piece in scores):
        return None
    normalized = vocabulary.processor.normalize(" a \t b\n\r c ")
    return scores if normalized == f"{SPACE}a{SPACE}b{SPACE}c" else None


def _joined(parts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bytes of all parts, uint8, and where each begins and the last one ends, int64."""
    bounds = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    return np.frombuffer(b"".join(parts), np.uint8), bounds


@compiled
def _table(pieces, bounds, scores):
    """Returns a hash table of the pieces of texts: in each slot the number of one from 1, or 0."""
    size = 4
    while size < 2 * len(scores):
        size *= 2
    slots = np.zeros(size, np.int32)
    for piece in range(len(scores)):
        if scores[piece] > -np.inf:
            mixed = np.uint64(0)
            for byte in pieces[bounds[piece] : bounds[piece + 1]]:
                mixed = (mixed ^ np.uint64(byte)) * _FACTOR
            slot = _slot(mixed, slots)
            while slots[slot]:
                slot = _slot(slot + _ONE, slots)
            slots[slot] = piece + 1
    return slots


@compiled
def _slot(number, slots):
    return (number ^ number >> np.uint64(32)) & np.uint64(len(slots) - 1)


@compiled
def _segment(data, splits, longer, pieces, bounds, scores, slots, unknown, unsure):
    """Returns the best pieces of each word, or `unsure` as its only one, and where they end."""
    longest = np.max(bounds[1:] - bounds[:-1])
    ids, ends = np.empty(len(data) + len(splits), np.int32), np.zeros(len(splits), np.int64)
    total = 0
    for word in range(len(splits) - 1):
        text = data[splits[word] : splits[word + 1]]
        size = len(text)
        # The sums of the best segmentation up to each byte, and of the next one; of the best one
        # the last piece, and where it begins.
        sums, characters = np.full((2, size + 1), -np.inf), 0
        last, begin = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
        sums[0, 0] = 0.0
        for first in range(size):
            if text[first] & 0xC0 == 0x80:  # within a character
                continue
            characters += 1
            mixed, after = np.uint64(0), first + 1
            while after < size and text[after] & 0xC0 == 0x80:
                after += 1
            has_own = False
            for end in range(first + 1, min(size, first + longest) + 1):
                mixed = (mixed ^ np.uint64(text[end - 1])) * _FACTOR
                slot = _slot(mixed, slots)
                while slots[slot]:
                    piece = slots[slot] - 1
                    known = pieces[bounds[piece] : bounds[piece + 1]]
                    if len(known) == end - first and np.all(known == text[first:end]):
                        break
                    slot = _slot(slot + _ONE, slots)
                if slots[slot]:
                    has_own |= end == after
                    _extend(sums, last, begin, first, end, piece, scores[piece])
            if not has_own:  # the first character is not a piece
                _extend(sums, last, begin, first, after, unknown, scores[unknown])
        # No segmentation has more pieces than the word has characters.
        if longer[word] or sums[0, size] - sums[1, size] < _ROUNDING * characters:
            ids[total] = unsure
            total += 1
        else:
            end, origin = size, total
            while end > 0:
                if last[end] != unknown or total == origin or ids[total - 1] != unknown:
                    ids[total] = last[end]  # unknown characters in a row are one piece
                    total += 1
                end = begin[end]
            ids[origin:total] = ids[origin:total][::-1].copy()
        ends[word + 1] = total
    return ids[:total], ends


@compiled
def _extend(sums, last, begin, first, end, piece, score):
    """Extends the two best segmentations up to a byte by a piece, where that is among the best."""
    for way in range(2):
        found = sums[way, first] + score
        if found > sums[0, end]:
            sums[1, end], sums[0, end] = sums[0, end], found
            last[end], begin[end] = piece, first
        elif found > sums[1, end]:
            sums[1, end] = found
