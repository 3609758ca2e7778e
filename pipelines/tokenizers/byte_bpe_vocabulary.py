"""Byte-level BPE vocabularies (GPT-2, RoBERTa, BART): learned from a corpus, or read from files.

A vocabulary has tokens, in the order of ids, and merges, in the order of their ranks. Both spell
bytes by printable letters, as GPT-2 does: printable characters of Latin-1 stand for themselves, the
other 68 bytes are U+0100 and following in order; a space is Ġ, a newline Ċ.
"""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.tokenizers import bpe_files, bpe_merging, byte_bpe_words
from pipelines.tokenizers.bpe_files import Merge
from pipelines.tokenizers.bpe_vocabulary import END_OF_WORD, BPEVocabulary
from pipelines.tokenizers.vocabulary import ChosenSettings, TokenizerSettings, Vocabulary

START, PAD, SEPARATOR, UNKNOWN, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
SPECIAL_TOKENS = (START, PAD, SEPARATOR, UNKNOWN, MASK)
END_OF_TEXT = "<|endoftext|>"  # GPT-2's
_PREFIX_SPACE = "add_prefix_space"


def _byte_letters() -> tuple[str, ...]:
    printed = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(0x100)
    return tuple(chr(byte if byte in printed else next(others)) for byte in range(256))


# The letter of each byte.
BYTE_LETTERS = _byte_letters()
_LETTER_OF = dict(enumerate(BYTE_LETTERS))
_BYTE_OF = {ord(letter): byte for byte, letter in enumerate(BYTE_LETTERS)}


def to_letters(data: bytes) -> str:
    """Spells bytes as letters."""
    return data.decode("latin-1").translate(_LETTER_OF)


def to_bytes(token: str) -> bytes:
    """Returns the bytes that a token spells; tokens with other letters are encoded as UTF-8."""
    if all(ord(letter) in _BYTE_OF for letter in token):
        return token.translate(_BYTE_OF).encode("latin-1")
    return token.encode()


@dataclasses.dataclass(frozen=True)
class ByteBPEVocabulary(Vocabulary):
    """Tokens and merges, in Hugging Face's files or OpenAI's.

    Raises:
      InputError: a special token or the letter of a byte is missing, a token is repeated or empty,
        or the merges are not such as BPE learns.
    """

    tokens: tuple[str, ...]
    merges: tuple[Merge, ...]
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    kind: ClassVar[str] = "byte_bpe"
    files: ClassVar[tuple[str, ...]] = bpe_files.NAMES[0]
    marker_files: ClassVar[tuple[str, ...]] = tuple(first for first, _ in bpe_files.NAMES)
    roles: ClassVar[Mapping[str, str]] = {
        "pad": PAD,
        "unknown": UNKNOWN,
        "start": START,
        "separator": SEPARATOR,
        "mask": MASK,
    }
    setting_types: ClassVar[Mapping[str, type]] = {
        _PREFIX_SPACE: bool,
        "framed": bool,
        "strip": bool,
    }
    separators: ClassVar[int] = 2
    typed: ClassVar[bool] = False
    mask_takes_space: ClassVar[bool] = True

    def __post_init__(self, name: str):
        special = tuple(dict.fromkeys(self.roles.values()))
        _check_tokens(self.tokens, special, name)
        bpe_merging.check(self.tokens, self.merges, BYTE_LETTERS, special, name)

    @classmethod
    def load(cls, path: str) -> Vocabulary:  # type: ignore[override]  # see `of`
        """Reads the two files of a vocabulary; the path is that of `bpe_files.read`."""
        return cls.of(*bpe_files.read(path))

    @staticmethod
    def of(tokens: tuple[str, ...], merges: tuple[Merge, ...], name: str) -> Vocabulary:
        """The vocabulary with these tokens, of the kind that they show.

        The files of GPT have the same names; its tokens have marks at the end of words. GPT-2 has a
        special token that no other has.
        """
        if any(token.endswith(END_OF_WORD) for token in tokens):
            return BPEVocabulary(tokens, merges, name)
        is_gpt2 = END_OF_TEXT in tokens and START not in tokens
        return (GPT2Vocabulary if is_gpt2 else ByteBPEVocabulary)(tokens, merges, name)

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
        counts: collections.Counter[str] = collections.Counter()
        for word, count in words.items():
            counts[to_letters(word)] += count
        merges = bpe_merging.learn(counts, BYTE_LETTERS, size - least)
        made = (left + right for left, right in merges)
        tokens = (START, PAD, SEPARATOR, UNKNOWN, *sorted(BYTE_LETTERS), *made, MASK)
        return cls(tokens, tuple(merges))

    @classmethod
    def learning_settings(cls, chosen: Mapping[str, bool]) -> dict[str, bool | None]:
        _check_settings(chosen, f"--kind={cls.kind}")
        return {}

    @classmethod
    def splitter(cls, settings: Mapping[str, bool | None]) -> Callable[[list[str]], tf.Tensor]:
        return byte_bpe_words.split_words

    def contents(self) -> tuple[bytes, ...]:
        return bpe_files.contents(self.tokens, self.merges)

    def resolve(self, settings: ChosenSettings) -> TokenizerSettings:
        """No prefix space is added unless chosen."""
        chosen: TokenizerSettings = {_PREFIX_SPACE: bool(settings.get(_PREFIX_SPACE))}
        usual: TokenizerSettings = {"framed": self.framed, "strip": False}
        return {"kind": self.kind, **chosen, **self.unusual(settings, usual)}

    def check_settings(self, settings: ChosenSettings, place: str) -> None:
        _check_settings(settings, place)

    def bytes_of(self, token: str) -> bytes:
        return to_bytes(token)

    def text(self, pieces: Sequence[str]) -> str:
        """Returns the text of pieces, with U+FFFD for bytes that are not UTF-8."""
        # Bytes are joined before they are decoded, as a character may consist of several pieces.
        return "".join(
            "".join(run) if special else b"".join(map(to_bytes, run)).decode(errors="replace")
            for special, run in itertools.groupby(pieces, set(self.roles.values()).__contains__)
        )


def _check_settings(settings: ChosenSettings, place: str) -> None:
    for name, value in settings.items():
        if value is not None and name not in (_PREFIX_SPACE, "kind"):
            raise InputError(f"{place}: byte-level BPE does not change text; leave out --{name}.")


class GPT2Vocabulary(ByteBPEVocabulary):
    """The vocabulary of GPT-2, whose only special token is between texts."""

    roles: ClassVar[Mapping[str, str]] = dict.fromkeys(ByteBPEVocabulary.roles, END_OF_TEXT)
    framed: ClassVar[bool] = False
    separators: ClassVar[int] = 1
    typed: ClassVar[bool] = True
    starts_text: ClassVar[bool] = False


def _check_tokens(tokens: Sequence[str], special: Sequence[str], name: str) -> None:
    """Raises InputError if a special token or byte is missing, or a token is repeated or empty."""
    known = set(tokens)
    missing = [token for token in special if token not in known]
    if missing:
        raise InputError(
            f"{name}: lacks {', '.join(missing)}; a vocabulary like RoBERTa's has "
            f"{', '.join(SPECIAL_TOKENS)}, and GPT-2's has {END_OF_TEXT} and none of them."
        )
    if len(known) < len(tokens):
        twice = next(token for token, n in collections.Counter(tokens).items() if n > 1)
        raise InputError(f"{name}: {twice!r} occurs twice; every token must occur once.")
    if "" in known:
        raise InputError(f"{name}: id {tokens.index('')} has an empty token; give every id one.")
    letters = [letter for letter in BYTE_LETTERS if letter not in known]
    if letters:
        raise InputError(
            f"{name}: lacks {len(letters)} of the 256 letters that stand for bytes "
            f"({' '.join(letters[:8])}); without them not every text has tokens."
        )
