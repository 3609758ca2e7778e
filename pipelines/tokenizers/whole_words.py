"""Tokenization into whole words: one token per word.

A text is split into words as by BERT's tokenizer (`wordpiece`, steps 1 to 4). The same operation
does it, since WordPiece without continuing pieces is a table of words. Given words are looked up as
they are, such as "U.S.", which would be split in a text.
"""

import collections
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.tokenizers.base import IdsWithOffsets
from pipelines.tokenizers.vocabulary import ELMO, CasedVocabulary, SequenceForm, TokenizerSettings
from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import LinesVocabulary, learnable_words

FILE = "words.txt"
SPECIAL_TOKENS = tuple(ELMO.roles.values())
UNKNOWN_ID = SPECIAL_TOKENS.index(ELMO.roles["unknown"])
# Longer words are unknown; the characters beyond are too many for any model.
LONGEST_WORD = 100


class WordVocabulary(LinesVocabulary):
    """The words of a words.txt: the special tokens, then the most frequent words first.

    Raises:
      InputError: the special tokens do not come first, or a word is too long.
    """

    kind: ClassVar[str] = "word"
    files: ClassVar[tuple[str, ...]] = (FILE,)
    marker_files: ClassVar[tuple[str, ...]] = (FILE,)
    forms: ClassVar[tuple[SequenceForm, ...]] = (ELMO,)
    usual: ClassVar[TokenizerSettings] = {
        **LinesVocabulary.usual,
        "max_characters_per_word": LONGEST_WORD,
    }
    stored: ClassVar[tuple[str, ...]] = (*CasedVocabulary.stored, "kind")
    learned: ClassVar[Mapping[str, bool | None]] = {"lower_case": False, "strip_accents": None}

    def __post_init__(self, name: str):
        if self.tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
            raise InputError(
                f"{name}: a vocabulary of words begins with {', '.join(SPECIAL_TOKENS)}, one per "
                "line; put them before the words."
            )
        super().__post_init__(name)

    @classmethod
    def learn(cls, words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> Self:
        """Takes the most frequent words; words of equal counts in the order of their bytes."""
        counts = learnable_words(words)
        if coverage < 1:
            raise InputError("--character_coverage: words are taken by their counts; leave it out.")
        room = size - len(SPECIAL_TOKENS)
        if room < 1:
            raise InputError(
                f"a vocabulary of {size} has no room for words besides the special tokens: raise "
                f"the size to {len(SPECIAL_TOKENS) + 1} or more."
            )
        ranked = sorted(counts, key=lambda text: (-counts[text], text))
        known = [text for text in ranked if len(text) <= LONGEST_WORD and cls.is_short(text)]
        if not known:
            raise InputError(f"the corpus has no words of at most {LONGEST_WORD} characters.")
        return cls((*SPECIAL_TOKENS, *known[:room]))

    def text(self, pieces: Sequence[str]) -> str:
        return " ".join(pieces)


class WordTokenizer(WordPieceTokenizer):
    """Turns texts into ids of whole words.

    >>> tokens = ("<PAD>", "<UNK>", "<S>", "</S>", "<MASK>", "It", "rained", ".")
    >>> WordTokenizer(WordVocabulary(tokens)).tokenize(["It rained, yesterday."]).to_list()
    [[5, 6, 1, 1, 7]]

    Words of texts longer than LONGEST_WORD characters are unknown. Settings are those of WordPiece.
    """

    def __init__(self, vocabulary: WordVocabulary, **settings: Any):
        super().__init__(vocabulary, **settings)
        words = vocabulary.tokens[len(SPECIAL_TOKENS) :]
        numbers = tf.range(len(SPECIAL_TOKENS), len(vocabulary.tokens))
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(words, tf.string), numbers),
            self.unknown_id,
        )

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        return self.tokenize_words_with_offsets(words)[0]

    def tokenize_words_with_offsets(self, words: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        """Looks up each word as it is.

        A word that is not in the vocabulary is split like a text if all of its parts are there, as
        those of "n't" are in a vocabulary learned from texts; otherwise it is one unknown word.
        """
        words = tf.convert_to_tensor(words, tf.string)
        normalize = self.normalize
        given = normalize(words) if normalize.lower_case or normalize.strip_accents else words
        known = self._table.lookup(given)
        parts = self.tokenize_with_offsets(words)
        lacks_part = tf.reduce_any(parts[0] == self.unknown_id, 1)
        is_whole = (known != self.unknown_id) | lacks_part
        ends = tf.cast(tf.strings.length(words), tf.int64)
        wholes = (known, tf.zeros_like(ends), ends)
        return tuple(
            tf.concat([_rows(some, ~is_whole), _rows(whole[:, tf.newaxis], is_whole)], 1)
            for some, whole in zip(parts, wholes, strict=True)
        )


def _rows(values: tf.Tensor | tf.RaggedTensor, kept: tf.Tensor) -> tf.RaggedTensor:
    """Empties the rows of [rows, (values)] that are not kept, bool [rows]."""
    return tf.ragged.boolean_mask(values, kept[:, tf.newaxis] & tf.ones_like(values, tf.bool))
