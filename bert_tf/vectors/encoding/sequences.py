"""Packed sequences as arrays, from which padded batches are taken."""

from typing import NamedTuple, Self

import numpy as np

from pipelines.tokenizers import packing


class Sequences(NamedTuple):
    """Packed sequences, one after the other, as arrays.

    Attributes:
      ids, types: int32, of all tokens.
      starts, lengths: int64 [sequences], where each begins, and how many tokens it has.
      pad_id: what to fill up ids with.
    """

    ids: np.ndarray
    types: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    pad_id: int

    @classmethod
    def of(cls, packed: packing.Packed, pad_id: int) -> Self:
        """The arrays of ragged tensors."""
        ids, types = (part.flat_values.numpy() for part in packed)
        splits = packed.word_ids.row_splits.numpy()
        return cls(ids, types, splits[:-1], np.diff(splits), pad_id)

    def batch(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Padded ids, mask and types of some sequences, int32 [rows, longest] each."""
        lengths = self.lengths[rows][:, None]
        at = np.arange(lengths.max())
        there = at < lengths
        index = np.where(there, self.starts[rows][:, None] + at, 0)
        ids = np.where(there, self.ids[index], np.int32(self.pad_id))
        return ids, there.astype(np.int32), np.where(there, self.types[index], np.int32(0))
