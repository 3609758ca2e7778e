"""What a tokenizer is to everybody else: roles of tokens, pieces, and how segments are packed.

A vocabulary is what a tokenizer is made of, as it stands in files; it is light. Its tokenizer runs
as TensorFlow ops, in the offline writer, in tf.data and inside exported graphs alike.
"""

import abc
import hashlib
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
import tensorflow as tf

from pipelines.common import files

# What decides ids beside the vocabulary, by name; kept in every manifest.
Settings = dict[str, bool | str]


class Vocabulary(abc.ABC):
    """The tokens of a tokenizer, in the order of ids, and all else that its files hold.

    Two are equal if their files are.

    Attributes:
      tokens: text by id.
      kind: the tokenizer's name in `registry.KINDS`.
      files: names of its files.
      signs: names of files of which one tells that such a vocabulary is there.
      roles: the special tokens: pad, unknown, start, separator and mask.
      separators: how many separators stand between two segments.
      typed: whether the second segment has another type than the first.
      mask_takes_space: whether white space before a mask in a text belongs to the mask.
    """

    tokens: tuple[str, ...]
    kind: ClassVar[str]
    files: ClassVar[tuple[str, ...]]
    signs: ClassVar[tuple[str, ...]]
    roles: ClassVar[Mapping[str, str]]
    separators: ClassVar[int] = 1
    typed: ClassVar[bool] = True
    mask_takes_space: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.tokens)

    def types(self, segments: int) -> int:
        """How many types the tokens of so many segments have."""
        return segments if self.typed else 1

    def id_of(self, role: str) -> int:
        """The id of the special token that has a role."""
        return self.tokens.index(self.roles[role])

    @classmethod
    def claims(cls, path: str) -> bool:
        """Whether the name of a file tells that it is such a vocabulary."""
        return path.endswith(cls.signs)

    @classmethod
    @abc.abstractmethod
    def load(cls, path: str) -> Self:
        """Reads the files of a folder, or those that one of them belongs to.

        Raises:
          InputError: one is missing, damaged, or no such vocabulary.
        """

    def save(self, folder: str, mark: str = "") -> tuple[str, ...]:
        """Writes `files`, a mark before the endings of their names; returns these."""
        names = tuple(
            f"{stem}{mark}.{end}" for stem, _, end in (f.rpartition(".") for f in self.files)
        )
        for name, text in zip(names, self.texts(), strict=True):
            files.write_text(f"{folder}/{name}", text)
        return names

    @abc.abstractmethod
    def texts(self) -> tuple[str, ...]:
        """What `files` hold."""

    def write(self, path: str) -> None:
        """Writes it where a user wants it: as a folder."""
        with files.folder_aside(path) as partial:
            self.save(partial)

    @property
    def sha256(self) -> str:
        """A checksum of what `save` writes, in hexadecimal; of one file, that of the file."""
        return hashlib.sha256("".join(self.texts()).encode()).hexdigest()

    @abc.abstractmethod
    def resolve(self, settings: Mapping[str, bool | str | None]) -> Settings:
        """All settings of the tokenizer, with what the vocabulary tells in place of None."""

    @abc.abstractmethod
    def check_settings(self, settings: Mapping[str, bool | str | None], place: str) -> None:
        """Checks that a user's choice suits the vocabulary.

        Args:
          settings: chosen; None where nothing was.
          place: where the vocabulary is from.

        Raises:
          InputError: it does not; or the tokenizer has no such setting.
        """

    @abc.abstractmethod
    def plain(self, pieces: Sequence[str]) -> str:
        """A readable text of pieces."""


class Pieces(NamedTuple):
    """The pieces of texts, ragged [batch, (pieces)].

    `ids` int32; `starts` and `ends` int64, the first byte of each piece in its text and the byte
    after its last one; `begins` bool, whether a piece is the first of its word.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    begins: tf.RaggedTensor


class Tokenizer(tf.Module, abc.ABC):
    """Ids of raw text, as ragged tensors.

    Args:
      vocabulary: the tokens.
      settings: resolved.

    Attributes:
      pad_id, unknown_id, start_id, separator_id, mask_id: ids of special tokens by role.
      begins_word: bool [tokens], whether a piece begins a word wherever it stands.
      separators, typed: as those of the vocabulary.
    """

    begins_word: np.ndarray

    def __init__(self, vocabulary: Vocabulary, settings: Settings):
        super().__init__(name=f"{vocabulary.kind}_tokenizer")
        # Functions hide what is in them: tf.Module would track, and wrap, containers.
        self._vocabulary = lambda: vocabulary
        self._settings = lambda: dict(settings)
        self.separators, self.typed = vocabulary.separators, vocabulary.typed
        self.pad_id = vocabulary.id_of("pad")
        self.unknown_id = vocabulary.id_of("unknown")
        self.start_id = vocabulary.id_of("start")
        self.separator_id = vocabulary.id_of("separator")
        self.mask_id = vocabulary.id_of("mask")

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens."""
        return self._vocabulary()

    @property
    def settings(self) -> Settings:
        """What, beside the vocabulary, decides the ids."""
        return self._settings()

    @property
    def mask_token(self) -> str:
        """What stands for a mask in a text."""
        return self.vocabulary.roles["mask"]

    @property
    def special_ids(self) -> tuple[int, ...]:
        """Those of all special tokens: pad, unknown, start, separator and mask."""
        return (self.pad_id, self.unknown_id, self.start_id, self.separator_id, self.mask_id)

    @property
    def overhead(self) -> tuple[int, int]:
        """Special tokens of a packed sequence of one segment, and of two."""
        return 2, 2 + self.separators

    @abc.abstractmethod
    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Returns the ids of the pieces, int32 [batch, (pieces)], of string [batch] texts."""

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """As `tokenize`, of words as they stand within a text, string [words]."""
        return self.tokenize(words)

    @abc.abstractmethod
    def tokenize_with_offsets(
        self, texts: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes, and tells where each piece stands in the original text.

        Args:
          texts: string [batch], UTF-8.

        Returns:
          Three ragged tensors [batch, (pieces)]: ids int32, first byte int64 and
          end byte (exclusive) int64.
        """

    def tokenize_by_word(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Splits texts into words, and each word into the pieces of `tokenize_words`."""
        ids, starts, ends = self.tokenize_with_offsets(texts)
        begins = tf.gather(tf.constant(self.begins_word), ids.flat_values)
        return Pieces(ids, starts, ends, ids.with_flat_values(begins))
