"""BPE vocabularies of words with an end-of-word mark (GPT): learned, or read from files."""

import collections
import dataclasses
import unicodedata
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from pipelines.common.errors import InputError
from pipelines.tokenizers import bpe_files, bpe_merging
from pipelines.tokenizers.bpe_files import Merge
from pipelines.tokenizers.wordpiece_vocabulary import (
    SplitWordsVocabulary,
    covering,
    learnable_words,
)

END_OF_WORD = "</w>"
# Stands for it where a token must be letters alone; private use, which `_alphabet` leaves out.
MARK = "\ue000"
UNKNOWN, START, DELIMITER, EXTRACT, PAD = "<unk>", "_start_", "_delimiter_", "_classify_", "_pad_"
# Tokens that follow those of OpenAI's files. Its fine-tuning adds the first three; texts never give
# them, as "_" is a word of its own.
ADDED = (START, DELIMITER, EXTRACT, PAD)


@dataclasses.dataclass(frozen=True)
class BPEVocabulary(SplitWordsVocabulary):
    """Tokens and merges of GPT, in Hugging Face's files or OpenAI's.

    Tokens that end a word have END_OF_WORD at their end. Files without the tokens of ADDED are read
    as if those followed.

    Raises:
      InputError: the unknown token is missing, a token is repeated or empty, or the merges are not
        such as BPE learns.
    """

    tokens: tuple[str, ...]
    merges: tuple[Merge, ...]
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    kind: ClassVar[str] = "bpe"
    files: ClassVar[tuple[str, ...]] = bpe_files.NAMES[0]
    # Its files have the names of those of byte-level BPE, which loads both.
    marker_files: ClassVar[tuple[str, ...]] = ()
    learned_lower_case: ClassVar[bool] = True
    roles: ClassVar[Mapping[str, str]] = {
        "pad": PAD,
        "unknown": UNKNOWN,
        "start": START,
        "separator": DELIMITER,
        "end": EXTRACT,
        "mask": UNKNOWN,  # it has none: its models read from left to right
    }
    starts_text: ClassVar[bool] = False
    continuation_prefix: ClassVar[str] = " "

    def __post_init__(self, name: str):
        if UNKNOWN not in self.tokens:
            raise InputError(f"{name}: lacks {UNKNOWN}; a vocabulary like GPT's has it.")
        added = tuple(token for token in ADDED if token not in self.tokens)
        object.__setattr__(self, "tokens", (*self.tokens, *added))
        if len(set(self.tokens)) < len(self.tokens) or "" in self.tokens:
            raise InputError(f"{name}: a token is empty or occurs twice; every id needs its own.")
        spelled = list(map(spell, self.tokens))
        merges = [(spell(left), spell(right)) for left, right in self.merges]
        letters = set(self.letters) | {f"{letter}{MARK}" for letter in self.letters}
        implied = [(letter, MARK) for letter in self.letters]
        bpe_merging.check(spelled, merges, letters, self.roles.values(), name, implied)

    @property
    def letters(self) -> list[str]:
        """The characters that a word with a token of its own may have."""
        found = (token.removesuffix(END_OF_WORD) for token in self.tokens)
        return sorted({letter for letter in found if len(letter) == 1})

    @classmethod
    def load(cls, path: str) -> Self:
        """Reads the two files of a vocabulary; the path is that of `bpe_files.read`."""
        return cls(*bpe_files.read(path))

    @classmethod
    def learn(cls, words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> Self:
        """Learns <unk>, the letters within and at the end of words, merges, and ADDED.

        Words with characters beyond the coverage take no part.
        """
        counts = learnable_words(words)
        letters = _alphabet(counts, coverage)
        room = size - 1 - 2 * len(letters) - len(ADDED)
        if room < 0:
            raise InputError(
                f"the corpus has {len(letters)} characters, which do not fit a vocabulary of "
                f"{size} twice: raise the size, or leave rare characters to {UNKNOWN} with "
                "--character_coverage=0.9995."
            )
        merges = _train(counts, letters, room)
        ends = [f"{letter}{END_OF_WORD}" for letter in letters]
        made = [left + right for left, right in merges]
        return cls((UNKNOWN, *letters, *ends, *made, *ADDED), tuple(merges))

    def contents(self) -> tuple[bytes, ...]:
        return bpe_files.contents(self.tokens, self.merges)

    def text(self, pieces: Sequence[str]) -> str:
        return "".join(piece.replace(END_OF_WORD, " ") for piece in pieces).rstrip(" ")

    def bytes_of(self, token: str) -> bytes:
        return token.removesuffix(END_OF_WORD).encode()

    def continuation(self, token: str) -> bytes:
        return token.replace(END_OF_WORD, " ").encode()


def spell(token: str) -> str:
    """A token as letters, with MARK at the end of a word."""
    ends = token.endswith(END_OF_WORD)
    return f"{token.removesuffix(END_OF_WORD)}{MARK}" if ends else token


def _alphabet(words: collections.Counter[str], coverage: float) -> list[str]:
    """Returns the characters that cover a fraction of the text, sorted."""
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    for character in list(counts):
        if unicodedata.category(character) == "Co":  # such as MARK and those of `_train`
            del counts[character]
    return sorted(covering(counts, coverage))


def _train(words: collections.Counter[str], letters: Sequence[str], merges: int) -> list[Merge]:
    """Returns the merges that the tokenizers library finds, in its order.

    A letter at the end of a word is another symbol than within. The trainer numbers symbols in the
    order of a hash table, and breaks ties by that number, unless they are single characters given
    to it: those at an end become private characters.
    """
    private = range(0xF0000, 0xF0000 + len(letters))
    ends = dict(zip(letters, map(chr, private), strict=True))
    shown = {end: f"{letter}{END_OF_WORD}" for letter, end in ends.items()}
    spelled = {
        word[:-1] + ends[word[-1]]: count
        for word, count in words.items()
        if all(character in ends for character in word)
    }
    found = bpe_merging.learn(spelled, [*letters, *ends.values()], merges)

    def shown_of(part: str) -> str:
        return "".join(shown.get(character, character) for character in part)

    return [(shown_of(left), shown_of(right)) for left, right in found]
