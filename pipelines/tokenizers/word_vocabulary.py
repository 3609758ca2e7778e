"""Vocabularies of whole words: learned from a corpus by counts, or brought as a words.txt."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Settings
from pipelines.tokenizers.lines_vocabulary import (
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
