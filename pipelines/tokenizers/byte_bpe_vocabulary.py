"""Byte-level BPE vocabularies (GPT-2, RoBERTa, BART): learned from a corpus, or brought as files.

A vocabulary is its tokens, in the order of ids, and its merges, in the order of
their ranks. Both spell bytes as GPT-2 does, each as a letter that can be printed:
those of Latin-1 that can be stand for themselves, the other 68 bytes, in order,
are U+0100 and up; a space is Ġ, a newline Ċ.
"""

import collections
import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import tokenizers

from pipelines.common import files, json_files, texts
from pipelines.common.errors import InputError
from pipelines.tokenizers.base import Settings, Vocabulary

Merge = tuple[str, str]

START, PAD, SEPARATOR, UNKNOWN, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
SPECIAL_TOKENS = (START, PAD, SEPARATOR, UNKNOWN, MASK)
_VERSION = "#version: 0.2"
_PREFIX_SPACE = "add_prefix_space"
# How a vocabulary's files are called: Hugging Face's names, then OpenAI's.
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
    """The bytes that a token spells; a token with other letters spells itself in UTF-8."""
    if all(ord(letter) in _BYTE_OF for letter in token):
        return token.translate(_BYTE_OF).encode("latin-1")
    return token.encode()


@dataclasses.dataclass(frozen=True)
class ByteBPEVocabulary(Vocabulary):
    """Tokens and merges, in the files that Hugging Face has, or those of OpenAI.

    Raises:
      InputError: `check` fails.
    """

    tokens: tuple[str, ...]
    merges: tuple[Merge, ...]
    name: dataclasses.InitVar[str] = "the vocabulary"  # for errors

    kind: ClassVar[str] = "byte_bpe"
    files: ClassVar[tuple[str, ...]] = _NAMES[0]
    signs: ClassVar[tuple[str, ...]] = tuple(first for first, _ in _NAMES)
    roles: ClassVar[Mapping[str, str]] = {
        "pad": PAD,
        "unknown": UNKNOWN,
        "start": START,
        "separator": SEPARATOR,
        "mask": MASK,
    }

    separators: ClassVar[int] = 2
    typed: ClassVar[bool] = False
    mask_takes_space: ClassVar[bool] = True

    def __post_init__(self, name: str):
        check(self.tokens, self.merges, name)

    @classmethod
    def load(cls, path: str) -> "ByteBPEVocabulary":
        """Reads vocab.json and merges.txt (Hugging Face), or encoder.json and vocab.bpe (OpenAI).

        Args:
          path: their folder, or the first of the two, whose name may have more in front
            ("roberta-base-vocab.json" goes with "roberta-base-merges.txt").

        Raises:
          InputError: a file is missing or is no such file, or `check` fails.
        """
        vocabulary_path, merges_path = _find(path)
        ids = json_files.read(vocabulary_path, dict[str, int])
        tokens = sorted(ids, key=ids.__getitem__)
        for index, token in enumerate(tokens):
            if ids[token] != index:
                raise InputError(
                    f"{vocabulary_path}: {token!r} has the id {ids[token]} where {index} is due; "
                    "ids count from 0, without gaps, each once."
                )
        return cls(tuple(tokens), tuple(_read_merges(merges_path)), vocabulary_path)

    def texts(self) -> tuple[str, ...]:
        """As Hugging Face writes and reads them."""
        ids = {token: index for index, token in enumerate(self.tokens)}
        lines = (_VERSION, *(f"{left} {right}" for left, right in self.merges))
        vocabulary = json.dumps(ids, ensure_ascii=False, separators=(",", ":"))
        return vocabulary, "".join(f"{line}\n" for line in lines)

    def resolve(self, settings: Mapping[str, bool | str | None]) -> Settings:
        """`add_prefix_space`: not, unless it was chosen."""
        chosen = bool(settings.get(_PREFIX_SPACE))
        return {"kind": self.kind, _PREFIX_SPACE: chosen}

    def check_settings(self, settings: Mapping[str, bool | str | None], place: str) -> None:
        """Raises InputError where a setting is another kind's."""
        for name, value in settings.items():
            if value is not None and name not in (_PREFIX_SPACE, "kind"):
                raise InputError(
                    f"{place}: byte-level BPE takes text as it is; leave out --{name}."
                )

    def bytes_of(self, token: str) -> bytes:
        """The bytes that its letters stand for."""
        return to_bytes(token)

    def text(self, pieces: Sequence[str]) -> str:
        """The text that pieces spell; special tokens as they are, U+FFFD for what is no UTF-8."""
        # Bytes are joined before they are decoded: a character may have several pieces.
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
    try:
        lines = files.read_whole(path).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        place = f"{path}: byte {error.start}"
        raise InputError(f"{place} is not UTF-8; {texts.TO_UTF8}.") from error
    merges = []
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise InputError(f"{path}: line {number} is not two parts with a space between.")
        merges.append((parts[0], parts[1]))
    return merges


def check(tokens: Sequence[str], merges: Sequence[Merge], name: str) -> None:
    """Checks that a vocabulary can be used.

    Raises:
      InputError: a special token or a byte is missing, a token stands twice, or a merge is
        none of byte-level BPE as it is learned (see `_check_merges`).
    """
    known = set(tokens)
    missing = [token for token in SPECIAL_TOKENS if token not in known]
    if missing:
        raise InputError(
            f"{name}: lacks {', '.join(missing)}; a vocabulary like RoBERTa's has "
            f"{', '.join(SPECIAL_TOKENS)} (GPT-2's own has none of them)."
        )
    if len(known) < len(tokens):
        twice = next(token for token, n in collections.Counter(tokens).items() if n > 1)
        raise InputError(f"{name}: {twice!r} stands there twice; every token must stand once.")
    if "" in known:
        raise InputError(f"{name}: id {tokens.index('')} has an empty token; give every id one.")
    letters = [letter for letter in BYTE_LETTERS if letter not in known]
    if letters:
        raise InputError(
            f"{name}: lacks {len(letters)} of the 256 letters that stand for bytes "
            f"({' '.join(letters[:8])}); without them not every text has tokens."
        )
    _check_merges(known, tokens, merges, name)


def _check_merges(
    known: set[str], tokens: Sequence[str], merges: Sequence[Merge], name: str
) -> None:
    """Checks that merges are such as BPE learns.

    Each joins two tokens that are there before it, and the merges before it make just these
    two of the token that it makes. So it is in every vocabulary that was learned: it joined
    what stood side by side in a word. The tokenizer relies on it (see `byte_bpe`).
    """
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


def learn(words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> ByteBPEVocabulary:
    """Learns a vocabulary from words and their counts.

    The ids are in RoBERTa's order: <s>, <pad>, </s>, <unk>, the 256 bytes, what the merges
    make, <mask>. The same counts give the same vocabulary.

    Args:
      words: counts of words, as `byte_bpe_words.split_words` gives them.
      size: the most tokens to learn, special ones included; there are fewer if the corpus
        has not as many pairs that occur twice.
      coverage: 1.0; every byte has a token.

    Raises:
      InputError: there are no words, or `size` has no room for bytes and special tokens.
    """
    if not words:
        raise InputError("the corpus has no words to learn a vocabulary from.")
    if coverage < 1:
        raise InputError("--character_coverage: byte-level BPE covers everything; leave it out.")
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
    letters = sorted(BYTE_LETTERS)
    tokens = (START, PAD, SEPARATOR, UNKNOWN, *letters, *made, MASK)
    return ByteBPEVocabulary(tokens, tuple(merges))


def _train(counts: collections.Counter[str], most: int) -> list[Merge]:
    """The merges of words, found by the tokenizers library, in its order."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()  # no letter is white space
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=len(BYTE_LETTERS) + most,
        min_frequency=2,
        initial_alphabet=list(BYTE_LETTERS),
        show_progress=False,
    )
    bpe.train_from_iterator(_repeat_words(sorted(counts.items())), trainer)
    return [(left, right) for left, right in json.loads(bpe.to_str())["model"]["merges"]]


def _repeat_words(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Gives each word as often as it was counted, in strings of bounded length."""
    for word, count in counts:
        while count > 0:
            yield " ".join([word] * min(count, 1000))
            count -= 1000
