"""The tokenizer of ALBERT as TensorFlow operations: SentencePiece after a normalization.

Ids equal those of google-research/albert (tokenization.py): a piece of a digit and a comma, such as
"▁1999,", is encoded again without its comma.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.tokenizers import byte_bpe_words, byte_ranges
from pipelines.tokenizers.base import IdsWithOffsets, Pieces, Tokenizer
from pipelines.tokenizers.sentencepiece_normalizer import PieceNormalizer
from pipelines.tokenizers.sentencepiece_vocabulary import (
    ROLES,
    SPACE,
    SentencePieceVocabulary,
)

_PLAIN = re.compile(r"[\t\n\r -~]*")
# A piece of these characters alone continues a word (google-research/albert, `_is_start_piece_sp`).
_WITHIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SIGNS = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~€£')


class SentencePieceTokenizer(Tokenizer):
    """Turns texts into SentencePiece ids.

    Special tokens never come from text.

    Args:
      vocabulary: the model of SentencePiece.
      lower_case: whether text is lower-cased.
      strip_accents: whether text is decomposed (NFKD) and combining characters are removed.
      kind: kind of the vocabulary, as in the settings.
    """

    def __init__(
        self,
        vocabulary: SentencePieceVocabulary,
        *,
        lower_case: bool = True,
        strip_accents: bool = True,
        kind: str = SentencePieceVocabulary.kind,
    ):
        settings = {"lower_case": lower_case, "strip_accents": strip_accents}
        super().__init__(vocabulary, vocabulary.resolve(settings))
        self._lower_case = lower_case
        self._normalize = PieceNormalizer(lower_case, strip_accents)
        self._pieces = tf_text.SentencepieceTokenizer(vocabulary.model, out_type=tf.int32)
        tokens = vocabulary.tokens
        self.begins_word = np.array([_begins_word(token) for token in tokens])
        parts = [_parts(vocabulary, index) for index in range(len(tokens))]
        # In functions, so that tf.Module does not track them.
        self._parts = lambda: parts
        self._has_parts = np.array([len(part) > 1 for part in parts])
        flat = [index for part in parts for index in part]
        splits = np.cumsum([0, *map(len, parts)])
        # Bytes of the parts of the same piece that follow.
        sizes = [len(vocabulary.bytes_of(tokens[index])) for index in flat]
        ends = np.repeat(np.cumsum([0, *sizes])[splits[1:]], np.diff(splits))
        self._flat = np.array(flat, np.int32)
        self._splits = splits.astype(np.int64)
        self._behind = (ends - np.cumsum(sizes)).astype(np.int64)

    def plain_ids(self, text: str) -> list[int] | None:
        """Returns the ids of `tokenize` without TensorFlow, or None if the text is not ASCII."""
        if not _PLAIN.fullmatch(text):
            return None
        text = " ".join(text.split())
        vocabulary = self.vocabulary
        assert isinstance(vocabulary, SentencePieceVocabulary)
        found = vocabulary.processor.encode(text.lower() if self._lower_case else text)
        parts = self._parts()
        return [index for piece in found for index in parts[piece]]

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        pieces = self._pieces.tokenize(self._normalize(texts))
        pieces = pieces.with_flat_values(tf.ensure_shape(pieces.flat_values, [None]))
        return tf.cond(self._any_parts(pieces), lambda: self._divide(pieces)[0], lambda: pieces)

    def tokenize_with_offsets(self, texts: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        """Returns ids and byte offsets.

        The space before a word is not part of its first piece, unless the piece is nothing else. A
        removed mark belongs to the character before it.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        normalized = self._normalize(texts)
        found = self._pieces.tokenize_with_offsets(normalized)
        pieces, starts, ends = (
            each.with_flat_values(tf.ensure_shape(tf.cast(each.flat_values, kind), [None]))
            for each, kind in zip(found, (tf.int32, tf.int64, tf.int64), strict=True)
        )
        ids, part = self._divide(pieces)
        behind = tf.gather(tf.constant(self._behind), part.of_table)
        first = part.number == 0
        end = tf.gather(ends.flat_values, part.piece) - behind
        start = tf.gather(starts.flat_values, part.piece)
        start = tf.where(first, start, tf.concat([[0], end[:-1]], 0))
        is_space = byte_ranges.byte_at(normalized, ids.value_rowids(), start) == ord(" ")
        start += tf.cast(is_space & (end - start > 1), tf.int64)
        characters, offsets = tf.strings.unicode_split_with_offsets(texts, "UTF-8", errors="ignore")
        lengths, is_mark = self._normalize.lengths(characters)
        starts, ends = byte_ranges.to_original(
            texts, offsets, lengths, is_mark, ids.with_flat_values(start), ids.with_flat_values(end)
        )
        return ids, starts, ends

    def tokenize_by_word(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Splits texts into words as GPT-2 does, and each word into the pieces of its own."""
        texts = tf.convert_to_tensor(texts, tf.string)
        words = byte_bpe_words.split(texts)
        kept = tf.where(~words.is_white)[:, 0]
        rows = tf.gather(words.texts, kept)
        origin = tf.gather(words.text_starts, rows)
        first = tf.gather(words.bounds, kept) - origin
        first += tf.cast(tf.gather(words.takes_space, kept), tf.int64)
        last = tf.gather(words.bounds, kept + 1) - origin
        ids, starts, ends = self.tokenize_with_offsets(byte_ranges.cut(texts, rows, first, last))
        word = ids.value_rowids()
        begins = tf.range(tf.size(word, tf.int64)) == tf.gather(ids.row_starts(), word)
        shift = tf.gather(first, word)
        splits = tf.gather(ids.row_splits, tf.searchsorted(kept, words.splits))
        flat = (ids.flat_values, starts.flat_values + shift, ends.flat_values + shift, begins)
        return Pieces(
            *(tf.RaggedTensor.from_row_splits(values, splits, validate=False) for values in flat)
        )

    def _any_parts(self, pieces: tf.RaggedTensor) -> tf.Tensor:
        return tf.reduce_any(tf.gather(tf.constant(self._has_parts), pieces.flat_values))

    def _divide(self, pieces: tf.RaggedTensor) -> tuple[tf.RaggedTensor, "_Parts"]:
        """Replaces each piece by its parts."""
        splits = tf.constant(self._splits)
        first = tf.gather(splits, pieces.flat_values)
        places = tf.ragged.range(first, tf.gather(splits, pieces.flat_values + 1))
        piece = places.value_rowids()
        number = places.flat_values - tf.gather(first, piece)
        flat = tf.gather(tf.constant(self._flat), places.flat_values)
        rows = tf.gather(places.row_splits, pieces.row_splits)
        divided = tf.RaggedTensor.from_row_splits(flat, rows, validate=False)
        return divided, _Parts(piece, number, places.flat_values)


class _Parts(NamedTuple):
    """Where the parts of pieces come from, int64 [parts]."""

    piece: tf.Tensor  # number of the piece
    number: tf.Tensor  # of the part within its piece
    of_table: tf.Tensor  # place in the table of parts


def _begins_word(token: str) -> bool:
    if token.startswith((SPACE, "<")) or token in ROLES.values() or token in _SIGNS:
        return True
    return not all(character in _WITHIN or character in _SIGNS for character in token)


def _parts(vocabulary: SentencePieceVocabulary, index: int) -> list[int]:
    """The ids that stand for a piece: its own, or those of a digit's piece and of the comma."""
    piece, processor = vocabulary.tokens[index], vocabulary.processor
    if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
        return [index]
    found = processor.encode(piece[:-1].replace(SPACE, ""), out_type=str)
    if not piece.startswith(SPACE) and found[0].startswith(SPACE):
        found[0] = found[0][1:]
    return [processor.piece_to_id(part) for part in (*filter(None, found), ",")]
