"""A tokenizer that numbers pieces, so that each token of a sequence leads back to its text."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from pipelines.tokenizers.base import Pieces, Tokenizer
from pipelines.tokenizers.packing import MODEL_INPUTS

# The numbers of special tokens in packed sequences.
START, SEPARATOR, END = -1, -2, -3


@dataclasses.dataclass(frozen=True)
class TokenSequence:
    """The tokens of a packed sequence, [length] each.

    Attributes:
      ids: int32.
      types: int32, as the model takes them.
      segments: int32, 0 for the first text and the special tokens around it, 1 for the second.
      special: bool, whether a token is not part of a text.
      begins: bool, whether a token begins a word.
      starts, ends: int64, the first byte of a token in its text and the byte after its last one; 0
        for special tokens.
      uncut: the number of tokens of its texts before they were cut, without special tokens.
    """

    ids: np.ndarray
    types: np.ndarray
    segments: np.ndarray
    special: np.ndarray
    begins: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    uncut: int

    def __len__(self) -> int:
        return len(self.ids)

    def inputs(self, rows: int = 1) -> dict[str, tf.Tensor]:
        """The encoder's inputs for so many copies, int32 [rows, length] each."""
        values = (self.ids, np.ones_like(self.ids), self.types)
        return {
            name: tf.tile(tf.constant(value[np.newaxis], tf.int32), [rows, 1])
            for name, value in zip(MODEL_INPUTS, values, strict=True)
        }


class NumberedTokenizer(Tokenizer):
    """Gives each piece of its texts a number, from 0, where another tokenizer gives an id.

    Packing, windows and features treat the numbers like ids. Special tokens have the numbers START,
    SEPARATOR and END. Types are segments, even if the other tokenizer has one type only.

    Args:
      tokenizer: the tokenizer of the model.
      with_places: whether to find the places and words of pieces, which takes time; if not, all
        places are 0.

    Attributes:
      ids: int32 [pieces], the ids of all pieces so far.
      starts, ends: int64 [pieces], the first byte of each piece in its text, and the byte after its
        last one; within its word if words were tokenized.
      begins: bool [pieces], whether a piece is the first of its word.
      text_of: int64 [pieces], the text (or word) of each piece, in the order of tokenization.
      texts: the number of texts so far.
    """

    def __init__(self, tokenizer: Tokenizer, with_places: bool = True):
        super().__init__(tokenizer.vocabulary, **tokenizer.settings)
        self._with_places = with_places
        self.typed = True
        self.start_id, self.separator_id, self.end_id = START, SEPARATOR, END
        self.pad_id = SEPARATOR
        self.wrapped = tokenizer
        self.ids = np.zeros(0, np.int32)
        self.starts, self.ends, self.text_of = (np.zeros(0, np.int64) for _ in range(3))
        self.begins = np.zeros(0, bool)
        self.texts = 0
        self._words: tf.RaggedTensor | None = None

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Returns the numbers of the pieces, int32 [batch, (pieces)], of string [batch] texts."""
        return self.add(*self._pieces(texts))

    def tokenize_with_offsets(
        self, texts: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes like `tokenize`; returns numbers, first bytes and end bytes."""
        pieces = self._pieces(texts)
        return self.add(*pieces), pieces.starts, pieces.ends

    def _pieces(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        if self._with_places:
            return self.wrapped.tokenize_with_begins(texts)
        ids = self.wrapped.tokenize(texts)
        zeros = tf.zeros_like(ids, tf.int64)
        return Pieces(ids, zeros, zeros, tf.cast(zeros, tf.bool))

    def tokenize_by_word(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Splits texts into words, and the words into pieces; `ids` are numbers."""
        pieces = self.wrapped.tokenize_by_word(texts)
        return pieces._replace(ids=self.add(*pieces))

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Tokenizes words, each into one piece or more, int32 [words, (pieces)].

        A word that normalization makes empty is an unknown token.
        """
        if self._words is not None:
            return self._words
        ids, starts, ends = self.wrapped.tokenize_words_with_offsets(words)
        lost = tf.cast(ids.row_lengths() == 0, tf.int64)
        unknown = tf.fill([tf.reduce_sum(lost)], self.unknown_id)
        sizes = tf.cast(tf.strings.length(tf.constant(words, tf.string)), tf.int64)
        whole = tf.boolean_mask(sizes, lost > 0)
        ids, starts, ends = (
            tf.concat([values, tf.RaggedTensor.from_row_lengths(added, lost)], 1)
            for values, added in ((ids, unknown), (starts, tf.zeros_like(whole)), (ends, whole))
        )
        begins = np.zeros(len(ids.flat_values), bool)
        begins[ids.row_starts().numpy()] = True
        return self.add(ids, starts, ends, ids.with_flat_values(begins))

    def add(
        self,
        ids: tf.RaggedTensor,
        starts: tf.RaggedTensor,
        ends: tf.RaggedTensor,
        begins: tf.RaggedTensor,
    ) -> tf.RaggedTensor:
        """Adds pieces of texts, [texts, (pieces)] each, and returns their numbers."""
        first, texts = len(self.ids), int(ids.nrows())
        values = [part.flat_values.numpy() for part in (ids, starts, ends, begins)]
        self.ids = np.append(self.ids, values[0])
        self.starts = np.append(self.starts, values[1])
        self.ends = np.append(self.ends, values[2])
        self.begins = np.append(self.begins, values[3])
        self.text_of = np.append(self.text_of, self.texts + ids.value_rowids().numpy())
        self.texts += texts
        return ids.with_flat_values(tf.range(first, len(self.ids)))

    def split_words(self, text: str) -> list[str]:
        """The words of a text; `tokenize_words` of these words returns the pieces in the text."""
        pieces = self.tokenize_by_word([text])
        numbers, starts, ends, begins = (part.flat_values.numpy() for part in pieces)
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(numbers))[: len(first)] - 1
        self._words = tf.RaggedTensor.from_row_starts(numbers, first)
        data = text.encode()
        places = zip(starts[first], ends[last], strict=True)
        return [data[start:end].decode(errors="replace") for start, end in places]

    def ids_of(self, numbers: np.ndarray) -> np.ndarray:
        """The ids of the tokens of packed sequences, int32, by their numbers."""
        wrapped = self.wrapped
        special = [wrapped.end_id, wrapped.separator_id, wrapped.start_id]
        ids = np.append(self.ids, special)
        return ids[numbers].astype(np.int32)

    def sequence(self, numbers: np.ndarray, segments: np.ndarray) -> TokenSequence:
        """A packed sequence, by the numbers and the types of its tokens."""
        special = numbers < 0
        kept = np.isin(self.text_of, self.text_of[numbers[~special]])
        starts, ends = (np.append(values, 0) for values in (self.starts, self.ends))
        at = np.where(special, -1, numbers)
        return TokenSequence(
            self.ids_of(numbers),
            (segments * self.wrapped.typed).astype(np.int32),
            segments.astype(np.int32),
            special,
            np.append(self.begins, True)[at],
            starts[at],
            ends[at],
            int(kept.sum()),
        )
