"""Features of labelled examples: columns of rows of numbers.

Rows have different lengths; they are padded when batches are formed.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipelines.common.errors import InputError
from pipelines.tokenizers.packing import Packed

_LAYER = "layer_"


@dataclasses.dataclass(frozen=True)
class FeatureColumn:
    """Rows of numbers in one array: row i is values[splits[i]:splits[i + 1]].

    `values` are int64 or float32 [numbers], or vectors of such numbers [numbers, width].
    """

    values: np.ndarray
    splits: np.ndarray

    @classmethod
    def of(cls, rows: tf.RaggedTensor | np.ndarray) -> "FeatureColumn":
        """Makes a column from a ragged tensor [rows, (numbers)], or from one number per row."""
        if isinstance(rows, tf.RaggedTensor):
            values, splits = rows.flat_values.numpy(), rows.row_splits.numpy()
        else:
            values, splits = np.asarray(rows), np.arange(len(rows) + 1)
        is_float = np.issubdtype(values.dtype, np.floating)
        return cls(values.astype(np.float32 if is_float else np.int64), splits)

    def __len__(self) -> int:
        return len(self.splits) - 1

    def row(self, index: int) -> np.ndarray:
        """Returns the numbers of a row."""
        return self.values[self.splits[index] : self.splits[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Number of values in each row, int64 [rows]."""
        return np.diff(self.splits)


@dataclasses.dataclass(frozen=True)
class Features:
    """Columns with the same number of rows, and statistics of how they were made."""

    columns: Mapping[str, FeatureColumn]
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pad_id: int = 0  # the padding token

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> FeatureColumn:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns


def layer_name(index: int) -> str:
    """Returns the name of the outputs of a layer in columns and batches; 0 is the embeddings."""
    return f"{_LAYER}{index}"


def layer_names(names: Iterable[str]) -> dict[int, str]:
    """Returns the names given by `layer_name`, by layer number."""
    found = (name for name in names if name.startswith(_LAYER))
    return {int(name.removeprefix(_LAYER)): name for name in found}


def pad(rows: Sequence[np.ndarray], count: int, length: int, fill: float = 0) -> np.ndarray:
    """Returns rows as an int32 or float32 array [count, length], each padded at its end.

    Rows of vectors [(vectors), width] give [count, length, width].

    Raises:
      InputError: a row is longer than `length`.
    """
    is_float = bool(rows) and rows[0].dtype == np.float32
    width = rows[0].shape[1:] if rows else ()
    result = np.full((count, length, *width), fill, np.float32 if is_float else np.int32)
    for index, row in enumerate(rows):
        if len(row) > length:
            raise InputError(f"a row of {len(row)} numbers exceeds {length}.")
        result[index, : len(row)] = row
    return result


def packed_columns(packed: Packed) -> dict[str, FeatureColumn]:
    """The columns `input_word_ids` and `input_type_ids` of packed sequences, one per row."""
    columns = {"input_word_ids": packed.word_ids, "input_type_ids": packed.type_ids}
    return {name: FeatureColumn.of(ids) for name, ids in columns.items()}
