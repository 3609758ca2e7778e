"""Whole words as TensorFlow ops: one token a word.

Words of texts are those that BERT's tokenizer takes apart (`wordpiece`, steps 1 to 4). The op of
that tokenizer finds them, too: WordPiece with no piece that continues a word is a table of words.
Words that are given are looked up as they are, such as U.S., which a text would be split at.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

import tensorflow as tf

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Settings
from pipelines.tokenizers.wordpiece import WordPieceTokenizer
from pipelines.tokenizers.wordpiece_vocabulary import (
    LinesVocabulary,
    assigned,
    check_lines,
    is_short,
    read_lines,
)

FILE = "words.txt"
ROLES = {
    "pad": "<PAD>",
    "unknown": "<UNK>",
    "start": "<S>",
    "separator": "</S>",
    "mask": "<MASK>",
}
SPECIAL_TOKENS = tuple(ROLES.values())
UNKNOWN_ID = SPECIAL_TOKENS.index(ROLES["unknown"])
# Longer words are unknown; the characters beyond are too many for any model.
LONGEST_WORD = 100


@dataclasses.dataclass(frozen=True)
class WordVocabulary(LinesVocabulary):
    """The words of a words.txt, one a line: the special tokens, then the most frequent first.

    Raises:
      InputError: a word is empty, too long or stands twice, or the special tokens are not the
        first.
    """

    tokens: tuple[str, ...]
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    kind: ClassVar[str] = "word"
    files: ClassVar[tuple[str, ...]] = (FILE,)
    signs: ClassVar[tuple[str, ...]] = (FILE,)
    roles: ClassVar[Mapping[str, str]] = ROLES
    typed: ClassVar[bool] = False

    def __post_init__(self, name: str):
        if self.tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
            raise InputError(
                f"{name}: a vocabulary of words begins with {', '.join(SPECIAL_TOKENS)}, a line "
                "each; put them before the words."
            )
        check_lines(self.tokens, name)

    @classmethod
    def load(cls, path: str) -> "WordVocabulary":
        """Reads a words.txt, or that of a folder.

        Raises:
          InputError: the file is missing or is not UTF-8, or its words make no vocabulary.
        """
        path = f"{path}/{FILE}" if files.gfile.isdir(path) else path
        return cls(tuple(line.removesuffix("\r") for line in read_lines(path)), path)

    def resolve(self, settings: Mapping[str, bool | str | None]) -> Settings:
        """As of WordPiece: `lower_case` and `strip_accents`."""
        return {"kind": self.kind, **super().resolve(settings)}

    def text(self, pieces: Sequence[str]) -> str:
        """Words with blanks between."""
        return " ".join(pieces)


def learn(words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> WordVocabulary:
    """Takes the most frequent words; of equal counts, the first in the order of their bytes.

    Args:
      words: counts of words, as `word_counts.count_words` gives them.
      size: the most tokens to take, special ones included.
      coverage: 1.0; words are taken by counts alone.

    Raises:
      InputError: there are no words, or `size` has no room for one.
    """
    counts = assigned(words)
    if not counts:
        raise InputError("the corpus has no words to learn a vocabulary from.")
    if coverage < 1:
        raise InputError("--character_coverage: words are taken by their counts; leave it out.")
    room = size - len(SPECIAL_TOKENS)
    if room < 1:
        raise InputError(
            f"a vocabulary of {size} has no room for words beside the special tokens: raise the "
            f"size to {len(SPECIAL_TOKENS) + 1} or more."
        )
    # In the order of UTF-8, which is that of code points.
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    known = [text for text, _ in ranked if len(text) <= LONGEST_WORD and is_short(text)]
    if not known:
        raise InputError(f"the corpus has no words of at most {LONGEST_WORD} characters.")
    return WordVocabulary((*SPECIAL_TOKENS, *known[:room]))


class WordTokenizer(WordPieceTokenizer):
    """Ids of whole words.

    >>> tokens = ("<PAD>", "<UNK>", "<S>", "</S>", "<MASK>", "It", "rained", ".")
    >>> WordTokenizer(WordVocabulary(tokens)).tokenize(["It rained, yesterday."]).to_list()
    [[5, 6, 1, 1, 7]]

    Longer words of texts than LONGEST_WORD are unknown.

    Args:
      vocabulary: the words.
      lower_case: whether text is lower-cased.
      strip_accents: whether letters lose their accents; None: as `lower_case`.
      kind: "word".
    """

    # No word of a text has a control character, so nothing continues one.
    suffix: ClassVar[str] = "\x02"

    def __init__(
        self,
        vocabulary: WordVocabulary,
        *,
        lower_case: bool = False,
        strip_accents: bool | None = None,
        kind: str = WordVocabulary.kind,
    ):
        super().__init__(
            vocabulary,
            lower_case=lower_case,
            strip_accents=strip_accents,
            max_characters_per_word=LONGEST_WORD,
        )
        words = vocabulary.tokens[len(SPECIAL_TOKENS) :]
        numbers = tf.range(len(SPECIAL_TOKENS), len(vocabulary.tokens))
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(words, tf.string), numbers),
            self.unknown_id,
        )

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """The ids of `tokenize_words_with_offsets`."""
        return self.tokenize_words_with_offsets(words)[0]

    def tokenize_words_with_offsets(
        self, words: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Looks up each word as it is given.

        One that is not in the vocabulary is split as a text is, if all of its parts are there, as
        those of "n't" are in a vocabulary that is learned from texts; else it is one unknown word.

        Args:
          words: string [words], UTF-8.

        Returns:
          As `tokenize_with_offsets`.
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
    """Empties the rows of [rows, (values)] where `kept`, bool [rows], is False."""
    return tf.ragged.boolean_mask(values, kept[:, tf.newaxis] & tf.ones_like(values, tf.bool))
