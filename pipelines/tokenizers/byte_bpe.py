"""The byte-level BPE tokenizer of GPT-2, RoBERTa, BART and ModernBERT as TensorFlow operations.

Ids are those of Hugging Face's tokenizer. Any bytes have ids, which spell them:

1. the text is composed (NFC), and cut at added tokens, if the settings say so;
2. the text between them is split into words (`byte_bpe_words`);
3. each byte of a word becomes a letter, as the vocabulary spells it;
4. each distinct word of the batch is merged (`bpe_merging`).

Of overlapping added tokens the leftmost one counts, then the longest. Those of ModernBERT that
transformers looks for before composition ("<|endoftext|>") are found after it here.
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.tokenizers import bpe_merging, byte_ranges, composition, kept_tokens, unicode_tables
from pipelines.tokenizers import byte_bpe_words as words_of
from pipelines.tokenizers.base import Ids, IdsWithOffsets, Pieces, Tokenizer, as_arrays
from pipelines.tokenizers.bpe_vocabulary import BYTE_LETTERS, ByteBPEVocabulary, to_bytes

if TYPE_CHECKING:
    from pipelines.tokenizers import word_cache

_SPACE = BYTE_LETTERS[ord(" ")]


class ByteBPETokenizer(Tokenizer):
    """Turns texts into byte-level BPE ids.

    Special tokens never come from text: "<mask>" in a text is an ordinary word. Nothing is lost:
    bytes that are not UTF-8 have tokens, too, unless texts are composed, added tokens are found, or
    the vocabulary lacks such bytes; then they are U+FFFD. When a text is split into words, such
    bytes are neither letters, numbers nor white space.

    Args:
      vocabulary: tokens and merges.
      add_prefix_space: whether a space (U+0020) is put before texts that do not begin with one, so
        that the first word has the same pieces as within a text.
      framed: whether special tokens begin and end a single text; None: as the vocabulary has it.
      strip: whether white space (that of Python) around texts is removed.
      nfc: whether texts are composed.
      added_tokens: whether the added tokens of the vocabulary are found in texts.
    """

    def __init__(self, vocabulary: ByteBPEVocabulary, **settings: Any):
        super().__init__(vocabulary, **settings)
        self._add_prefix_space = self.all_settings["add_prefix_space"]
        self._strip = self.all_settings["strip"]
        self._nfc = bool(self.all_settings["nfc"])
        tokens = vocabulary.tokens
        added = set(vocabulary.added if self.all_settings["added_tokens"] else ())
        kept = {token: number for number, token in enumerate(tokens) if token in added}
        self._kept = kept_tokens.KeptTokens(kept)
        self._is_normalized = self._nfc or bool(added) or not vocabulary.has_all_bytes
        spelled = list(map(to_bytes, tokens))
        # A piece may have the first byte or two of a character alone.
        texts = [(data[:4] + b"\x80\x80").decode(errors="replace") for data in spelled]
        begin = (
            words_of.begins_white(text) or unicode_tables.begins_unspaced(text) for text in texts
        )
        self.begins_word = np.array(list(begin))
        self.begins_word[list(self.special_ids)] = True
        self.begins_word |= [token in added for token in tokens]
        self._lengths = np.array(list(map(len, spelled)), np.int64)
        made = (left + right for left, right in vocabulary.merges)
        ranks = {token: -float(rank) for rank, token in enumerate(made, 1)}
        scores = dict.fromkeys(BYTE_LETTERS, 0.0) | ranks
        model = bpe_merging.model(tokens, scores, vocabulary.roles["unknown"])
        self._bpe = tf_text.SentencepieceTokenizer(model, out_type=tf.int32)
        self._words = functools.cache(self._make_words)  # not a property: exports evaluate those

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        texts = self._normalized(self._stripped(tf.convert_to_tensor(texts, tf.string)))
        return self._kept.split(texts, lambda parts: self._tokenize(self._spaced(parts)))[0]

    def tokenize_running_text(self, sentences: Sequence[str]) -> Ids:
        """Like `tokenize`; no space is added before leading white space of a sentence."""
        if self._add_prefix_space:
            sentences = [s if s[:1].isspace() else f" {s}" for s in sentences]
        if not self._is_normalized:  # and so without added tokens
            return self._words().ids(sentences)
        texts = self._normalized(tf.convert_to_tensor(sentences, tf.string))
        return as_arrays(self._kept.split(texts, self._tokenize)[0])

    def _make_words(self) -> "word_cache.WordCache":
        from pipelines.tokenizers import word_cache  # numba, which servers do without

        def ids_of(words: list[bytes]) -> Ids:
            bounds = np.cumsum([0, *map(len, words)])
            return as_arrays(self._merge(_spell(tf.constant(words), tf.constant(bounds))))

        return word_cache.WordCache(ids_of, characters=words_of.kinds_of_characters())

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Tokenizes words as they occur within a text, after a space."""
        words = self._with_space(self._normalized(tf.convert_to_tensor(words, tf.string)))
        return self._kept.split(words, self._tokenize)[0]

    def tokenize_with_offsets(self, texts: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        """Returns ids and byte offsets.

        The space before a word is not part of its first piece, unless the piece is nothing else. A
        piece with some bytes of a character has the offsets of the whole character, as in Hugging
        Face's tokenizers, so that any range of pieces is valid text.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        kept = self._stripped(texts)
        ids, *places = self._kept.split(
            self._normalized(kept), lambda parts: self._with_offsets(parts, self._spaced(parts))
        )
        starts, ends = self._original(kept, *places)
        if not self._strip:
            return ids, starts, ends
        right = tf.strings.regex_replace(texts, f"{unicode_tables.white_space()}+$", "")
        left = tf.cast(tf.strings.length(right) - tf.strings.length(kept), tf.int64)
        shift = tf.gather(left, ids.value_rowids())
        return ids, starts + ids.with_flat_values(shift), ends + ids.with_flat_values(shift)

    def tokenize_words_with_offsets(self, words: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        words = tf.convert_to_tensor(words, tf.string)
        normalized = self._normalized(words)
        spaced = self._with_space(normalized)
        ids, *places = self._kept.split(spaced, lambda parts: self._with_offsets(parts, parts))
        added = tf.cast(tf.strings.length(spaced) - tf.strings.length(normalized), tf.int64)
        shift = tf.gather(added, byte_ranges.rows_of(ids.row_splits))
        starts, ends = (p.with_flat_values(tf.maximum(p.flat_values - shift, 0)) for p in places)
        return ids, *self._original(words, starts, ends)

    def _with_offsets(self, texts: tf.Tensor, spaced: tf.Tensor) -> IdsWithOffsets:
        """Tokenizes the texts with added spaces, and returns offsets in the original texts."""
        words = words_of.split(spaced)
        pieces = self._merge(_spell(spaced, words.bounds))
        added = tf.cast(tf.strings.length(spaced) - tf.strings.length(texts), tf.int64)
        text_starts = tf.gather(words.text_starts + added, words.texts)
        first = words.bounds[:-1] - text_starts
        visible = tf.maximum(first + tf.cast(words.takes_space, tf.int64), 0)
        starts, ends, word = self._places(pieces, first)
        # A piece that is only a space has its own range, or an empty one if the space was added.
        lowest = tf.where(ends - starts > 1, tf.gather(visible, word), 0)
        starts, ends = words.whole_characters(
            tf.gather(text_starts, word), tf.maximum(starts, lowest), ends
        )
        splits = tf.gather(pieces.row_splits, words.splits)
        ids, starts, ends = byte_ranges.ragged(splits, pieces.flat_values, starts, ends)
        return ids, starts, ends

    def tokenize_by_word(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Tokenizes each word as `tokenize_words` does, except for added tokens.

        Words are those of GPT-2 without their white space. A piece that is only the space before a
        word has an empty range where the word begins.
        """
        original = tf.convert_to_tensor(texts, tf.string)
        texts = self._normalized(original)
        # After a space, the apostrophe of a contraction is a word of its own.
        words = words_of.split(texts, part_contractions=True)
        kept = tf.where(~words.is_white)[:, 0]
        spelled = tf.gather(_spell(texts, words.bounds), kept)
        takes_space = tf.gather(words.takes_space, kept)
        continues = tf.gather(words.continues, kept)
        pieces = self._merge(
            tf.where(takes_space | continues, spelled, tf.strings.join([_SPACE, spelled]))
        )
        text_starts = tf.gather(words.text_starts, tf.gather(words.texts, kept))
        visible = tf.gather(words.bounds, kept) - text_starts + tf.cast(takes_space, tf.int64)
        starts, ends, word = self._places(pieces, visible - tf.cast(~continues, tf.int64))
        lowest = tf.gather(visible, word)
        starts, ends = words.whole_characters(
            tf.gather(text_starts, word), tf.maximum(starts, lowest), tf.maximum(ends, lowest)
        )
        begins = tf.scatter_nd(
            pieces.row_splits[:-1, tf.newaxis],
            tf.cast(~continues, tf.int32),
            tf.shape(starts, tf.int64),
        )
        splits = tf.gather(pieces.row_splits, tf.searchsorted(kept, words.splits))
        flat = (pieces.flat_values, starts, ends, tf.cast(begins, tf.bool))
        ids, first, last, begins = byte_ranges.ragged(splits, *flat)
        return Pieces(ids, *self._original(original, first, last), begins)

    def _tokenize(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        words = words_of.split(texts)
        pieces = self._merge(_spell(texts, words.bounds))
        splits = tf.gather(pieces.row_splits, words.splits)
        return byte_ranges.ragged(splits, pieces.flat_values)

    def _normalized(self, texts: tf.Tensor) -> tf.Tensor:
        return composition.normalized(texts, self._nfc) if self._is_normalized else texts

    def _original(
        self, texts: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Maps offsets in normalized texts to the original ones."""
        if not self._is_normalized:
            return starts, ends

        def flat() -> tuple[tf.Tensor, tf.Tensor]:
            found = composition.original_offsets(texts, self._nfc, starts, ends)
            return found[0].flat_values, found[1].flat_values

        is_same = tf.reduce_all(self._normalized(texts) == texts)
        first, last = tf.cond(is_same, lambda: (starts.flat_values, ends.flat_values), flat)
        return starts.with_flat_values(first), ends.with_flat_values(last)

    def _stripped(self, texts: tf.Tensor) -> tf.Tensor:
        """Removes white space around texts, if that is chosen."""
        if not self._strip:
            return texts
        space = unicode_tables.white_space()
        return tf.strings.regex_replace(texts, f"^{space}+|{space}+$", "")

    def _spaced(self, texts: tf.Tensor) -> tf.Tensor:
        return self._with_space(texts) if self._add_prefix_space else texts

    def _with_space(self, texts: tf.Tensor) -> tf.Tensor:
        """Adds a space before each text that is not empty and does not begin with one."""
        first = tf.strings.substr(texts, 0, 1)
        return tf.where((first == "") | (first == " "), texts, tf.strings.join([" ", texts]))

    def _merge(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of words spelled in letters, int32 [words, (pieces)]."""
        distinct, index = tf.unique(words)
        pieces = tf.gather(self._bpe.tokenize(distinct), index)
        # In graphs, the operation does not state the rank of its result.
        return pieces.with_flat_values(tf.ensure_shape(pieces.flat_values, [None]))

    def _places(
        self, pieces: tf.RaggedTensor, first: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns start and end byte and word of each piece, given the first byte of each word."""
        lengths = tf.gather(self._lengths, pieces.flat_values)
        ends, word = tf.cumsum(lengths), byte_ranges.rows_of(pieces.row_splits)
        shift = tf.gather(first - tf.gather(ends - lengths, pieces.row_splits[:-1]), word)
        return ends - lengths + shift, ends + shift, word


def _spell(texts: tf.Tensor, bounds: tf.Tensor) -> tf.Tensor:
    """Spells the words between bounds (`byte_bpe_words.Words`) in letters, string [words]."""
    data = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
    spelled = tf.gather(list(map(ord, BYTE_LETTERS)), tf.cast(data, tf.int32))
    ragged = tf.RaggedTensor.from_row_splits(spelled, bounds, validate=False)
    return tf.strings.unicode_encode(ragged, "UTF-8")
