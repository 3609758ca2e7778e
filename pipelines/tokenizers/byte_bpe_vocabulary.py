"""Byte-level BPE vocabularies (GPT-2, RoBERTa, BART): learned from a corpus, or read from files.

A vocabulary has tokens, in the order of ids, and merges, in the order of their ranks. Both spell
bytes by printable letters, as GPT-2 does: printable characters of Latin-1 stand for themselves, the
other 68 bytes are U+0100 and following in order; a space is Ġ, a newline Ċ.
"""

import collections
import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

import tensorflow as tf
import tokenizers

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import byte_bpe_words
from pipelines.tokenizers.vocabulary import (
    ChosenSettings,
    TokenizerSettings,
    Vocabulary,
    read_lines,
    repeat_words,
)

Merge = tuple[str, str]

START, PAD, SEPARATOR, UNKNOWN, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
SPECIAL_TOKENS = (START, PAD, SEPARATOR, UNKNOWN, MASK)
_VERSION = "#version: 0.2"
_PREFIX_SPACE = "add_prefix_space"
# Names of the files: Hugging Face's, then OpenAI's.
_NAMES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))


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
    files: ClassVar[tuple[str, ...]] = _NAMES[0]
    marker_files: ClassVar[tuple[str, ...]] = tuple(first for first, _ in _NAMES)
    roles: ClassVar[Mapping[str, str]] = {
        "pad": PAD,
        "unknown": UNKNOWN,
        "start": START,
        "separator": SEPARATOR,
        "mask": MASK,
    }
    setting_names: ClassVar[frozenset[str]] = frozenset([_PREFIX_SPACE])
    separators: ClassVar[int] = 2
    typed: ClassVar[bool] = False
    mask_takes_space: ClassVar[bool] = True

    def __post_init__(self, name: str):
        _check_tokens(self.tokens, name)
        _check_merges(self.tokens, self.merges, name)

    @classmethod
    def load(cls, path: str) -> Self:
        """Reads vocab.json and merges.txt (Hugging Face), or encoder.json and vocab.bpe (OpenAI).

        Args:
          path: the folder, or the first of the two files, whose name may have a prefix
            ("roberta-base-vocab.json" goes with "roberta-base-merges.txt").
        """
        vocabulary_path, merges_path = _find(path)
        ids = json_files.read(vocabulary_path, dict[str, int])
        tokens = sorted(ids, key=ids.__getitem__)
        for index, token in enumerate(tokens):
            if ids[token] != index:
                raise InputError(
                    f"{vocabulary_path}: {token!r} has the id {ids[token]} instead of {index}; "
                    "ids count from 0, without gaps, each once."
                )
        return cls(tuple(tokens), tuple(_read_merges(merges_path)), vocabulary_path)

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
        merges = _train(counts, size - least)
        made = (left + right for left, right in merges)
        tokens = (START, PAD, SEPARATOR, UNKNOWN, *sorted(BYTE_LETTERS), *made, MASK)
        return cls(tokens, tuple(merges))

    @classmethod
    def learning_settings(cls, chosen: Mapping[str, bool]) -> dict[str, bool | None]:
        return {}

    @classmethod
    def splitter(cls, settings: Mapping[str, bool | None]) -> Callable[[list[str]], tf.Tensor]:
        return byte_bpe_words.split_words

    def contents(self) -> tuple[bytes, ...]:
        ids = {token: index for index, token in enumerate(self.tokens)}
        lines = (_VERSION, *(f"{left} {right}" for left, right in self.merges))
        vocabulary = json.dumps(ids, ensure_ascii=False, separators=(",", ":"))
        return vocabulary.encode(), "".join(f"{line}\n" for line in lines).encode()

    def resolve(self, settings: ChosenSettings) -> TokenizerSettings:
        """No prefix space is added unless chosen."""
        return {"kind": self.kind, _PREFIX_SPACE: bool(settings.get(_PREFIX_SPACE))}

    def check_settings(self, settings: ChosenSettings, place: str) -> None:
        for name, value in settings.items():
            if value is not None and name not in (_PREFIX_SPACE, "kind"):
                raise InputError(
                    f"{place}: byte-level BPE does not change text; leave out --{name}."
                )

    def bytes_of(self, token: str) -> bytes:
        return to_bytes(token)

    def text(self, pieces: Sequence[str]) -> str:
        """Returns the text of pieces, with U+FFFD for bytes that are not UTF-8."""
        # Bytes are joined before they are decoded, as a character may consist of several pieces.
        return "".join(
            "".join(run) if special else b"".join(map(to_bytes, run)).decode(errors="replace")
            for special, run in itertools.groupby(pieces, SPECIAL_TOKENS.__contains__)
        )


def _find(path: str) -> tuple[str, str]:
    if files.gfile.isdir(path):
        folder = path.rstrip("/")
        for names in _NAMES:
            if files.gfile.exists(f"{folder}/{names[0]}"):
                return f"{folder}/{names[0]}", f"{folder}/{names[1]}"
    for first, second in _NAMES:
        if path.endswith(first):
            return path, path.removesuffix(first) + second
    pairs = " or ".join(f"{first} and {second}" for first, second in _NAMES)
    raise InputError(f"{path}: no byte-level BPE vocabulary; it is a folder with {pairs}.")


def _read_merges(path: str) -> list[Merge]:
    merges = []
    for number, line in enumerate(read_lines(path, "utf-8-sig"), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise InputError(f"{path}: line {number} is not two parts with a space between.")
        merges.append((parts[0], parts[1]))
    return merges


def _check_tokens(tokens: Sequence[str], name: str) -> None:
    """Raises InputError if a special token or byte is missing, or a token is repeated or empty."""
    known = set(tokens)
    missing = [token for token in SPECIAL_TOKENS if token not in known]
    if missing:
        raise InputError(
            f"{name}: lacks {', '.join(missing)}; a vocabulary like RoBERTa's has "
            f"{', '.join(SPECIAL_TOKENS)} (GPT-2's own has none of them)."
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


def _check_merges(tokens: Sequence[str], merges: Sequence[Merge], name: str) -> None:
    """Checks that the merges are such as BPE learns, on which the tokenizer relies (`byte_bpe`).

    Each merge joins two tokens made before it, and the merges before it split its result into
    exactly these two. This holds in every learned vocabulary: a merge joins neighbours in a word.

    Raises:
      InputError: they are not; the merge is named.
    """
    known = set(tokens)
    made = set(BYTE_LETTERS)
    for number, (left, right) in enumerate(merges, 1):
        token = left + right
        where = f"{name}: merge {number} ({left} {right})"
        for part in (left, right):
            if part not in made:
                raise InputError(f"{where}: no merge before it makes {part!r}; is one missing?")
        if token not in known:
            raise InputError(f"{where}: the vocabulary lacks {token!r}; do both belong together?")
        if token in SPECIAL_TOKENS:
            raise InputError(f"{where}: {token!r} is a special token, which no text may give.")
        if token in made:
            raise InputError(f"{where}: a merge before it makes {token!r}, too; leave one out.")
        made.add(token)
    ids = {token: index for index, token in enumerate(tokens)}
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE(ids, list(merges)))
    whole = bpe.encode_batch_fast([left + right for left, right in merges])
    for number, (found, (left, right)) in enumerate(zip(whole, merges, strict=True), 1):
        if len(found) != 1:
            token = left + right
            raise InputError(
                f"{name}: merge {number} ({left} {right}): the merges make "
                f"{' '.join(bpe.encode(token).tokens)} of {token!r}; they were not learned as BPE."
            )


def _train(counts: collections.Counter[str], max_merges: int) -> list[Merge]:
    """Returns the merges that the tokenizers library finds, in its order."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()  # no letter is white space
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=len(BYTE_LETTERS) + max_merges,
        min_frequency=2,
        initial_alphabet=list(BYTE_LETTERS),
        show_progress=False,
    )
    bpe.train_from_iterator(repeat_words(sorted(counts.items())), trainer)
    return [(left, right) for left, right in json.loads(bpe.to_str())["model"]["merges"]]
