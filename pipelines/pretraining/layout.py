"""Planned segments as padded sequences of ids."""

from typing import NamedTuple

import numpy as np

from pipelines.common.compiled import compiled
from pipelines.tokenizers.base import Tokenizer

# Columns of a plan: where segments A and B lie in the flat ids, and the label.
A_START, A_LENGTH, B_START, B_LENGTH, IS_RANDOM = range(5)
COLUMNS = 5


class SpecialIds(NamedTuple):
    """What loops need to know of a tokenizer."""

    start: int
    separator: int
    mask: int
    pad: int
    separators: int  # between two segments
    vocab_size: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "SpecialIds":
        """Those of a tokenizer."""
        return cls(
            tokenizer.start_id,
            tokenizer.separator_id,
            tokenizer.mask_id,
            tokenizer.pad_id,
            tokenizer.separators,
            len(tokenizer.vocabulary),
        )


class Sequences(NamedTuple):
    """A block of padded sequences, int32 arrays [sequences, ...]."""

    word_ids: np.ndarray  # [sequences, max_seq_length]
    lengths: np.ndarray  # [sequences], special tokens included
    a_lengths: np.ndarray  # [sequences]: start, A and separators; the rest is segment 1


def fill(ids: np.ndarray, plan: np.ndarray, max_seq_length: int, special: SpecialIds) -> Sequences:
    """Lays out [CLS] A [SEP] B [SEP], or [CLS] A [SEP] where B is empty.

    Args:
      ids: int32 [tokens], flat token ids.
      plan: int64 [sequences, 5], columns as named in this module.
      max_seq_length: sequences are padded to it.
      special: ids of the special tokens.
    """
    start, separator, _, pad, separators, _ = special
    return Sequences(*_fill(ids, plan, max_seq_length, start, separator, pad, separators))


@compiled
def _fill(ids, plan, max_seq_length, start_id, separator_id, pad_id, separators):
    count = len(plan)
    word_ids = np.full((count, max_seq_length), pad_id, np.int32)
    lengths = np.empty(count, np.int32)
    a_lengths = np.empty(count, np.int32)
    for row in range(count):
        a_start, a_length, b_start, b_length, _ = plan[row]
        sequence = word_ids[row]
        sequence[0] = start_id
        end = a_length + 1
        sequence[1:end] = ids[a_start : a_start + a_length]
        between = separators if b_length else 1
        sequence[end : end + between] = separator_id
        end += between
        a_lengths[row] = end
        if b_length:
            sequence[end : end + b_length] = ids[b_start : b_start + b_length]
            end += b_length + 1
            sequence[end - 1] = separator_id
        lengths[row] = end
    return word_ids, lengths, a_lengths
