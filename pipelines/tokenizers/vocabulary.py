"""Vocabularies: the tokens of a tokenizer, as they are stored in files."""

import abc
import collections
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf
from absl import logging

from pipelines.common import files, texts
from pipelines.common.errors import InputError

# The settings that decide ids together with the vocabulary, by name; every manifest has them.
TokenizerSettings = dict[str, bool | int | str]
# Settings that a user chose; None or missing where nothing was chosen.
ChosenSettings = Mapping[str, bool | int | str | None]
UNUSED = "[unused line "  # begins the tokens of repeated and empty lines


class Vocabulary(abc.ABC):
    """The tokens of a tokenizer in the order of ids, and everything else that its files hold.

    Vocabularies are equal if their files are.
    """

    tokens: tuple[str, ...]
    kind: ClassVar[str]  # name in `registry.KINDS`
    files: ClassVar[tuple[str, ...]]
    marker_files: ClassVar[tuple[str, ...]]  # files whose presence identifies the vocabulary
    setting_types: ClassVar[Mapping[str, type]]  # of the tokenizer's settings, bool or int
    roles: ClassVar[Mapping[str, str]]  # special tokens: pad, unknown, start, separator, mask, end
    separators: ClassVar[int] = 1  # number of separators between two segments
    framed: ClassVar[bool] = True  # whether special tokens begin and end a single text
    typed: ClassVar[bool] = True  # whether the second segment has its own token type
    mask_takes_space: ClassVar[bool] = False  # whether a mask includes the white space before it
    continuation_prefix: ClassVar[str] = ""  # between a text and the tokens that continue it
    starts_text: ClassVar[bool] = True  # whether running text begins with the start token

    def __len__(self) -> int:
        return len(self.tokens)

    def types(self, segments: int, settings: TokenizerSettings) -> int:
        """Returns the number of token types in sequences of so many segments."""
        return segments if settings.get("typed", self.typed) else 1

    @staticmethod
    def unusual(settings: ChosenSettings, usual: TokenizerSettings) -> TokenizerSettings:
        """Returns the chosen settings among the usual ones that differ from those."""
        chosen = {name: settings.get(name) for name in usual}
        return {k: v for k, v in chosen.items() if v is not None and v != usual[k]}

    def id_of(self, role: str) -> int:
        """Returns the id of the special token of a role; without an end, it is the separator."""
        return self.tokens.index(self.roles.get(role) or self.roles["separator"])

    @classmethod
    @abc.abstractmethod
    def load(cls, path: str) -> Self:
        """Reads a vocabulary by the path of its folder or (first) file; raises InputError."""

    @classmethod
    @abc.abstractmethod
    def learn(cls, words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> Self:
        """Learns a vocabulary; equal counts give equal vocabularies.

        Args:
          words: number of occurrences of each word that the splitter yields.
          size: maximum number of tokens, special tokens included. There are fewer if the text does
            not have enough pieces or words.
          coverage: fraction of the characters of the text, counted as often as they occur, that
            get a token; only WordPiece accepts a value below 1.

        Raises:
          InputError: there are no words, or the size is too small.
        """

    @classmethod
    @abc.abstractmethod
    def learning_settings(cls, chosen: Mapping[str, bool]) -> dict[str, bool | None]:
        """Returns all settings that decide the words to learn from, given the chosen ones.

        Raises:
          InputError: a setting does not suit this kind of vocabulary.
        """

    @classmethod
    @abc.abstractmethod
    def splitter(cls, settings: Mapping[str, bool | None]) -> Callable[[list[str]], tf.Tensor]:
        """Returns a function that can be pickled, from texts to their words, string [words]."""

    def save(self, folder: str, mark: str = "") -> tuple[str, ...]:
        """Writes the files, with `mark` before the name of each; returns their names."""
        names = tuple(f"{mark}{name}" for name in self.files)
        for name, data in zip(names, self.contents(), strict=True):
            files.write_bytes(f"{folder}/{name}", data)
        return names

    @abc.abstractmethod
    def contents(self) -> tuple[bytes, ...]:
        """Returns the contents of `files`."""

    def write(self, path: str) -> None:
        """Writes the vocabulary to a path that the user named: here, a folder."""
        with files.folder_aside(path) as partial:
            self.save(partial)

    @property
    def sha256(self) -> str:
        """SHA-256 checksum of the contents of all files, in hexadecimal."""
        return hashlib.sha256(b"".join(self.contents())).hexdigest()

    @abc.abstractmethod
    def resolve(self, settings: ChosenSettings) -> TokenizerSettings:
        """Returns all settings of the tokenizer; the vocabulary decides those not chosen."""

    @abc.abstractmethod
    def check_settings(self, settings: ChosenSettings, place: str) -> None:
        """Raises InputError if chosen settings do not suit the vocabulary at `place`."""

    @abc.abstractmethod
    def text(self, pieces: Sequence[str]) -> str:
        """Returns the text of pieces; special tokens appear unchanged."""

    def bytes_of(self, token: str) -> bytes:
        """Returns the bytes that a token stands for, which may be a part of a UTF-8 character."""
        return token.encode()

    def continuation(self, token: str) -> bytes:
        """Returns the bytes that a token adds to a text that it continues."""
        return self.bytes_of(token)

    def plain(self, pieces: Sequence[str]) -> str:
        """Returns the text of pieces without surrounding white space."""
        return self.text(pieces).strip()


class CasedVocabulary(Vocabulary):
    """A vocabulary for text that may be lower-cased, and stripped of accents."""

    setting_types: ClassVar[Mapping[str, type]] = {"lower_case": bool, "strip_accents": bool}

    @property
    @abc.abstractmethod
    def is_cased(self) -> bool:
        """Whether a token other than the special ones has a capital letter."""

    def check_settings(self, settings: ChosenSettings, place: str) -> None:
        if settings.get("lower_case") and self.is_cased:
            raise InputError(
                f"{place}: the vocabulary has capital letters, which lower-cased text never has; "
                "use --lower_case=false."
            )


def read_lines(path: str) -> list[str]:
    """Returns the lines of a vocabulary file; raises InputError if it is not UTF-8."""
    try:
        lines = files.read_whole(path).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        place = f"{path}: byte {error.start}"
        raise InputError(f"{place} is not UTF-8; {texts.TO_UTF8}.") from error
    return lines if lines[-1] else lines[:-1]


def distinct(tokens: Sequence[str], place: str) -> tuple[str, ...]:
    """Returns the tokens of a file by their ids, each different; of equal ones the last counts.

    Those before it, and empty ones, become tokens that no text has, which is logged.
    """
    last = {token: index for index, token in enumerate(tokens)}
    unused = [index for index, token in enumerate(tokens) if not token or last[token] != index]
    if not unused:
        return tuple(tokens)
    logging.warning(
        "%s: %s empty or repeated by a later line, which counts: %s.",
        *(place, "lines are" if len(unused) > 1 else "a line is"),
        texts.listed([f"{tokens[index]!r} on line {index + 1}" for index in unused], 5),
    )
    found = list(tokens)
    for index in unused:
        found[index] = f"{UNUSED}{index + 1}]"
    return tuple(found)


def check_ids(ids: Mapping[str, Any], place: str) -> None:
    """Raises InputError if the id of a token is not a whole number."""
    for token, number in ids.items():
        if type(number) is not int:
            raise InputError(f"{place}: the id of {token!r} is {number!r}, which is not a number.")


def in_order(ids: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """The tokens in the order of their ids; an InputError if the ids are not 0, 1, 2, ..."""
    check_ids(ids, place)
    tokens = sorted(ids, key=ids.__getitem__)
    for index, token in enumerate(tokens):
        if ids[token] != index:
            raise InputError(
                f"{place}: {token!r} has the id {ids[token]} instead of {index}; "
                "ids count from 0, without gaps, each once."
            )
    return tuple(tokens)


def repeat_words(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yields each word as often as it was counted, in strings of bounded length, for a trainer."""
    for word, count in counts:
        while count > 0:
            yield " ".join([word] * min(count, 1000))
            count -= 1000
