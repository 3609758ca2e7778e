"""The tokenizers of ALBERT, KoBERT, XLM-R and Gemma as TensorFlow operations, by SentencePiece.

Ids equal those of google-research/albert (tokenization.py), and of KoBERT, whose steps are:

1. white space becomes single spaces;
2. if accents are stripped: decompose (NFKD), remove characters of a non-zero combining class;
3. if uncased: lower-case;
4. SentencePiece;
5. a piece of a digit and a comma, such as "▁1999,", is encoded again without its comma.

Quotes (`` and '') stay as they are, as there; transformers replaces them by ".

XLM-R and CamemBERT have step 4 alone, and its normalization. Their ids are those of the original,
which is SentencePiece, too. transformers' differ in three rare cases: decomposed letters (NFD), of
which its library loses marks; U+0085; and words with several segmentations of the same probability,
which differ in the order of pieces, such as "..." and ".".

Gemma's has step 4 alone, and nothing is normalized: it is BPE over the whole text, and a character
without a piece becomes its bytes. mmBERT's cuts the text before each space, and begins it, and what
follows an added token, with one.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.tokenizers import byte_bpe_words, byte_ranges, kept_tokens, unicode_tables
from pipelines.tokenizers.base import Ids, IdsWithOffsets, Pieces, Tokenizer
from pipelines.tokenizers.sentencepiece_vocabulary import SPACE, SentencePieceVocabulary
from pipelines.tokenizers.unicode_tables import begins_unspaced, character_class
from pipelines.tokenizers.vocabulary import GEMMA

if TYPE_CHECKING:
    from pipelines.tokenizers import unigram_words

_PLAIN = re.compile(r"[\t\n\r -~]*")
_PLAIN_SPACE = r"[\t-\r\x1c- ]+"
_SIGNS = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~€£')


def _continues(piece: str) -> bool:
    """Returns whether a piece of letters and signs can continue a word.

    ALBERT's program (`_is_start_piece_sp`), whose vocabulary is English, knows ASCII letters only.
    """
    return all(
        c in _SIGNS or (unicodedata.category(c)[0] in "LM" and not begins_unspaced(c))
        for c in piece
    )


class PieceNormalizer(tf.Module):
    """Steps 1 to 3; arguments as in `wordpiece.Normalizer`."""

    def __init__(self, lower_case: bool, strip_accents: bool):
        super().__init__(name="normalizer")
        self.lower_case, self.strip_accents = lower_case, strip_accents
        self._space = unicode_tables.white_space()
        self._combining = _combining()
        self._newer = _newer()

    def __call__(self, texts: tf.Tensor | Sequence[str]) -> tf.Tensor:
        """Normalizes string [batch] texts; bytes that are not UTF-8 are removed."""
        texts = tf.convert_to_tensor(texts, tf.string)
        rows = tf.where(~tf.strings.regex_full_match(texts, r"[\x00-\x7f]*"))
        others = tf.gather_nd(texts, rows)
        others = tf.strings.unicode_transcode(others, "UTF-8", "UTF-8", errors="ignore")
        others = self.characters(_single_spaces(others, f"{self._space}+"))
        texts = _single_spaces(texts, _PLAIN_SPACE)
        if self.lower_case:
            texts = tf.strings.lower(texts)
        return tf.tensor_scatter_nd_update(texts, rows, others)

    def characters(self, texts: tf.Tensor) -> tf.Tensor:
        """Normalizes string [batch] texts, except for white space."""
        if self.strip_accents:
            if self._newer:
                texts = tf.strings.regex_replace(texts, self._newer, unicode_tables.UNASSIGNED)
            texts = tf_text.normalize_utf8(texts, "NFKD")
            texts = tf.strings.regex_replace(texts, self._combining, "")
        return unicode_tables.lower(texts) if self.lower_case else texts

    def original_offsets(
        self, texts: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Maps byte offsets in normalized texts to byte offsets in the original texts.

        A removed mark belongs to the character before it; of a run of white space between words,
        the first character becomes the space.
        """
        characters, offsets = tf.strings.unicode_split_with_offsets(texts, "UTF-8", errors="ignore")
        flat, text = characters.flat_values, characters.value_rowids()
        is_space = tf.strings.regex_full_match(flat, self._space)
        visible = tf.concat([[0], tf.cumsum(tf.cast(~is_space, tf.int64))], 0)
        before = visible[1:] - tf.gather(tf.gather(visible, characters.row_starts()), text)
        after = tf.gather(tf.gather(visible, characters.row_limits()), text) - visible[1:]
        follows_space = tf.concat([[False], is_space[:-1]], 0)
        between = is_space & ~follows_space & (before > 0) & (after > 0)
        lengths = tf.cast(tf.strings.length(self.characters(flat)), tf.int64)
        is_mark = (lengths == 0) & ~is_space
        lengths = tf.where(is_space, tf.cast(between, tf.int64), lengths)
        return byte_ranges.to_original(texts, offsets, lengths, is_mark, starts, ends)


def _single_spaces(texts: tf.Tensor, space: str) -> tf.Tensor:
    texts = tf.strings.regex_replace(texts, space, " ")
    return tf.strings.regex_replace(texts, "^ | $", "")


_normalizer = functools.cache(PieceNormalizer)  # created once per process


def split_words(
    texts: Sequence[str], *, lower_case: bool, strip_accents: bool, **_: Any
) -> tf.Tensor:
    """Returns the words of texts after steps 1 to 3, split at white space, string [words]."""
    words = tf.strings.split(_normalizer(lower_case, strip_accents)(texts), " ").flat_values
    return tf.boolean_mask(words, words != "")


class SentencePieceTokenizer(Tokenizer):
    """Turns texts into SentencePiece ids.

    Special tokens never come from text.

    Args:
      vocabulary: the model of SentencePiece.
      settings: `lower_case` and `strip_accents`, which decide steps 2 and 3.
    """

    def __init__(self, vocabulary: SentencePieceVocabulary, **settings: Any):
        super().__init__(vocabulary, **settings)
        lower_case, strip_accents = (bool(self.all_settings[name]) for name in vocabulary.usual)
        self._as_is = vocabulary.takes_text_as_is
        self._is_gemma, self._cuts_words = vocabulary.form is GEMMA, vocabulary.cuts_words
        # Others add it themselves.
        self._before_words = " " if self._is_gemma and not self._cuts_words else ""
        added = set(vocabulary.added)
        kept = {token: index for index, token in enumerate(vocabulary.tokens) if token in added}
        self._kept = kept_tokens.KeptTokens(kept if self._cuts_words else {})
        self._normalize = PieceNormalizer(lower_case, strip_accents)
        self._pieces = tf_text.SentencepieceTokenizer(vocabulary.model, out_type=tf.int32)
        tokens = vocabulary.tokens
        begin = (t.startswith((SPACE, "<")) or t in _SIGNS or not _continues(t) for t in tokens)
        if self._as_is:
            begin = (token.startswith(SPACE) or begins_unspaced(token) for token in tokens)
            self._removed, self._spaces = _removed_and_spaces(vocabulary)
        self.begins_word = np.array(list(begin))
        self.begins_word[list(self.special_ids)] = True
        self.begins_word |= [token in added for token in tokens]
        divide = (lambda _, index: [index]) if self._as_is else _parts
        parts = [divide(vocabulary, index) for index in range(len(tokens))]
        self._words = functools.cache(self._table_of_words)
        # In functions, so that tf.Module does not track them.
        self._parts = lambda: parts
        self._has_parts = np.array([len(part) > 1 for part in parts])
        self._part_ids = np.array([index for part in parts for index in part], np.int32)
        self._part_splits = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        sizes = [[len(vocabulary.bytes_of(tokens[index])) for index in part] for part in parts]
        # Bytes of the parts of the same piece that follow.
        behind = [sum(each[number:]) for each in sizes for number in range(1, len(each) + 1)]
        self._behind = np.array(behind, np.int64)

    def _normalized(self, texts: tf.Tensor | Sequence[str]) -> tf.Tensor:
        if not self._as_is:
            return self._normalize(texts)
        texts = tf.convert_to_tensor(texts, tf.string)
        return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8") if self._kept else texts

    def _spaced(self, texts: tf.Tensor) -> tf.Tensor:
        """Texts that begin with a space, unless SentencePiece adds it, or none is added."""
        if not self._cuts_words:
            return texts
        begins = tf.strings.regex_full_match(texts, f"(?s)([ {SPACE}].*)?")
        return tf.where(begins, texts, tf.strings.join([" ", texts]))

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        (pieces,) = self._kept.split(
            self._normalized(texts), lambda parts: (self._pieces.tokenize(self._spaced(parts)),)
        )
        pieces = pieces.with_flat_values(tf.ensure_shape(pieces.flat_values, [None]))
        any_parts = tf.reduce_any(tf.gather(tf.constant(self._has_parts), pieces.flat_values))
        return tf.cond(any_parts, lambda: self._divide(pieces)[0], lambda: pieces)

    def _divide(self, pieces: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Step 5: returns ids [batch, (parts)], and their places in the table [pieces, (parts)]."""
        splits, index = tf.constant(self._part_splits), pieces.flat_values
        places = tf.ragged.range(tf.gather(splits, index), tf.gather(splits, index + 1))
        ids = tf.gather(tf.constant(self._part_ids), places.flat_values)
        rows = tf.gather(places.row_splits, pieces.row_splits)
        return byte_ranges.ragged(rows, ids)[0], places

    def tokenize_with_offsets(self, texts: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        """Returns ids and byte offsets.

        The space before a word is not part of its first piece, unless the piece is nothing else. A
        removed mark belongs to the character before it. As in transformers, such a piece of XLM-R's
        is at the first character of the word, and pieces of a part of a character (½) at all of it.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        normalized = self._normalized(texts)
        pieces, starts, ends = self._kept.split(normalized, self._places)
        if self._as_is:
            places = self._visible(normalized, starts, ends)
            if not self._kept:
                return pieces, *places
            limits = tf.gather(tf.strings.length(texts), pieces.value_rowids())  # if not UTF-8
            starts, ends = (
                each.with_flat_values(tf.minimum(each.flat_values, tf.cast(limits, tf.int64)))
                for each in places
            )
            return pieces, starts, ends
        ids, places = self._divide(pieces)
        piece, place = places.value_rowids(), tf.range(tf.size(places.flat_values, tf.int64))
        is_first = place == tf.gather(places.row_starts(), piece)
        end = tf.gather(ends.flat_values, piece)
        end -= tf.gather(tf.constant(self._behind), places.flat_values)
        start = tf.gather(starts.flat_values, piece)
        start = tf.where(is_first, start, tf.concat([[0], end[:-1]], 0))
        is_space = byte_ranges.byte_at(normalized, ids.value_rowids(), start) == ord(" ")
        start += tf.cast(is_space & (end - start > 1), tf.int64)
        starts, ends = ids.with_flat_values(start), ids.with_flat_values(end)
        return ids, *self._normalize.original_offsets(texts, starts, ends)

    def _places(self, texts: tf.Tensor) -> IdsWithOffsets:
        """The pieces of SentencePiece, with their ranges in the texts."""
        spaced = self._spaced(texts)
        found = self._pieces.tokenize_with_offsets(spaced)
        pieces, starts, ends = (
            each.with_flat_values(tf.ensure_shape(tf.cast(each.flat_values, kind), [None]))
            for each, kind in zip(found, (tf.int32, tf.int64, tf.int64), strict=True)
        )
        if not self._cuts_words:
            return pieces, starts, ends
        added = tf.strings.length(spaced) - tf.strings.length(texts)
        shift = tf.gather(tf.cast(added, tf.int64), pieces.value_rowids())
        starts, ends = (
            each.with_flat_values(tf.maximum(each.flat_values - shift, 0))
            for each in (starts, ends)
        )
        return pieces, starts, ends

    def _visible(
        self, texts: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Ranges without the space before and removed characters, of one character at least."""

        def size(parts: tf.Tensor) -> tf.Tensor:
            return tf.cast(tf.strings.length(parts), tf.int64)

        rows, start, end = starts.value_rowids(), starts.flat_values, ends.flat_values
        found = byte_ranges.cut(texts, rows, start, end)
        found = tf.strings.regex_replace(found, f"^[{self._spaces}{self._removed}]+", "")
        if self._is_gemma:  # nothing but spaces, which the text itself has
            found = tf.where(found == "", byte_ranges.cut(texts, rows, start, end), found)
        start = end - size(found)
        end = start + size(tf.strings.regex_replace(found, f"[{self._removed}]+$", ""))
        first = tf.cast(byte_ranges.byte_at(texts, rows, start), tf.int32)
        width = tf.searchsorted([0x80, 0xE0, 0xF0], first, side="right", out_type=tf.int64) + 1
        end = tf.where(end > start, end, tf.minimum(start + width, tf.gather(size(texts), rows)))
        return starts.with_flat_values(start), ends.with_flat_values(end)

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        return self.tokenize(self._with_space(words))

    def tokenize_words_with_offsets(self, words: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        ids, *places = self.tokenize_with_offsets(self._with_space(words))
        starts, ends = (tf.maximum(each - len(self._before_words), 0) for each in places)
        return ids, starts, ends

    def _with_space(self, words: tf.Tensor | Sequence[str]) -> tf.Tensor:
        words = tf.convert_to_tensor(words, tf.string)
        return tf.where(words == "", words, tf.strings.join([self._before_words, words]))

    def tokenize_by_word(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Splits texts into words as GPT-2 does, and each word into the pieces of its own."""
        texts = tf.convert_to_tensor(texts, tf.string)
        words = byte_bpe_words.split(texts)
        kept = tf.where(~words.is_white)[:, 0]
        rows = tf.gather(words.texts, kept)
        origin = tf.gather(words.text_starts, rows)
        first = tf.gather(words.bounds, kept) - origin
        visible = first + tf.cast(tf.gather(words.takes_space, kept), tf.int64)
        first = first if self._before_words else visible
        last = tf.gather(words.bounds, kept + 1) - origin
        ids, starts, ends = self.tokenize_with_offsets(byte_ranges.cut(texts, rows, first, last))
        word = ids.value_rowids()
        begins = tf.range(tf.size(word, tf.int64)) == tf.gather(ids.row_starts(), word)
        shift, lowest = tf.gather(first, word), tf.gather(visible, word)
        splits = tf.gather(ids.row_splits, tf.searchsorted(kept, words.splits))
        # A piece that is only the space has an empty range at the word.
        places = (tf.maximum(each.flat_values + shift, lowest) for each in (starts, ends))
        return Pieces(*byte_ranges.ragged(splits, ids.flat_values, *places, begins))

    def tokenize_running_text(self, sentences: Sequence[str]) -> Ids:
        """Returns the ids of `tokenize`, which computes only those of words not met before."""
        words = self._words()
        return words.ids(sentences) if words else super().tokenize_running_text(sentences)

    def _table_of_words(self) -> "unigram_words.UnigramWords | None":
        from pipelines.tokenizers import unigram_words  # numba, which servers do without

        vocabulary = self.vocabulary
        assert isinstance(vocabulary, SentencePieceVocabulary)
        scores = unigram_words.independent_scores(vocabulary)
        if scores is None:
            return None
        texts = (self.tokenize, self._normalized)
        return unigram_words.UnigramWords(
            vocabulary, scores, *texts, lambda pieces: self._divide(pieces)[0]
        )

    def plain_ids(self, text: str) -> list[int] | None:
        """Returns the ids of `tokenize` without TensorFlow, or None.

        None: the text is not ASCII, or has an added token after which a space is added.
        """
        if not _PLAIN.fullmatch(text):
            return None
        if self._cuts_words:
            if self._kept and self._kept.are_in(text):
                return None
            text = text if text[:1] in ("", " ") else f" {text}"
        text = text if self._as_is else " ".join(text.split())
        vocabulary = self.vocabulary
        assert isinstance(vocabulary, SentencePieceVocabulary)
        found = vocabulary.processor.encode(text.lower() if self._normalize.lower_case else text)
        parts = self._parts()
        return [index for piece in found for index in parts[piece]]


def _parts(vocabulary: SentencePieceVocabulary, index: int) -> list[int]:
    """The ids that stand for a piece: its own, or those of a digit's piece and of the comma."""
    piece, processor = vocabulary.tokens[index], vocabulary.processor
    if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
        return [index]
    found = processor.encode(piece[:-1].replace(SPACE, ""), out_type=str)
    if not piece.startswith(SPACE) and found[0].startswith(SPACE):
        found[0] = found[0][1:]
    return [processor.piece_to_id(part) for part in (*filter(None, found), ",")]


def _removed_and_spaces(vocabulary: SentencePieceVocabulary) -> tuple[str, str]:
    """The characters that SentencePiece removes, and those that it takes for a space, for RE2."""
    categories = ("Cc", "Cf", "Zl", "Zp", "Zs")
    points = [*map(chr, unicode_tables.of_categories(*categories)), SPACE, "\ufffd"]
    found: tuple[list[str], list[str]] = ([], [])
    normalized = vocabulary.processor.normalize([f"x{point}x" for point in points])
    for point, text in zip(points, normalized, strict=True):
        if text.removeprefix(SPACE) in ("xx", f"x{SPACE}x"):
            found[SPACE in text[1:]].append(f"\\x{{{ord(point):x}}}")
    removed, spaces = map("".join, found)
    return removed or unicode_tables.UNASSIGNED, spaces


@functools.cache
def _combining() -> str:
    """A class of the characters of a non-zero combining class."""
    found = [c for c in range(sys.maxunicode + 1) if unicodedata.combining(chr(c))]
    return character_class(np.array(found))


@functools.cache
def _newer() -> str:
    """A class of the characters that only TensorFlow's Unicode tables decompose; "" if none."""
    texts = [chr(c) for c in unicode_tables.of_categories("Cn")]
    with tf.init_scope():
        found = tf_text.normalize_utf8(tf.constant(texts), "NFKD").numpy()
    differ = [ord(t) for t, f in zip(texts, found, strict=True) if f.decode() != t]
    return character_class(np.array(differ)) if differ else ""
