"""The tokenizer of GPT as TensorFlow operations: BPE of the words that BERT's tokenizer finds.

Ids are those of `OpenAIGPTTokenizer` in transformers where ftfy and spaCy are not installed; GPT's
own program used those two, which cannot run in a graph. Each character of a word that has no token
there becomes one unknown token.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.tokenizers import bpe_merging, byte_ranges
from pipelines.tokenizers.base import IdsWithOffsets, Pieces, Tokenizer
from pipelines.tokenizers.bpe_vocabulary import MARK, BPEVocabulary, spell
from pipelines.tokenizers.unicode_tables import character_class
from pipelines.tokenizers.wordpiece import Normalizer, make_word_finder

_OTHER = "\ue001"  # stands for a character that no token has


class BPETokenizer(Tokenizer):
    """Turns texts into BPE ids; `lower_case` and `strip_accents` are those of WordPiece."""

    def __init__(self, vocabulary: BPEVocabulary, **settings: Any):
        super().__init__(vocabulary, **settings)
        tokens, letters = vocabulary.tokens, vocabulary.letters
        lower_case, strip_accents = (bool(self.all_settings[name]) for name in vocabulary.usual)
        self.normalize = Normalizer(lower_case, strip_accents, "".join(letters))
        self._finder = make_word_finder()
        # Whether a piece begins a word depends on the piece before it.
        self.begins_word = np.zeros(len(tokens), bool)
        self._others = f"[^{character_class(np.array(list(map(ord, letters))))[1:]}"
        scores = dict.fromkeys(letters, 0.0)
        scores |= {f"{letter}{MARK}": 1.0 for letter in letters}  # before all merges
        for rank, (left, right) in enumerate(vocabulary.merges, 1):
            scores[spell(left + right)] = -float(rank)
        # Pieces without a token follow those with one, and become the unknown token.
        spelled = list(map(spell, tokens))
        given = set(spelled)
        more = [_OTHER, f"{_OTHER}{MARK}", *(piece for piece in scores if piece not in given)]
        scores |= {_OTHER: 0.0, f"{_OTHER}{MARK}": 1.0}
        model = bpe_merging.model([*spelled, *more], scores, vocabulary.roles["unknown"])
        self._bpe = tf_text.SentencepieceTokenizer(model, out_type=tf.int32)
        pieces = [*spelled, *more]
        self._sizes = np.array([len(piece.removesuffix(MARK)) for piece in pieces])
        self._ends_word = np.array([piece.endswith(MARK) for piece in pieces])

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        words, splits, _ = self._words(self.normalize(texts))
        pieces = self._merge(words)
        return byte_ranges.ragged(tf.gather(pieces.row_splits, splits), self._known(pieces))[0]

    def tokenize_with_offsets(self, texts: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        """Returns ids and byte offsets; a removed mark belongs to the letter before it."""
        return self.tokenize_with_begins(texts)[:3]

    def tokenize_with_begins(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        texts = tf.convert_to_tensor(texts, tf.string)
        normalized = self.normalize(texts)
        words, splits, word_starts = self._words(normalized)
        pieces = self._merge(words)
        # The characters of all words in a row: a piece spans some of them.
        _, offsets = tf.strings.unicode_decode_with_offsets(words, "UTF-8")
        start_of_word = tf.gather(word_starts, byte_ranges.rows_of(offsets.row_splits))
        first = start_of_word + offsets.flat_values
        sizes = tf.strings.length(words, unit="BYTE")
        last = tf.concat([offsets[:, 1:], tf.cast(sizes, tf.int64)[:, tf.newaxis]], 1).flat_values
        last += start_of_word
        lengths = tf.gather(tf.constant(self._sizes), pieces.flat_values)
        stop = tf.cumsum(lengths)
        ends_word = tf.gather(tf.constant(self._ends_word), pieces.flat_values)
        ids, starts, ends, begins = byte_ranges.ragged(
            tf.gather(pieces.row_splits, splits),
            self._known(pieces),
            tf.gather(first, stop - lengths),
            tf.gather(last, stop - 1),
            tf.concat([[True], ends_word], 0)[:-1],
        )
        return Pieces(ids, *self.normalize.original_offsets(texts, starts, ends), begins)

    def _words(self, normalized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Words [words], the first word of each text [batch + 1], and their first bytes."""
        _, starts, ends = self._finder.tokenize_with_offsets(normalized)
        words = byte_ranges.cut_words(normalized, starts, ends)
        return words, starts.row_splits, starts.flat_values

    def _merge(self, words: tf.Tensor) -> tf.RaggedTensor:
        """The pieces of words, int32 [words, (pieces)]."""
        distinct, index = tf.unique(words)
        spelled = tf.strings.regex_replace(distinct, self._others, _OTHER)
        pieces = tf.gather(self._bpe.tokenize(tf.strings.join([spelled, MARK])), index)
        return pieces.with_flat_values(tf.ensure_shape(pieces.flat_values, [None]))

    def _known(self, pieces: tf.RaggedTensor) -> tf.Tensor:
        """The ids of pieces, int32; the unknown token's for those without one."""
        ids = pieces.flat_values
        return tf.where(ids < len(self.begins_word), ids, self.unknown_id)
