"""Vocabularies: the tokens of a tokenizer, as they are stored in files."""

import abc
import collections
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from absl import logging

from pipelines.common import files, texts
from pipelines.common.errors import InputError

# The settings that decide ids together with the vocabulary, by name; every manifest has them.
TokenizerSettings = dict[str, bool | int | str]
# Settings that a user chose; None or missing where nothing was chosen.
ChosenSettings = Mapping[str, bool | int | str | None]
UNUSED = "[unused line "  # begins the tokens of repeated and empty lines
_BRACKETS = (("[", "]"), ("<", ">"))


class SequenceForm(NamedTuple):
    """The special tokens of a model, and how its sequences are made of segments."""

    model: str  # for errors
    roles: Mapping[str, str]  # special tokens: pad, unknown, start, separator, mask, perhaps end
    separators: int = 1  # between two segments
    framed: bool = True  # whether special tokens begin and end a single text
    typed: bool = True  # whether the second segment has its own token type
    starts_text: bool = True  # whether running text begins with the start token
    mask_takes_space: bool = False  # whether a mask includes the white space before it


def _roles(tokens: str) -> dict[str, str]:
    return dict(zip(("pad", "unknown", "start", "separator", "mask"), tokens.split(), strict=True))


BERT = SequenceForm("BERT", _roles("[PAD] [UNK] [CLS] [SEP] [MASK]"))
ALBERT = SequenceForm("ALBERT", _roles("<pad> <unk> [CLS] [SEP] [MASK]"))
ROBERTA = SequenceForm(
    "RoBERTa", _roles("<pad> <unk> <s> </s> <mask>"), 2, typed=False, mask_takes_space=True
)
MODERNBERT = SequenceForm("ModernBERT", BERT.roles, typed=False, mask_takes_space=True)
GEMMA = SequenceForm(
    "Gemma", _roles("<pad> <unk> <bos> <eos> <mask>"), typed=False, mask_takes_space=True
)
_END_OF_TEXT = dict.fromkeys(BERT.roles, "<|endoftext|>")  # the only special token, between texts
GPT2 = SequenceForm("GPT-2", _END_OF_TEXT, framed=False, starts_text=False)
# Its vocabulary has BERT's tokens, too, of which [UNK] is used.
MPNET = SequenceForm(
    "MPNet", _roles("<pad> [UNK] <s> </s> <mask>"), 2, typed=False, mask_takes_space=True
)
# It has no mask, as its models read from left to right.
_GPT = _roles("_pad_ <unk> _start_ _delimiter_ <unk>") | {"end": "_classify_"}
GPT = SequenceForm("GPT", _GPT, starts_text=False)
ELMO = SequenceForm("ELMo", _roles("<PAD> <UNK> <S> </S> <MASK>"), typed=False)


class Vocabulary(abc.ABC):
    """The tokens of a tokenizer in the order of ids, and everything else that its files hold.

    Vocabularies are equal if their files are.
    """

    tokens: tuple[str, ...]
    kind: ClassVar[str]  # name in `registry.KINDS`
    files: ClassVar[tuple[str, ...]]
    marker_files: ClassVar[tuple[str, ...]]  # files whose presence identifies the vocabulary
    # The one counts that has most of its special tokens in the vocabulary; in a tie, the one whose
    # start token has the lowest id.
    forms: ClassVar[tuple[SequenceForm, ...]]
    usual: ClassVar[TokenizerSettings]  # all settings, with the values they have in most models
    stored: ClassVar[tuple[str, ...]]  # those that are stored with any value, others if unusual
    learned: ClassVar[Mapping[str, bool | None]]  # those that decide the words to learn from
    continuation_prefix: ClassVar[str] = ""  # between a text and the tokens that continue it

    def __len__(self) -> int:
        return len(self.tokens)

    @functools.cached_property
    def form(self) -> SequenceForm:
        """The form of sequences, which the special tokens of the vocabulary show."""
        ids = {token: index for index, token in enumerate(self.tokens)}

        def fit(form: SequenceForm) -> tuple[int, int]:
            return len(ids.keys() & set(form.roles.values())), -ids.get(
                form.roles["start"], len(ids)
            )

        return max(self.forms, key=fit)

    @property
    def roles(self) -> Mapping[str, str]:
        """The special tokens by their roles."""
        return self.form.roles

    def check_special_tokens(self, place: str) -> None:
        """Raises InputError if a special token is missing."""
        missing = dict.fromkeys(token for token in self.roles.values() if token not in self.tokens)
        if missing:
            known = (
                f"like {form.model}'s has {', '.join(dict.fromkeys(form.roles.values()))}"
                for form in self.forms
            )
            raise InputError(
                f"{place}: lacks {', '.join(missing)}; a vocabulary {', and one '.join(known)}."
            )

    def id_of(self, role: str) -> int:
        """Returns the id of the special token of a role; without an end, it is the separator."""
        return self.tokens.index(self.roles.get(role) or self.roles["separator"])

    @property
    def added(self) -> tuple[str, ...]:
        """The tokens that a text has whole or not at all, without the special ones."""
        return ()

    def types(self, segments: int, settings: TokenizerSettings) -> int:
        """Returns the number of token types in sequences of so many segments."""
        return segments if settings.get("typed", self.form.typed) else 1

    @classmethod
    @abc.abstractmethod
    def load(cls, path: str) -> Self:
        """Reads a vocabulary by the path of its folder or (first) file; raises InputError."""

    @classmethod
    @abc.abstractmethod
    def learn(cls, words: collections.Counter[bytes], size: int, coverage: float = 1.0) -> Self:
        """Learns a vocabulary; equal counts give equal vocabularies.

        Args:
          words: number of occurrences of each word that `TokenizerKind.split_words` yields.
          size: maximum number of tokens, special tokens included. There are fewer if the text does
            not have enough pieces or words.
          coverage: fraction of the characters of the text, counted as often as they occur, that
            get a token; byte-level BPE and whole words accept 1 only.

        Raises:
          InputError: there are no words, or the size is too small.
        """

    @classmethod
    def learning_settings(cls, chosen: Mapping[str, bool]) -> dict[str, bool | None]:
        """Returns all settings that decide the words to learn from, given the chosen ones.

        Raises:
          InputError: a setting does not suit this kind of vocabulary.
        """
        cls._check_names(chosen, f"--kind={cls.kind}")
        return {**cls.learned, **chosen}

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

    def complete(self, chosen: ChosenSettings) -> TokenizerSettings:
        """Returns all settings of the tokenizer; the vocabulary decides those not chosen."""
        given = {k: v for k, v in chosen.items() if k in self.usual and v is not None}
        return self.usual | self._decided(given) | given

    def resolve(self, chosen: ChosenSettings) -> TokenizerSettings:
        """Returns the settings as files store them: without those that have the usual value."""
        found, usual = self.complete(chosen), self.complete({})
        kept = {k: v for k, v in found.items() if k in self.stored or v != usual[k]}
        return {"kind": self.kind, **kept} if "kind" in self.stored else kept

    def _decided(self, chosen: TokenizerSettings) -> TokenizerSettings:
        """Returns values of settings that follow from the vocabulary and the chosen ones."""
        return {k: getattr(self.form, k) for k in ("framed", "typed") if k in self.usual}

    def check_settings(self, settings: ChosenSettings, place: str) -> None:
        """Raises InputError if chosen settings do not suit the vocabulary at `place`."""
        self._check_names(settings, place)

    @classmethod
    def _check_names(cls, settings: ChosenSettings, place: str) -> None:
        for name, value in settings.items():
            if value is not None and name not in (*cls.usual, "kind"):
                raise InputError(
                    f"{place}: a tokenizer of kind {cls.kind} does not change text; leave out "
                    f"--{name}."
                )

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

    usual: ClassVar[TokenizerSettings] = {"lower_case": True, "strip_accents": True}
    stored: ClassVar[tuple[str, ...]] = ("lower_case", "strip_accents")
    learned: ClassVar[Mapping[str, bool | None]] = {"lower_case": True, "strip_accents": None}

    @functools.cached_property
    def is_cased(self) -> bool:
        """Whether a token other than the special ones ([MASK], <S>) has a capital letter."""
        return any(
            token != token.lower() and (token[0], token[-1]) not in _BRACKETS
            for token in self.tokens
        )

    def _decided(self, chosen: TokenizerSettings) -> TokenizerSettings:
        """Text is lower-cased if no token has capitals; accents are stripped if it is."""
        lower_case = chosen.get("lower_case", not self.is_cased)
        cases: TokenizerSettings = {"lower_case": lower_case, "strip_accents": lower_case}
        return super()._decided(chosen) | cases

    def check_settings(self, settings: ChosenSettings, place: str) -> None:
        super().check_settings(settings, place)
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
    renamed = {index: f"{UNUSED}{index + 1}]" for index in unused}
    return tuple(renamed.get(index, token) for index, token in enumerate(tokens))


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
