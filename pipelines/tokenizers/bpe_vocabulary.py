"""Vocabularies of byte-pair encoding: learned from a corpus, or read from files.

A vocabulary has tokens, in the order of ids, and merges, in the order of their ranks. GPT's tokens
are letters, with a mark at the end of a word. Byte-level BPE (GPT-2, RoBERTa, BART) spells bytes by
printable letters: printable characters of Latin-1 stand for themselves, the other 68 bytes are
U+0100 and following in order; a space is Ġ, a newline Ċ.
"""

import collections
import dataclasses
import functools
import itertools
import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import bpe_merging
from pipelines.tokenizers.bpe_merging import Merge
from pipelines.tokenizers.vocabulary import (
    GPT,
    GPT2,
    MODERNBERT,
    ROBERTA,
    CasedVocabulary,
    SequenceForm,
    TokenizerSettings,
    Vocabulary,
    in_order,
    read_lines,
)
from pipelines.tokenizers.wordpiece_vocabulary import covering, learnable_words

# Names of the files: Hugging Face's, then OpenAI's of GPT-2 and of GPT.
_NAMES = (
    ("vocab.json", "merges.txt"),
    ("encoder.json", "vocab.bpe"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),
)
END_OF_WORD = "</w>"
# Stands for it where a token must be letters alone, and begins the spelling of an added token;
# private use, which no learned token has.
MARK = "\ue000"
# Tokens that follow those of OpenAI's files. Its fine-tuning adds the first three; texts never give
# them, as "_" is a word of its own.
ADDED = tuple(GPT.roles[role] for role in ("start", "separator", "end", "pad"))
START, PAD, SEPARATOR, UNKNOWN, MASK = SPECIAL_TOKENS = tuple(
    ROBERTA.roles[role] for role in ("start", "pad", "separator", "unknown", "mask")
)
END_OF_TEXT = GPT2.roles["start"]

_PRINTED = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = itertools.count(0x100)
# The letter of each byte.
BYTE_LETTERS = tuple(chr(byte if byte in _PRINTED else next(_OTHERS)) for byte in range(256))
_LETTER_OF = dict(enumerate(BYTE_LETTERS))
# UTF-8 has all bytes but these.
_NEVER = {0xC0, 0xC1, *range(0xF5, 0x100)}
_BYTE_OF = {ord(letter): byte for byte, letter in enumerate(BYTE_LETTERS)}


def to_letters(data: bytes) -> str:
    """Spells bytes as letters."""
    return data.decode("latin-1").translate(_LETTER_OF)


def to_bytes(token: str) -> bytes:
    """Returns the bytes that a token spells; tokens with other letters are encoded as UTF-8."""
    if all(ord(letter) in _BYTE_OF for letter in token):
        return token.translate(_BYTE_OF).encode("latin-1")
    return token.encode()


def spell(token: str) -> str:
    """A token of GPT as letters, with MARK at the end of a word."""
    ends = token.endswith(END_OF_WORD)
    return f"{token.removesuffix(END_OF_WORD)}{MARK}" if ends else token


def read(path: str) -> tuple[tuple[str, ...], tuple[Merge, ...], str]:
    """Reads a vocabulary.

    Args:
      path: the folder, or the first of the two files, whose name may have a prefix
        ("roberta-base-vocab.json" goes with "roberta-base-merges.txt").

    Returns:
      The tokens in the order of their ids, the merges, and the path of the first file.

    Raises:
      InputError: a file is missing or damaged.
    """
    folder = path.rstrip("/")
    inside = ((f"{folder}/{first}", f"{folder}/{second}") for first, second in _NAMES)
    found = [pair for pair in inside if files.gfile.isdir(path) and files.gfile.exists(pair[0])]
    found += [(path, path.removesuffix(a) + b) for a, b in _NAMES if path.endswith(a)]
    if not found:
        pairs = " or ".join(f"{first} and {second}" for first, second in _NAMES)
        raise InputError(f"{path}: no BPE vocabulary; it is a folder with {pairs}.")
    name, merges_name = found[0]
    tokens = in_order(json_files.read(name, dict[str, Any]), name)
    merges = []
    for number, line in enumerate(read_lines(merges_name), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise InputError(f"{merges_name}: line {number} is not two parts with a space between.")
        merges.append((parts[0], parts[1]))
    return tokens, tuple(merges), name


def of(tokens: tuple[str, ...], merges: tuple[Merge, ...], name: str) -> "MergesVocabulary":
    """The vocabulary with these tokens: GPT's, if they have marks at the end of words."""
    is_gpt = any(token.endswith(END_OF_WORD) for token in tokens)
    return (BPEVocabulary if is_gpt else ByteBPEVocabulary)(tokens, merges, name)


@dataclasses.dataclass(frozen=True)
class MergesVocabulary(Vocabulary):
    """Tokens and merges, in Hugging Face's files or OpenAI's."""

    tokens: tuple[str, ...]
    merges: tuple[Merge, ...]
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    files: ClassVar[tuple[str, ...]] = _NAMES[0]
    marker_files: ClassVar[tuple[str, ...]] = tuple(first for first, _ in _NAMES)

    @classmethod
    def load(cls, path: str) -> "MergesVocabulary":
        """Reads the two files of a vocabulary of either kind; the path is that of `read`."""
        return of(*read(path))

    def __post_init__(self, name: str):
        self.check_special_tokens(name)
        if "" in self.tokens:
            raise InputError(
                f"{name}: id {self.tokens.index('')} has an empty token; give every id one."
            )
        if len(set(self.tokens)) < len(self.tokens):
            twice = next(t for t, count in collections.Counter(self.tokens).items() if count > 1)
            raise InputError(f"{name}: {twice!r} occurs twice; every token must occur once.")

    def contents(self) -> tuple[bytes, ...]:
        ids = {token: index for index, token in enumerate(self.tokens)}
        vocabulary = json.dumps(ids, ensure_ascii=False, separators=(",", ":"))
        merges = "".join(f"{left} {right}\n" for left, right in self.merges)
        return vocabulary.encode(), f"#version: 0.2\n{merges}".encode()


class BPEVocabulary(MergesVocabulary, CasedVocabulary):
    """Tokens and merges of GPT.

    Tokens that end a word have END_OF_WORD at their end. Files without the tokens of ADDED are read
    as if those followed.

    Raises:
      InputError: the unknown token is missing, a token is repeated or empty, or the merges are not
        such as BPE learns.
    """

    kind: ClassVar[str] = "bpe"
    marker_files: ClassVar[tuple[str, ...]] = ()  # those of byte-level BPE, which loads both
    forms: ClassVar[tuple[SequenceForm, ...]] = (GPT,)
    continuation_prefix: ClassVar[str] = " "

    def __post_init__(self, name: str):
        added = tuple(token for token in ADDED if token not in self.tokens)
        object.__setattr__(self, "tokens", (*self.tokens, *added))
        super().__post_init__(name)
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
    def learn(cls, words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> Self:
        """Learns <unk>, the letters within and at the end of words, merges, and ADDED.

        Words with characters beyond the coverage take no part.
        """
        counts = learnable_words(words)
        characters: collections.Counter[str] = collections.Counter()
        for word, count in counts.items():
            for character in word:
                if unicodedata.category(character) != "Co":  # such as MARK and those below
                    characters[character] += count
        letters = sorted(covering(characters, coverage))
        room = size - 1 - 2 * len(letters) - len(ADDED)
        if room < 0:
            raise InputError(
                f"the corpus has {len(letters)} characters, which do not fit a vocabulary of "
                f"{size} twice: raise the size, or leave rare characters to {UNKNOWN} with "
                "--character_coverage=0.9995."
            )
        # A letter at the end of a word is another symbol than within. The trainer numbers symbols
        # in the order of a hash table, and breaks ties by that number, unless they are single
        # characters given to it: those at an end become private characters.
        ends = {letter: chr(0xF0000 + number) for number, letter in enumerate(letters)}
        spelled = {
            word[:-1] + ends[word[-1]]: count
            for word, count in counts.items()
            if all(character in ends for character in word)
        }
        found = bpe_merging.learn(spelled, [*letters, *ends.values()], room)
        shown = str.maketrans({end: f"{letter}{END_OF_WORD}" for letter, end in ends.items()})
        merges = [(left.translate(shown), right.translate(shown)) for left, right in found]
        made = (left + right for left, right in merges)
        return cls((UNKNOWN, *letters, *shown.values(), *made, *ADDED), tuple(merges))

    def text(self, pieces: Sequence[str]) -> str:
        return "".join(piece.replace(END_OF_WORD, " ") for piece in pieces).rstrip(" ")

    def bytes_of(self, token: str) -> bytes:
        return token.removesuffix(END_OF_WORD).encode()

    def continuation(self, token: str) -> bytes:
        return token.replace(END_OF_WORD, " ").encode()


class ByteBPEVocabulary(MergesVocabulary):
    """Tokens and merges of byte-level BPE.

    Settings: `nfc` composes texts (Unicode's NFC); `added_tokens` finds the tokens of `added` whole
    in texts, before they are split into words.

    Raises:
      InputError: a special token or the letter of a byte of UTF-8 is missing, a token is repeated
        or empty, or the merges are not such as BPE learns.
    """

    kind: ClassVar[str] = "byte_bpe"
    forms: ClassVar[tuple[SequenceForm, ...]] = (ROBERTA, GPT2, MODERNBERT)
    usual: ClassVar[TokenizerSettings] = {
        "add_prefix_space": False,
        "framed": True,
        "strip": False,
        "nfc": False,
        "added_tokens": False,
    }
    stored: ClassVar[tuple[str, ...]] = ("kind", "add_prefix_space")
    learned: ClassVar[Mapping[str, bool | None]] = {}

    def __post_init__(self, name: str):
        super().__post_init__(name)
        known = set(self.tokens)
        lacking = [byte for byte, letter in enumerate(BYTE_LETTERS) if letter not in known]
        if not _NEVER.issuperset(lacking):
            letters = [BYTE_LETTERS[byte] for byte in lacking]
            raise InputError(
                f"{name}: lacks {len(letters)} of the 256 letters that stand for bytes "
                f"({' '.join(letters[:8])}); without them not every text has tokens."
            )
        bpe_merging.check(self.tokens, self.merges, BYTE_LETTERS, self.roles.values(), name)

    @classmethod
    def learn(cls, words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> Self:
        """Learns a vocabulary in RoBERTa's order.

        The order is <s>, <pad>, </s>, <unk>, the 256 bytes, the results of the merges, <mask>.
        """
        if not words:
            raise InputError("the corpus has no words to learn a vocabulary from.")
        if coverage < 1:
            raise InputError("--character_coverage: byte-level BPE covers all text; leave it out.")
        least = len(SPECIAL_TOKENS) + len(BYTE_LETTERS)
        if size < least:
            raise InputError(
                f"a vocabulary of {size} has no room for the 256 bytes and the special tokens: "
                f"raise the size to {least} or more."
            )
        counts = {to_letters(word): count for word, count in words.items()}
        merges = bpe_merging.learn(counts, BYTE_LETTERS, size - least)
        made = (left + right for left, right in merges)
        tokens = (START, PAD, SEPARATOR, UNKNOWN, *sorted(BYTE_LETTERS), *made, MASK)
        return cls(tokens, tuple(merges))

    @functools.cached_property
    def added(self) -> tuple[str, ...]:
        """The tokens that are neither special nor the letter of a byte, and that no merge makes."""
        made = {left + right for left, right in self.merges} | set(BYTE_LETTERS)
        return tuple(t for t in self.tokens if t not in made and t not in self.roles.values())

    @property
    def has_all_bytes(self) -> bool:
        """Whether bytes that are not UTF-8 have tokens, too."""
        return set(BYTE_LETTERS) <= set(self.tokens)

    def bytes_of(self, token: str) -> bytes:
        return to_bytes(token)

    def text(self, pieces: Sequence[str]) -> str:
        """Returns the text of pieces, with U+FFFD for bytes that are not UTF-8."""
        # Bytes are joined before they are decoded, as a character may consist of several pieces.
        return "".join(
            "".join(run) if special else b"".join(map(to_bytes, run)).decode(errors="replace")
            for special, run in itertools.groupby(pieces, set(self.roles.values()).__contains__)
        )
