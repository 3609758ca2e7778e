"""The interface of tokenizers: ids and pieces of texts, as TensorFlow operations.

The same tokenizer runs in the example writer, in tf.data and in exported graphs, so that training
and serving cannot differ.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.tokenizers import packing
from pipelines.tokenizers.settings import Keep
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary

# Ids int32, start and end byte offsets int64, each [batch, (pieces)].
IdsWithOffsets = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]
# Ids int32 [ids], and row splits int64 [batch + 1].
Ids = tuple[np.ndarray, np.ndarray]


class Pieces(NamedTuple):
    """The pieces of texts, as ragged tensors [batch, (pieces)]."""

    ids: tf.RaggedTensor  # int32
    starts: tf.RaggedTensor  # int64, offset of the first byte of each piece in its text
    ends: tf.RaggedTensor  # int64, offset of the byte after the last one
    begins: tf.RaggedTensor  # bool, whether a piece is the first of its word


class TokenizerFunctions(NamedTuple):
    """Methods of a tokenizer as TensorFlow functions of string [batch].

    A graph that calls them instead of repeating their operations is smaller, and built faster.
    """

    tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
    tokenize_with_offsets: Callable[[tf.Tensor], IdsWithOffsets]
    tokenize_by_word: Callable[[tf.Tensor], Pieces]


class Tokenizer(tf.Module, abc.ABC):
    """Turns texts into ids, as ragged tensors; calling it gives the inputs of a model.

    Args:
      vocabulary: the tokens.
      settings: settings that were chosen; the vocabulary decides the others.

    Attributes:
      vocabulary: the tokens.
      pad_id, unknown_id, start_id, separator_id, end_id, mask_id: ids of the special tokens; the
        end is that of a packed sequence, which is a separator for most vocabularies.
      begins_word: bool [tokens], whether a piece begins a word wherever it occurs.
      separators: number of separators between two segments.
      framed: whether special tokens begin and end a sequence of one segment, too.
      typed: whether the second segment has its own token type.
    """

    begins_word: np.ndarray

    def __init__(self, vocabulary: Vocabulary, **settings: bool | int | str | None):
        super().__init__(name=f"{vocabulary.kind}_tokenizer")
        self.vocabulary, resolved = vocabulary, vocabulary.resolve(settings)
        # Functions hide their contents from tf.Module, which would track and wrap containers.
        self._settings = lambda: dict(resolved)
        functions = TokenizerFunctions(
            *(
                tf.function(
                    getattr(self, name), [tf.TensorSpec([None], tf.string)], autograph=False
                )
                for name in TokenizerFunctions._fields
            )
        )
        self._functions = lambda: functions
        self.separators = vocabulary.form.separators
        self.framed = bool(resolved.get("framed", vocabulary.form.framed))
        self.typed = bool(resolved.get("typed", vocabulary.form.typed))
        ids = vocabulary.id_of
        self.pad_id, self.unknown_id, self.mask_id = map(ids, ("pad", "unknown", "mask"))
        self.start_id, self.separator_id, self.end_id = map(ids, ("start", "separator", "end"))

    @property
    def settings(self) -> TokenizerSettings:
        """The settings that decide ids together with the vocabulary, as `resolve` returns them."""
        return self._settings()

    @property
    def all_settings(self) -> TokenizerSettings:
        """The same, with usual values."""
        return self.vocabulary.complete(self.settings)

    @property
    def functions(self) -> TokenizerFunctions:
        """The functions for graphs, each traced once for all of them."""
        return self._functions()

    @property
    def mask_token(self) -> str:
        """The mask token in texts."""
        return self.vocabulary.roles["mask"]

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of pad, unknown, start, separator, mask and, if there is another, end."""
        found = (self.pad_id, self.unknown_id, self.start_id, self.separator_id, self.mask_id)
        return found if self.end_id == self.separator_id else (*found, self.end_id)

    @property
    def overhead(self) -> tuple[int, int]:
        """Number of special tokens in a packed sequence of one segment, and of two."""
        return 2 * self.framed, 2 + self.separators

    def types(self, segments: int) -> int:
        """Returns the number of token types in sequences of so many segments."""
        return self.vocabulary.types(segments, self.settings)

    @property
    def starts_text(self) -> bool:
        """Whether running text begins with the start token."""
        return self.framed and self.vocabulary.form.starts_text

    def plain_ids(self, text: str) -> list[int] | None:
        """Returns the ids of `tokenize` without TensorFlow, which is faster for a single text.

        None if the tokenizer cannot, or the text is not printable ASCII and white space.
        """
        return None

    # tf.data converts functions by AutoGraph, which takes seconds and has nothing to convert here.
    @tf.autograph.experimental.do_not_convert
    def __call__(
        self,
        texts: tf.Tensor | Sequence[str],
        pairs: tf.Tensor | Sequence[str] | None = None,
        max_seq_length: int | None = None,
        fixed_length: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Returns the inputs of a model for texts or pairs of texts; works in tf.data, too.

        Args:
          texts: string [batch], UTF-8.
          pairs: string [batch], the second text of each pair; None: single texts.
          max_seq_length: maximum number of tokens of a sequence, special tokens included. Longer
            ones are truncated at the end of the longer text. None: no limit.
          fixed_length: whether to pad to `max_seq_length` instead of the longest sequence.

        Returns:
          `input_word_ids`, `input_mask` (1 for tokens, 0 for padding) and `input_type_ids`
          (segments), int32 [batch, length] each.

        Raises:
          InputError: the texts are not a batch of strings, the number of pairs differs, or
            `max_seq_length` is too small.
        """
        first = _strings(texts, "texts")
        second = None if pairs is None else _strings(pairs, "pairs")
        if second is not None and not first.shape.is_compatible_with(second.shape):
            raise InputError(
                f"{first.shape[0]} texts have {second.shape[0]} pairs; give each text one."
            )
        least = self.overhead[second is not None] + 1
        if max_seq_length is not None and max_seq_length < least:
            raise InputError(f"max_seq_length is {max_seq_length}; it must be {least} or more.")
        if fixed_length and max_seq_length is None:
            raise InputError("fixed_length pads to max_seq_length; give that, too.")
        longest = tf.int32.max if max_seq_length is None else max_seq_length
        packed, _ = self.pack_texts(first, second, longest)
        return packing.padded(self, packed, max_seq_length if fixed_length else None)

    def pack_texts(
        self,
        first: tf.Tensor | Sequence[str],
        second: tf.Tensor | Sequence[str] | None,
        max_seq_length: int,
        keep: Keep = Keep.HEAD,
    ) -> tuple[packing.Packed, tf.Tensor]:
        """Tokenizes and packs texts, or pairs of texts; arguments as in `packing.pack`.

        Returns:
          The sequences, and the length that each would have untruncated, int64 [batch].
        """
        ids = self.tokenize(first)
        ids_b = None if second is None else self.tokenize(second)
        lengths = ids.row_lengths() + (0 if ids_b is None else ids_b.row_lengths())
        lengths += self.overhead[ids_b is not None]
        return packing.pack(self, ids, ids_b, max_seq_length, keep), lengths

    def decode(
        self,
        ids: tf.Tensor | tf.RaggedTensor | np.ndarray | Sequence[Sequence[int]],
        skip_special_tokens: bool = True,
    ) -> list[str]:
        """Returns the texts of ids.

        Byte-level BPE restores the original text; WordPiece joins words and punctuation by spaces
        and does not restore case.

        Args:
          ids: [batch, length].
          skip_special_tokens: whether to leave out special tokens.

        Raises:
          InputError: the ids are not a batch of integers, or the vocabulary lacks an id.
        """
        skipped = frozenset(self.special_ids if skip_special_tokens else ())
        tokens, found = self.vocabulary.tokens, []
        rows: Any = ids.to_list() if isinstance(ids, tf.RaggedTensor) else ids
        for row in rows if isinstance(rows, list | tuple) else np.atleast_1d(rows):
            array = np.asarray(row)
            if array.ndim != 1 or not (array.dtype.kind in "iu" or array.size == 0):
                raise InputError(
                    "ids must be a batch of sequences of whole numbers, [batch, length]."
                )
            if array.size and not 0 <= array.min() <= array.max() < len(tokens):
                last = len(tokens) - 1
                raise InputError(f"ids must be from 0 to {last}, the tokens of the vocabulary.")
            kept = [tokens[index] for index in array.tolist() if index not in skipped]
            found.append(self.vocabulary.text(kept))
        return found

    @abc.abstractmethod
    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Returns the ids of texts, int32 [batch, (pieces)]."""

    def tokenize_running_text(self, sentences: Sequence[str]) -> Ids:
        """Like `tokenize`, for many sentences that keep their leading white space."""
        return as_arrays(self.tokenize(sentences))

    def tokenize_words(self, words: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Like `tokenize`, for words as they occur within a text."""
        return self.tokenize(words)

    @abc.abstractmethod
    def tokenize_with_offsets(self, texts: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        """Returns ids, and the start and end byte of each piece in its original text."""

    def tokenize_words_with_offsets(self, words: tf.Tensor | Sequence[str]) -> IdsWithOffsets:
        """Like `tokenize_with_offsets`, for words as they occur within a text."""
        return self.tokenize_with_offsets(words)

    def tokenize_by_word(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Splits texts into words, and each word into the pieces of `tokenize_words`."""
        return self.tokenize_with_begins(texts)

    def tokenize_with_begins(self, texts: tf.Tensor | Sequence[str]) -> Pieces:
        """Returns the pieces of `tokenize` with their offsets."""
        ids, starts, ends = self.tokenize_with_offsets(texts)
        begins = tf.gather(tf.constant(self.begins_word), ids.flat_values)
        return Pieces(ids, starts, ends, ids.with_flat_values(begins))


def as_arrays(ids: tf.RaggedTensor) -> Ids:
    """Returns ids of texts as arrays."""
    return ids.flat_values.numpy(), ids.row_splits.numpy()


def _strings(values: tf.Tensor | Sequence[str], name: str) -> tf.Tensor:
    """Returns a batch of texts as a tensor, or raises InputError."""
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
