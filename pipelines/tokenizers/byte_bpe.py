"""The byte-level BPE tokenizer of GPT-2, RoBERTa and BART as TensorFlow ops.

The same object tokenizes in the offline writer, in tf.data and inside an exported
graph, so that training and serving cannot differ. Ids are those of Hugging Face's
tokenizer, and any bytes have ids, which spell them:

1. the text is split into words (`byte_bpe_words`);
2. each byte of a word becomes a letter, as the vocabulary spells it;
3. each distinct word of the batch is merged by SentencePiece's BPE op.

BPE joins the two neighbours that are the pair of lowest rank; SentencePiece the two that make
the token of best score. With negative ranks as scores both do the same, whatever the text.
They could first part where SentencePiece joins a token of other parts than its merge has. All
merges of lower rank are done there, and none crossed the outer ends of these parts: so the
same merges leave the same parts of the token alone. But of that they leave the parts of its
merge, as `byte_bpe_vocabulary.check` has seen to for every token.
"""

import struct
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.tokenizers import byte_bpe_vocabulary as letters
from pipelines.tokenizers import byte_bpe_words as words_of
from pipelines.tokenizers.base import Pieces, Settings, Tokenizer
from pipelines.tokenizers.byte_bpe_vocabulary import ByteBPEVocabulary

_SPACE = letters.BYTE_LETTERS[ord(" ")]


class ByteBPETokenizer(Tokenizer):
    """Byte-level BPE ids of raw text, as ragged int32 tensors.

    Special tokens never come from text: "<mask>" in a text is a word like others. Nothing
    is lost, either: bytes that are not UTF-8 are tokens as all bytes are; when the text is
    split, they are neither letters nor numbers nor white space.

    Args:
      vocabulary: tokens and merges.
      add_prefix_space: whether a text that does not begin with a space (U+0020) gets one,
        so that its first word is as it would be within a text.
      kind: of the vocabulary, as settings name it.
    """

    def __init__(
        self,
        vocabulary: ByteBPEVocabulary,
        *,
        add_prefix_space: bool = False,
        kind: str = ByteBPEVocabulary.kind,
    ):
        settings: Settings = {"kind": kind, "add_prefix_space": add_prefix_space}
        super().__init__(vocabulary, settings)
        self._add_prefix_space = add_prefix_space
        tokens = vocabulary.tokens
        spelled = list(map(letters.to_bytes, tokens))
        self.begins_word = np.array(
            [
                token in letters.SPECIAL_TOKENS
                or words_of.begins_white(data[:4].decode(errors="replace"))
                for token, data in zip(tokens, spelled, strict=True)
            ]
        )
        self._lengths = np.array(list(map(len, spelled)), np.int64)
        model = _model(tokens, vocabulary.merges)
        self._bpe = tf_text.SentencepieceTokenizer(model, out_type=tf.int32)

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Returns the ids of the pieces, int32 [batch, (pieces)], of string [batch] texts."""
        texts = tf.convert_to_tensor(texts, tf.string)
        return self._tokenize(self._with_space(texts) if self._add_prefix_space else texts)

    def tokenize_running_text(self, sentences: Sequence[str]) -> tf.RaggedTensor:
        """As `tokenize`; no space is added before the white space that a sentence begins with."""
        if self._add_prefix_space:
            sentences = [s if s[:1].isspace() else f" {s}" for s in sentences]
        return self._tokenize(tf.convert_to_tensor(sentences, tf.string))

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Tokenizes words as they are within a text, after a space.

        Returns:
          Ids int32 [n, (pieces)] of string [n] words.
        """
        return self._tokenize(self._with_space(tf.convert_to_tensor(words, tf.string)))

    def tokenize_with_offsets(
        self, texts: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes, and tells where each piece stands in the text.

        The space that a word takes along is no part of the piece, unless that is all of it.
        A piece that has some bytes of a character has the place of all of it, as in Hugging
        Face's tokenizers, so that what stands from one piece to another can be read.

        Args:
          texts: string [batch], any bytes.

        Returns:
          Three ragged tensors [batch, (pieces)]: ids int32, first byte int64 and
          end byte (exclusive) int64.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        return self._with_offsets(
            texts, self._with_space(texts) if self._add_prefix_space else texts
        )

    def tokenize_words_with_offsets(
        self, words: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """As `tokenize_words`, and tells where each piece stands in its word.

        Args:
          words: string [words], any bytes.

        Returns:
          As `tokenize_with_offsets`.
        """
        words = tf.convert_to_tensor(words, tf.string)
        return self._with_offsets(words, self._with_space(words))

    def _with_offsets(
        self, texts: tf.Tensor, spaced: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes texts with the spaces that some got in front; places are those without."""
        words = words_of.split(spaced)
        pieces = self._merge(_spell(spaced, words.bounds))
        added = tf.cast(tf.strings.length(spaced) - tf.strings.length(texts), tf.int64)
        text_starts = tf.gather(words.text_starts + added, words.texts)
        first = words.bounds[:-1] - text_starts
        visible = tf.maximum(first + tf.cast(words.takes_space, tf.int64), 0)
        starts, ends, word = self._places(pieces, first)
        # A piece that is but a space has its place, or the place of nothing if it was added.
        lowest = tf.where(ends - starts > 1, tf.gather(visible, word), 0)
        starts, ends = words.whole_characters(
            tf.gather(text_starts, word), tf.maximum(starts, lowest), ends
        )
        splits = tf.gather(pieces.row_splits, words.splits)
        return tuple(
            tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            for values in (pieces.flat_values, starts, ends)
        )

    def tokenize_by_word(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Tokenizes each word as `tokenize_words` does, and tells where the pieces stand.

        Words are those that GPT-2 splits a text into, without their white space. A piece
        that is but the space before a word has the place of nothing, where the word begins.

        Args:
          texts: string [batch], any bytes.

        Returns:
          The pieces of all words.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        # After a space an apostrophe is a word of its own, also that of a contraction.
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
        return Pieces(
            *(
                tf.RaggedTensor.from_row_splits(values, splits, validate=False)
                for values in (
                    pieces.flat_values,
                    starts,
                    ends,
                    tf.cast(begins, tf.bool),
                )
            )
        )

    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = words_of.split(texts)
        pieces = self._merge(_spell(texts, words.bounds))
        return tf.RaggedTensor.from_row_splits(
            pieces.flat_values, tf.gather(pieces.row_splits, words.splits), validate=False
        )

    def _with_space(self, texts: tf.Tensor) -> tf.Tensor:
        """Puts a space before each text that is not empty and does not begin with one."""
        first = tf.strings.substr(texts, 0, 1)
        return tf.where((first == "") | (first == " "), texts, tf.strings.join([" ", texts]))

    def _merge(self, words: tf.Tensor) -> tf.RaggedTensor:
        """The pieces of words that are spelled in letters, int32 [words, (pieces)]."""
        distinct, index = tf.unique(words)
        pieces = tf.gather(self._bpe.tokenize(distinct), index)
        # The op leaves the rank of its result open in graphs.
        return pieces.with_flat_values(tf.ensure_shape(pieces.flat_values, [None]))

    def _places(
        self, pieces: tf.RaggedTensor, first: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Where the bytes of pieces stand, from where their words begin.

        Args:
          pieces: ids [words, (pieces)]; no word is without any.
          first: int64 [words], the place of the first byte of each.

        Returns:
          First byte and end byte of each piece, and its word, int64 [pieces] each.
        """
        lengths = tf.gather(self._lengths, pieces.flat_values)
        ends = tf.cumsum(lengths)
        starts = ends - lengths
        shift = first - tf.gather(starts, pieces.row_splits[:-1])
        word = words_of.rows_of(pieces.row_splits)
        shift = tf.gather(shift, word)
        return starts + shift, ends + shift, word


def _spell(texts: tf.Tensor, bounds: tf.Tensor) -> tf.Tensor:
    """Spells words in letters.

    Args:
      texts: string [batch].
      bounds: int64 [words + 1], as `byte_bpe_words.Words` has it.

    Returns:
      String [words], UTF-8.
    """
    data = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
    spelled = tf.gather(list(map(ord, letters.BYTE_LETTERS)), tf.cast(data, tf.int32))
    ragged = tf.RaggedTensor.from_row_splits(spelled, bounds, validate=False)
    return tf.strings.unicode_encode(ragged, "UTF-8")


def _model(tokens: Sequence[str], merges: Sequence[tuple[str, str]]) -> bytes:
    """The vocabulary as a SentencePiece model (ModelProto of sentencepiece_model.proto)."""
    normal, unknown, control = 1, 2, 3
    scores = dict.fromkeys(letters.BYTE_LETTERS, 0.0)
    scores.update((left + right, -float(rank)) for rank, (left, right) in enumerate(merges, 1))
    pieces = []
    for token in tokens:
        kind = unknown if token == letters.UNKNOWN else normal if token in scores else control
        score = struct.pack("<f", scores.get(token, 0.0))
        piece = _field(1, token.encode()) + b"\x15" + score + _field(3, kind)
        pieces.append(_field(1, piece))
    byte_pair_encoding = _field(3, 2)
    # Text stays as it is: add_dummy_prefix, remove_extra_whitespaces and escape_whitespaces are
    # false. The character map (a trie of 1024 bytes) is empty; without one, the op logs a line.
    no_map = struct.pack("<I", 1024) + bytes(1024) + b"\0"
    as_it_is = _field(1, b"identity") + _field(2, no_map)
    as_it_is += _field(3, 0) + _field(4, 0) + _field(5, 0)
    return b"".join(pieces) + _field(2, byte_pair_encoding) + _field(3, as_it_is)


def _field(number: int, value: int | bytes) -> bytes:
    """A field of a protocol buffer: a number, or bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])
