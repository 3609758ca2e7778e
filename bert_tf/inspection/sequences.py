"""Sequences as a model gets them, with where each of their tokens stands in the texts."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

# Numbers of the special tokens that packing puts between those of the texts.
_START, _SEPARATOR = -1, -2
# What a tokenizer's `mask_takes_space` means by space.
_SPACE = r"[\t\n\f\r ]*"


@dataclasses.dataclass(frozen=True)
class TokenSequence:
    """The tokens of a sequence, [length] each.

    Attributes:
      ids: int32.
      types: int32, as the model gets them.
      segments: int32, 0 for the first text and the special tokens round it, 1 for the second.
      special: bool, whether a token is none of a text.
      begins: bool, whether a token begins a word.
      starts, ends: int64, the bytes of a token in its text; 0 of special ones.
    """

    ids: np.ndarray
    types: np.ndarray
    segments: np.ndarray
    special: np.ndarray
    begins: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def inputs(self, rows: int = 1) -> dict[str, tf.Tensor]:
        """The encoder's inputs, as often as asked: int32 [rows, length] each."""
        values = (self.ids, np.ones_like(self.ids), self.types)
        shape = [rows, len(self)]
        return {
            name: tf.broadcast_to(tf.constant(value, tf.int32), shape)
            for name, value in zip(packing.MODEL_INPUTS, values, strict=True)
        }


class _Numbers:
    """The rules of a tokenizer for packing numbers of tokens in place of their ids.

    So all that packing does, such as cutting, is done to whatever is known of a token.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.start_id, self.separator_id, self.pad_id = _START, _SEPARATOR, _SEPARATOR
        self.separators, self.overhead = tokenizer.separators, tokenizer.overhead
        self.typed = True  # so that types are segments


class TokenizedTexts:
    """The tokens of one or two texts, to be packed into sequences.

    Args:
      tokenizer: of the model.
      texts: one or two.
      masks: whether the tokenizer's mask in a text is a mask; else it is text like other.
      by_word: whether words are split off before they are cut into pieces, as for tags.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        texts: Sequence[str],
        masks: bool = False,
        by_word: bool = False,
    ):
        self._tokenizer = tokenizer
        self.rules = _Numbers(tokenizer)
        self._text = texts[0].encode()
        found = [_tokens(tokenizer, text, masks, by_word) for text in texts]
        lengths = [len(ids) for ids, *_ in found]
        self._ids, self._starts, self._ends, self._begins = (
            np.concatenate(columns) for columns in zip(*found, strict=True)
        )
        ends = np.cumsum(lengths)
        # [1, (tokens)] for each text: the numbers of its tokens through all texts.
        self.numbers = [
            tf.RaggedTensor.from_tensor(tf.range(end - length, end, dtype=tf.int32)[tf.newaxis])
            for end, length in zip(ends.tolist(), lengths, strict=True)
        ]

    @property
    def begins(self) -> np.ndarray:
        """Whether a token of the first text begins a word, bool [tokens]."""
        return self._begins[: int(self.numbers[0].row_lengths()[0])]

    @property
    def words(self) -> list[str]:
        """The words of the first text, as they stand in it."""
        first = np.flatnonzero(self.begins)
        last = np.append(first[1:], len(self.begins)) - 1
        places = zip(self._starts[first], self._ends[last], strict=True)
        return [self._text[start:end].decode(errors="replace") for start, end in places]

    def pack(self, max_length: int) -> TokenSequence:
        """The one sequence of all texts, cut to fit."""
        second = self.numbers[1] if len(self.numbers) > 1 else None
        packed = packing.pack(self.rules, self.numbers[0], second, max_length)
        return self.sequences(packed)[0]

    def sequences(self, packed: packing.Packed) -> list[TokenSequence]:
        """The sequences of packed numbers."""
        rows = zip(packed.word_ids, packed.type_ids, strict=True)
        return [self._sequence(numbers.numpy(), segments.numpy()) for numbers, segments in rows]

    def _sequence(self, numbers: np.ndarray, segments: np.ndarray) -> TokenSequence:
        tokens = self._tokenizer
        special = numbers < 0
        at = np.maximum(numbers, 0)
        role = np.where(numbers == _START, tokens.start_id, tokens.separator_id)

        def taken(values: np.ndarray, other: np.ndarray | int) -> np.ndarray:
            return np.where(special, other, values[at] if len(values) else 0)

        return TokenSequence(
            taken(self._ids, role).astype(np.int32),
            (segments * tokens.typed).astype(np.int32),
            segments.astype(np.int32),
            special,
            taken(self._begins, 1).astype(bool),
            taken(self._starts, 0),
            taken(self._ends, 0),
        )


def _tokens(tokenizer: Tokenizer, text: str, masks: bool, by_word: bool) -> tuple[np.ndarray, ...]:
    """Ids, first bytes, end bytes and begins of words of the tokens of a text, [tokens] each."""
    parts = _round_masks(tokenizer, text) if masks else [(text, 0, 0, 0)]
    split = tokenizer.tokenize_by_word if by_word else tokenizer.tokenize_with_begins
    pieces = split([part for part, *_ in parts])
    columns: list[list[np.ndarray]] = [[], [], [], []]
    for row, (_, origin, mask_start, mask_end) in enumerate(parts):
        found = [values[row].numpy() for values in pieces]
        found[1], found[2] = found[1] + origin, found[2] + origin
        if mask_end:
            mask = (tokenizer.mask_id, mask_start, mask_end, True)
            found = [np.append(values, one) for values, one in zip(found, mask, strict=True)]
        for column, values in zip(columns, found, strict=True):
            column.append(values)
    ids, starts, ends, begins = map(np.concatenate, columns)
    return ids, starts, ends, begins.astype(bool)


def _round_masks(tokenizer: Tokenizer, text: str) -> list[tuple[str, int, int, int]]:
    """What stands between the masks of a text, as an export's `fill_mask` cuts it.

    Returns:
      For each part: its text, its first byte, and the first and the end byte of the mask that
      follows it; 0 and 0 where none does.
    """
    space = _SPACE if tokenizer.vocabulary.mask_takes_space else ""
    parts, done = [], 0
    for match in re.finditer(f"{space}({re.escape(tokenizer.mask_token)})", text):
        origin, start, end = (len(text[:at].encode()) for at in (done, *match.span(1)))
        parts.append((text[done : match.start()], origin, start, end))
        done = match.end()
    return [*parts, (text[done:], len(text[:done].encode()), 0, 0)]
