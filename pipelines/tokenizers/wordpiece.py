"""The tokenizer of BERT as TensorFlow operations.

Ids equal those of the original (google-research/bert, tokenization.py), whose steps are:

0. if tokens have Korean syllables in parts (KR-BERT's sub-characters): decompose (NFKD);
1. remove U+0000, U+FFFD and control and format characters (Cc, Cf);
2. put spaces around CJK ideographs;
3. if uncased: lower-case, decompose (NFD), remove non-spacing marks (Mn);
4. split at white space and punctuation (P*, and ASCII symbols);
5. split each word into the longest matching pieces; a word with a character that no piece covers,
   or of more than 200 characters (Hugging Face: 100), becomes [UNK].

Tokens that a user wants to be kept whole, such as <e1>, are found after step 3, in any spelling
that becomes theirs by steps 1 and 3.

Steps 2, 4 and 5 are one operation of tensorflow_text. A short text of printable ASCII needs none:
`plain_ids` has all steps in Python; and the writer of examples looks up the words it has met.
"""

import functools
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.common.errors import InputError
from pipelines.tokenizers import byte_ranges, kept_tokens, unicode_tables
from pipelines.tokenizers.base import Ids, IdsWithOffsets, Tokenizer, as_arrays
from pipelines.tokenizers.unicode_tables import character_class, of_categories
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, LinesVocabulary

if TYPE_CHECKING:
    from pipelines.tokenizers import word_cache

# Text that only lower-casing can change, in which every byte is a character.
_PLAIN = r"[\t\n\r -~]*"
_IS_PLAIN = re.compile(_PLAIN).fullmatch
# Valid UTF-8; "." would also match surrogates and overlong encodings.
_VALID = r"[\x{0}-\x{D7FF}\x{E000}-\x{10FFFF}]*"
_WORD_OF_PLAIN = re.compile(r"[0-9A-Za-z]+|[!-/:-@\[-`{-~]")
_MAX_UTF8_BYTES = 4
_CACHED_WORDS = 1 << 16


class Normalizer(tf.Module):
    """Steps 0, 1 and 3: decomposes, removes control characters, lower-cases and strips accents.

    Args:
      lower_case: whether to lower-case.
      strip_accents: whether to decompose (NFD) and remove non-spacing marks.
      alphabet: the characters of the vocabulary; unassigned code points among them are kept.
      clean_text: whether to remove control characters and U+FFFD.
      decompose: whether to decompose (NFKD) first.
    """

    def __init__(
        self,
        lower_case: bool,
        strip_accents: bool,
        alphabet: str = "",
        clean_text: bool = True,
        decompose: bool = False,
    ):
        super().__init__(name="normalizer")
        self._decomposes = decompose
        self.lower_case, self.strip_accents, self._cleans = lower_case, strip_accents, clean_text
        # A word with an unassigned character is unknown unless the vocabulary has the character.
        known = "".join({c for c in alphabet if unicodedata.category(c) == "Cn"})
        self._unassigned = character_class(unicode_tables.unassigned(), without=known)
        controls = [c for c in of_categories("Cc", "Cf") if chr(c) not in "\t\n\r"]
        self._dropped = character_class(np.sort([*controls, 0xFFFD]))
        self._marks = character_class(of_categories("Mn"))

    def __call__(self, texts: tf.Tensor | Sequence[str]) -> tf.Tensor:
        """Normalizes string [batch] texts; bytes that are not UTF-8 are removed."""
        texts = tf.convert_to_tensor(texts, tf.string)
        rows = tf.where(~tf.strings.regex_full_match(texts, _PLAIN))
        others = self._normalize_unicode(tf.gather_nd(texts, rows))
        if self.lower_case:
            texts = tf.strings.lower(texts)  # ASCII only, and fast
        return tf.tensor_scatter_nd_update(texts, rows, others)

    def _normalize_unicode(self, texts: tf.Tensor) -> tf.Tensor:
        texts = tf.cond(  # invalid bytes become U+FFFD, which cleaning removes
            tf.reduce_all(tf.strings.regex_full_match(texts, _VALID)),
            lambda: texts,
            lambda: tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"),
        )
        texts = tf.strings.regex_replace(texts, self._unassigned, unicode_tables.UNASSIGNED)
        if self._decomposes:
            texts = tf_text.normalize_utf8(texts, "NFKD")
        if self._cleans:
            texts = tf.strings.regex_replace(texts, self._dropped, "")
        if self.lower_case:
            texts = unicode_tables.lower(texts)
        if self.strip_accents:
            texts = tf_text.normalize_utf8(texts, "NFD")
            texts = tf.strings.regex_replace(texts, self._marks, "")
        return texts

    def original_offsets(
        self, texts: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Maps byte offsets in normalized texts to byte offsets in the original texts.

        Each character is normalized on its own, which gives as many bytes as in context (context
        only decides between two forms of sigma, both of two bytes). Removed marks are joined to the
        character before them.
        """
        characters, offsets = tf.strings.unicode_split_with_offsets(texts, "UTF-8")
        flat = characters.flat_values
        lengths = tf.cast(tf.strings.length(self(flat)), tf.int64)
        joined = (lengths == 0) & tf.strings.regex_full_match(flat, self._marks)
        return byte_ranges.to_original(texts, offsets, lengths, joined, starts, ends)


def make_word_finder() -> Any:
    """Steps 2 and 4: a tokenizer with a single piece, which therefore finds whole words."""
    return tf_text.FastWordpieceTokenizer([*SPECIAL_TOKENS, "x"], token_out_type=tf.int32)


_normalizer = functools.cache(Normalizer)  # created once per process
_word_finder = functools.cache(make_word_finder)


def split_words(
    texts: Sequence[str],
    *,
    lower_case: bool,
    strip_accents: bool | None = None,
    decompose: bool = False,
    **_: Any,
) -> tf.Tensor:
    """Returns the words of texts after steps 0 to 4, string [words]; those of long texts are last.

    Further settings of tokenizers change no word.
    """
    strip = lower_case if strip_accents is None else strip_accents
    normalize = _normalizer(lower_case, strip, decompose=decompose)

    def words(texts: Sequence[str]) -> tf.Tensor:
        normalized = normalize(texts)
        _, starts, ends = _word_finder().tokenize_with_offsets(normalized)
        return byte_ranges.cut_words(normalized, starts, ends)

    limit = byte_ranges.LONG_TEXT
    parts = [x for x in texts if len(x) <= limit], [x for x in texts if len(x) > limit]
    return tf.concat([words(part) for part in parts if part], 0)


class WordPieceTokenizer(Tokenizer):
    """Turns texts into WordPiece ids.

    >>> tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hel", "##lo")
    >>> tokenizer = WordPieceTokenizer(WordPieceVocabulary(tokens))
    >>> tokenizer.tokenize(["Hello"]).to_list()
    [[5, 6]]

    Args:
      vocabulary: the tokens.
      lower_case: whether text is lower-cased (an uncased vocabulary).
      strip_accents: whether text is decomposed (NFD) and non-spacing marks are removed; None: the
        value of `lower_case`, as in the original. Use False for Hangul and other scripts whose
        characters decomposition splits.
      max_characters_per_word: longer words become [UNK].
      clean_text: whether step 1 removes characters.
      decompose: whether text is decomposed (NFKD); None: as the vocabulary needs it.
      typed: whether the second of two segments has its own token type.
      kept_tokens: tokens that are found whole in texts, with spaces between.

    Raises:
      InputError: no token can be part of a word, or one to be kept is not in the vocabulary.
    """

    def __init__(self, vocabulary: LinesVocabulary, **settings: Any):
        super().__init__(vocabulary, **settings)
        chosen: Any = self.all_settings
        tokens = vocabulary.tokens
        suffix = vocabulary.suffix or "\x02"  # no word has a control character
        # Pieces of a text never contain white space or U+0000. Tokens that do would confuse the
        # operation; they are replaced by a control character, which never occurs either.
        pieces = [
            token if token.split() == [token] and "\0" not in token else f"\x01{index}"
            for index, token in enumerate(tokens)
        ]
        self.normalize = Normalizer(
            *(chosen["lower_case"], chosen["strip_accents"], "".join(pieces)),
            *(chosen["clean_text"], chosen["decompose"]),
        )
        self._max_characters = chosen["max_characters_per_word"]
        self.begins_word = np.array([not token.startswith(suffix) for token in tokens])
        ids = {token: index for index, token in enumerate(pieces)}
        longest_piece = max(map(len, ids))

        @functools.lru_cache(_CACHED_WORDS)
        def pieces_of(word: str) -> tuple[int, ...]:
            """Step 5: the ids of a normalized word, taking the longest piece first."""
            found: list[int] = []
            begin = 0
            while begin < len(word) <= self._max_characters:
                prefix = suffix if begin else ""
                ends = range(min(len(word), begin + longest_piece), begin, -1)
                known = ((end, ids.get(prefix + word[begin:end])) for end in ends)
                end, number = next((each for each in known if each[1] is not None), (0, None))
                if number is None:
                    return (self.unknown_id,)
                found.append(number)
                begin = end
            return tuple(found) or (self.unknown_id,)

        self._pieces_of = pieces_of
        self._words = functools.cache(self._make_words)
        kept = kept_tokens.of(chosen)
        if missing := [token for token in kept if token not in ids]:
            raise InputError(f"the vocabulary lacks the kept tokens {', '.join(missing)}.")
        spelled = self.normalize(kept).numpy() if kept else []
        if removed := [token for token, text in zip(kept, spelled, strict=True) if not text]:
            raise InputError(
                f"the kept tokens {', '.join(map(repr, removed))} have no character that the "
                "tokenizer keeps; remove them."
            )
        self._kept = kept_tokens.KeptTokens(
            {text.decode(): ids[token] for text, token in zip(spelled, kept, strict=True)}
        )
        try:
            self._wordpiece = tf_text.FastWordpieceTokenizer(
                pieces,
                suffix_indicator=suffix,
                unknown_token=vocabulary.roles["unknown"],
                token_out_type=tf.int32,
                max_bytes_per_word=_MAX_UTF8_BYTES * self._max_characters,
            )
        except RuntimeError as error:  # raised for this reason only
            raise InputError(
                f"the vocabulary of {len(tokens)} tokens has none that is part of a word: "
                "learn one of some text (bert-tf learn-vocabulary)."
            ) from error

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        return self._kept.split(self.normalize(texts), self._tokenize)[0]

    def _tokenize(self, normalized: tf.Tensor) -> tuple[tf.RaggedTensor]:
        ids = tf.cond(
            self._may_have_long_words(normalized),
            lambda: self._tokenize_long_words(normalized)[0],
            lambda: self._wordpiece.tokenize(normalized),
        )
        return (ids,)

    def tokenize_with_offsets(self, texts: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        """Returns ids and byte offsets; a removed mark belongs to the letter before it."""
        texts = tf.convert_to_tensor(texts, tf.string)
        ids, starts, ends = self._kept.split(self.normalize(texts), self._with_offsets)
        starts, ends = tf.cond(
            tf.reduce_all(tf.strings.regex_full_match(texts, _PLAIN)),
            lambda: (starts, ends),
            lambda: self.normalize.original_offsets(texts, starts, ends),
        )
        return ids, starts, ends

    def _with_offsets(self, normalized: tf.Tensor) -> IdsWithOffsets:
        return tf.cond(
            self._may_have_long_words(normalized),
            lambda: self._tokenize_long_words(normalized),
            lambda: self._wordpiece.tokenize_with_offsets(normalized),
        )

    def _may_have_long_words(self, normalized: tf.Tensor) -> tf.Tensor:
        pattern = rf"(?s).*[^ \t\r\n]{{{self._max_characters + 1}}}.*"
        return tf.reduce_any(tf.strings.regex_full_match(normalized, pattern))

    def _tokenize_long_words(self, normalized: tf.Tensor) -> IdsWithOffsets:
        """Tokenizes, and replaces each word of too many characters by one [UNK].

        The operation's own limit counts bytes, four for each character allowed, so some words that
        are too long pass it. They are found here by the characters that their pieces span.
        """
        ids, starts, ends = self._wordpiece.tokenize_with_offsets(normalized)
        rows = ids.value_rowids()
        begins = tf.gather(tf.constant(self.begins_word), ids.flat_values)
        word = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        words = tf.reduce_sum(tf.cast(begins, tf.int64))
        word_start = tf.math.unsorted_segment_min(starts.flat_values, word, words)
        word_end = tf.math.unsorted_segment_max(ends.flat_values, word, words)
        word_row = tf.math.unsorted_segment_max(rows, word, words)
        first, last = (
            byte_ranges.to_characters(normalized, word_row, place)
            for place in (word_start, word_end)
        )
        too_long = last - first > self._max_characters
        piece_too_long = tf.gather(too_long, word)
        new_ids = tf.where(piece_too_long, self.unknown_id, ids.flat_values)
        new_ends = tf.where(piece_too_long, tf.gather(word_end, word), ends.flat_values)
        keep = ids.with_flat_values(~piece_too_long | begins)
        flat = (new_ids, starts.flat_values, new_ends)
        return tuple(tf.ragged.boolean_mask(ids.with_flat_values(each), keep) for each in flat)

    def tokenize_running_text(self, sentences: Sequence[str]) -> Ids:
        """Returns the ids of `tokenize`, which computes only those of words not met before."""
        if self._kept:
            return super().tokenize_running_text(sentences)
        return self._words().ids(sentences)

    def _make_words(self) -> "word_cache.WordCache":
        from pipelines.tokenizers import word_cache  # numba, which servers do without

        def separators(text: str) -> np.ndarray:
            # Whether a capital sigma ends a word depends on the letters around signs such as "'".
            return unicode_tables.separators(self.normalize.lower_case and "Σ" in text)

        return word_cache.WordCache(lambda words: as_arrays(self.tokenize(words)), separators)

    def plain_ids(self, text: str) -> list[int] | None:
        """Returns the ids of `tokenize` without TensorFlow, or None if the text is not plain ASCII.

        For one sentence, a graph of hundreds of small operations takes ten times as long as the
        work. Plain text is only lower-cased; its words are runs of letters and digits, or signs.
        """
        if not _IS_PLAIN(text):
            return None
        text = text.lower() if self.normalize.lower_case else text
        if self._kept and self._kept.are_in(text):
            return None
        return [number for word in _WORD_OF_PLAIN.findall(text) for number in self._pieces_of(word)]
