"""What a tokenizer is to everybody else: roles of tokens, pieces, and how segments are packed.

A vocabulary is what a tokenizer is made of, as it stands in files; it is light. Its tokenizer runs
as TensorFlow ops, in the offline writer, in tf.data and inside exported graphs alike.
"""

import abc
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import tensorflow as tf

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.tokenizers import packing

_TEXTS = tf.TensorSpec([None], tf.string)

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
    def text(self, pieces: Sequence[str]) -> str:
        """The text of pieces; special tokens as they are."""

    def bytes_of(self, token: str) -> bytes:
        """What a token spells; not all of it is UTF-8 where tokens may be parts of characters."""
        return token.encode()

    def plain(self, pieces: Sequence[str]) -> str:
        """Their text without white space around it."""
        return self.text(pieces).strip()


class Pieces(NamedTuple):
    """The pieces of texts, ragged [batch, (pieces)].

    `ids` int32; `starts` and `ends` int64, the first byte of each piece in its text and the byte
    after its last one; `begins` bool, whether a piece is the first of its word.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    begins: tf.RaggedTensor


class TokenizerFunctions(NamedTuple):
    """Methods of a tokenizer, of string [batch], as functions of TensorFlow.

    Graphs that have the ops of a method instead take a second to be made, each time.
    """

    tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
    tokenize_with_offsets: Callable[
        [tf.Tensor], tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]
    ]
    tokenize_by_word: Callable[[tf.Tensor], Pieces]


class Tokenizer(tf.Module, abc.ABC):
    """Ids of raw text, as ragged tensors; called, it gives the model's inputs.

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
        functions = TokenizerFunctions(
            *(
                tf.function(getattr(self, name), [_TEXTS], autograph=False)
                for name in TokenizerFunctions._fields
            )
        )
        self._functions = lambda: functions
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
    def functions(self) -> TokenizerFunctions:
        """What graphs call, each of which is traced once for all of them."""
        return self._functions()

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

    def plain_ids(self, text: str) -> list[int] | None:
        """The ids that `tokenize` gives, found without it, which is faster for a single text.

        None where that is not known: of text that is not plain (ASCII without control characters),
        and of tokenizers that have no other way.
        """
        return None

    # AutoGraph, which tf.data converts functions by, has nothing to convert and takes seconds.
    @tf.autograph.experimental.do_not_convert
    def __call__(
        self,
        texts: tf.Tensor | Sequence[str],
        pairs: tf.Tensor | Sequence[str] | None = None,
        max_length: int | None = None,
        fixed_length: bool = False,
    ) -> dict[str, tf.Tensor]:
        """The model's inputs of texts, or of pairs of texts; also within tf.data.

        Args:
          texts: string [batch], UTF-8.
          pairs: string [batch], the second text of each; None: single texts.
          max_length: tokens of a sequence, special ones included. What exceeds it is cut from the
            end of the longer text. None: nothing is cut.
          fixed_length: pad to `max_length`; otherwise to the longest sequence of the batch.

        Returns:
          int32 [batch, length] each: `input_word_ids`, `input_mask` (1 for tokens, 0 for padding)
          and `input_type_ids` (segments).

        Raises:
          InputError: the texts are no batch of strings, there are not as many pairs, or
            `max_length` has no room for a token.
        """
        first = _strings(texts, "texts")
        second = None if pairs is None else _strings(pairs, "pairs")
        if second is not None and not first.shape.is_compatible_with(second.shape):
            raise InputError(
                f"{first.shape[0]} texts have {second.shape[0]} pairs; give each text one."
            )
        least = self.overhead[second is not None] + 1
        if max_length is not None and max_length < least:
            raise InputError(f"max_length is {max_length}; it must be {least} or more.")
        if fixed_length and max_length is None:
            raise InputError("fixed_length pads to max_length; give that, too.")
        packed = packing.pack(
            self,
            self.tokenize(first),
            None if second is None else self.tokenize(second),
            tf.int32.max if max_length is None else max_length,
        )
        return packing.padded(self, packed, max_length if fixed_length else None)

    def decode(
        self,
        ids: tf.Tensor | tf.RaggedTensor | np.ndarray | Sequence[Sequence[int]],
        skip_special_tokens: bool = True,
    ) -> list[str]:
        """Texts of ids.

        Byte-level BPE gives the text that was tokenized; WordPiece its pieces, lower-cased where
        the vocabulary is, with blanks between words and signs.

        Args:
          ids: [batch, length].
          skip_special_tokens: whether to leave out padding, unknown, start, separator and mask.

        Raises:
          InputError: the ids are no batch of whole numbers, or the vocabulary lacks one.
        """
        skipped = frozenset(self.special_ids if skip_special_tokens else ())
        tokens = self.vocabulary.tokens
        return [
            self.vocabulary.text([tokens[index] for index in row if index not in skipped])
            for row in _rows(ids, len(tokens))
        ]

    @abc.abstractmethod
    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Returns the ids of the pieces, int32 [batch, (pieces)], of string [batch] texts."""

    def tokenize_running_text(self, sentences: Sequence[str]) -> tf.RaggedTensor:
        """As `tokenize`, of sentences that begin with the white space before them in a text."""
        return self.tokenize(sentences)

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

    def tokenize_words_with_offsets(
        self, words: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """As `tokenize_words`, and tells where each piece stands in its word.

        Args:
          words: string [words], UTF-8.

        Returns:
          As `tokenize_with_offsets`.
        """
        return self.tokenize_with_offsets(words)

    def tokenize_by_word(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Splits texts into words, and each word into the pieces of `tokenize_words`."""
        return self.tokenize_with_begins(texts)

    def tokenize_with_begins(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """The pieces of `tokenize`, and where they stand in the texts, string [batch]."""
        ids, starts, ends = self.tokenize_with_offsets(texts)
        begins = tf.gather(tf.constant(self.begins_word), ids.flat_values)
        return Pieces(ids, starts, ends, ids.with_flat_values(begins))


def _strings(values: tf.Tensor | Sequence[str], name: str) -> tf.Tensor:
    """A batch of texts as a tensor.

    Raises:
      InputError: it is none.
    """
    problem = f"{name} must be a batch of strings, such as ['one text', 'another']"
    if isinstance(values, str | bytes):
        raise InputError(f"{problem}; put the one text in a list.")
    try:
        found = tf.convert_to_tensor(values, tf.string)
    except (TypeError, ValueError) as error:
        raise InputError(f"{problem}.") from error
    if found.shape.rank not in (None, 1):
        raise InputError(f"{problem}; they have {found.shape.rank} axes instead of one.")
    return found


def _rows(ids: Any, size: int) -> list[list[int]]:
    """A batch of ids as lists.

    Raises:
      InputError: it is none, or an id is not below `size`.
    """
    rows = ids.to_list() if isinstance(ids, tf.RaggedTensor) else ids
    found = []
    for row in rows if isinstance(rows, list | tuple) else np.atleast_1d(rows):
        array = np.asarray(row)
        if array.ndim != 1 or not (array.dtype.kind in "iu" or array.size == 0):
            raise InputError("ids must be a batch of sequences of whole numbers, [batch, length].")
        if array.size and not 0 <= array.min() <= array.max() < size:
            raise InputError(f"ids must be from 0 to {size - 1}, the tokens of the vocabulary.")
        found.append(array.tolist())
    return found
