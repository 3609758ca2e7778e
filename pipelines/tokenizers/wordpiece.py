"""The tokenizer of BERT as TensorFlow operations.

Ids equal those of the original (google-research/bert, tokenization.py), whose steps are:

1. remove U+0000, U+FFFD and control and format characters (Cc, Cf);
2. put spaces around CJK ideographs;
3. if uncased: lower-case, decompose (NFD), remove non-spacing marks (Mn);
4. split at white space and punctuation (P*, and ASCII symbols);
5. split each word into the longest matching pieces; a word with a character that no piece covers,
   or of more than 200 characters (Hugging Face: 100), becomes [UNK].

Steps 2, 4 and 5 are one operation of tensorflow_text.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from pipelines.common.errors import InputError
from pipelines.tokenizers import byte_ranges, normalizer
from pipelines.tokenizers.base import Ids, IdsWithOffsets, Tokenizer, as_arrays
from pipelines.tokenizers.wordpiece_vocabulary import (
    MAX_CHARACTERS_PER_WORD,
    SUFFIX,
    LinesVocabulary,
)

if TYPE_CHECKING:
    from pipelines.tokenizers import word_cache

_MAX_UTF8_BYTES = 4
_PLAIN = re.compile(r"[\t\n\r -~]*")
_WORD = re.compile(r"[0-9A-Za-z]+|[!-/:-@\[-`{-~]")
_CACHED_WORDS = 1 << 16


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
      typed: whether the second of two segments has its own token type.

    Attributes:
      suffix: prefix of the pieces that continue a word.

    Raises:
      InputError: no token can be part of a word.
    """

    suffix: ClassVar[str] = SUFFIX

    def __init__(
        self,
        vocabulary: LinesVocabulary,
        *,
        lower_case: bool = True,
        strip_accents: bool | None = None,
        max_characters_per_word: int = MAX_CHARACTERS_PER_WORD,
        clean_text: bool = True,
        typed: bool = True,
    ):
        if strip_accents is None:
            strip_accents = lower_case
        chosen = {
            "lower_case": lower_case,
            "strip_accents": strip_accents,
            "max_characters_per_word": max_characters_per_word,
            "clean_text": clean_text,
            "typed": typed,
        }
        super().__init__(vocabulary, vocabulary.resolve(chosen))
        tokens = vocabulary.tokens
        # Pieces of a text never contain white space or U+0000. Tokens that do would confuse the
        # operation; they are replaced by a control character, which never occurs either.
        pieces = [
            token if token.split() == [token] and "\0" not in token else f"\x01{index}"
            for index, token in enumerate(tokens)
        ]
        self.normalize = normalizer.Normalizer(
            lower_case, strip_accents, "".join(pieces), clean_text
        )
        self._max_characters = max_characters_per_word
        self.begins_word = np.array([not token.startswith(self.suffix) for token in tokens])
        numbers = {token: number for number, token in enumerate(pieces)}
        self._split = _splitter(numbers, self.suffix, self.unknown_id, max_characters_per_word)
        try:
            self._wordpiece = tf_text.FastWordpieceTokenizer(
                pieces,
                suffix_indicator=self.suffix,
                unknown_token=vocabulary.roles["unknown"],
                token_out_type=tf.int32,
                max_bytes_per_word=_MAX_UTF8_BYTES * max_characters_per_word,
            )
        except RuntimeError as error:  # raised for this reason only
            raise InputError(
                f"the vocabulary of {len(tokens)} tokens has none that is part of a word: "
                "learn one of some text (bert-tf learn-vocabulary)."
            ) from error

    def plain_ids(self, text: str) -> list[int] | None:
        """Returns the ids of `tokenize` without TensorFlow, or None if the text is not plain ASCII.

        For one sentence, a graph of hundreds of small operations takes ten times as long as the
        work. Plain text is only lower-cased; its words are runs of letters and digits, or signs.
        """
        if not _PLAIN.fullmatch(text):
            return None
        if self.normalize.lower_case:
            text = text.lower()
        return [number for word in _WORD.findall(text) for number in self._split(word)]

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        normalized = self.normalize(texts)
        return tf.cond(
            self._may_have_long_words(normalized),
            lambda: self._tokenize_long_words(normalized)[0],
            lambda: self._wordpiece.tokenize(normalized),
        )

    def tokenize_running_text(self, sentences: Sequence[str]) -> Ids:
        """Returns the ids of `tokenize`, which computes only those of words not met before."""
        # Whether a capital sigma ends a word depends on the letters around signs such as "'".
        has_sigma = self.normalize.lower_case and any("Σ" in text for text in sentences)
        return self._words.ids(sentences, normalizer.separators(has_sigma))

    @functools.cached_property
    def _words(self) -> "word_cache.WordCache":
        from pipelines.tokenizers import word_cache  # numba, which servers do without

        return word_cache.WordCache(lambda words: as_arrays(self.tokenize(words)))

    def tokenize_with_offsets(self, texts: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        """Returns ids and byte offsets; a removed mark belongs to the letter before it."""
        texts = tf.convert_to_tensor(texts, tf.string)
        normalized = self.normalize(texts)
        ids, starts, ends = tf.cond(
            self._may_have_long_words(normalized),
            lambda: self._tokenize_long_words(normalized),
            lambda: self._wordpiece.tokenize_with_offsets(normalized),
        )
        plain = tf.reduce_all(normalizer.is_plain(texts))
        starts, ends = tf.cond(
            plain,
            lambda: (starts, ends),
            lambda: self.normalize.original_offsets(texts, starts, ends),
        )
        return ids, starts, ends

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
        characters = byte_ranges.count_characters(normalized, word_row, word_start, word_end)
        too_long = characters > self._max_characters
        piece_too_long = tf.gather(too_long, word)
        new_ids = tf.where(piece_too_long, self.unknown_id, ids.flat_values)
        new_ends = tf.where(piece_too_long, tf.gather(word_end, word), ends.flat_values)
        keep = ~piece_too_long | begins
        return tuple(
            tf.RaggedTensor.from_value_rowids(
                tf.boolean_mask(values, keep),
                tf.boolean_mask(rows, keep),
                ids.nrows(),
                validate=False,
            )
            for values in (new_ids, starts.flat_values, new_ends)
        )


def _splitter(
    ids: Mapping[str, int], suffix: str, unknown_id: int, longest_word: int
) -> Callable[[str], tuple[int, ...]]:
    """Returns a function from a normalized word to its ids, taking the longest piece first."""
    longest_piece = max(map(len, ids), default=0)

    @functools.lru_cache(_CACHED_WORDS)
    def split(word: str) -> tuple[int, ...]:
        found: list[int] = []
        begin = 0
        while begin < len(word) <= longest_word:
            prefix = suffix if begin else ""
            ends = range(min(len(word), begin + longest_piece), begin, -1)
            known = ((end, ids.get(prefix + word[begin:end])) for end in ends)
            end, number = next((each for each in known if each[1] is not None), (0, None))
            if number is None:
                return (unknown_id,)
            found.append(number)
            begin = end
        return tuple(found) or (unknown_id,)

    return split
