"""Features of labelled examples: columns of rows of numbers, cached in NumPy's format.

Rows have different lengths; they are padded when batches are formed.
"""

import dataclasses
import functools
import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import tensorflow as tf
from absl import logging

from pipelines.common import files, json_files, manifest, outputs
from pipelines.common.errors import InputError

_LAYER = "layer_"
_DIGITS = 16  # in the name of a cache
_ARRAYS, _MANIFEST = ".npy", ".manifest.json"


class _CacheManifest(TypedDict):
    """The manifest of a cache, besides its identity."""

    sha256: str
    counts: dict[str, int]


@dataclasses.dataclass(frozen=True)
class FeatureColumn:
    """Rows of numbers in one array: row i is values[splits[i]:splits[i + 1]].

    `values` are int64 or float32 [numbers], or float32 vectors [numbers, width].
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


def cached(
    folder: str, split: str, identity: dict[str, Any], make: Callable[[], Features]
) -> Features:
    """Returns features from a cache, or makes and caches them.

    The cache is `folder`/<digest of identity>/, with <split>.npy and its manifest.

    Args:
      folder: folder of all caches of a task.
      split: name of the file.
      identity: JSON values that decide the features.
      make: makes the features.
    """
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False)
    place = f"{folder}/{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}/{split}"
    arrays, described = f"{place}{_ARRAYS}", f"{place}{_MANIFEST}"
    if files.gfile.exists(described):
        found = _read(arrays, described, identity)
        if found is not None:
            return found
        logging.warning("%s is damaged; it is made again.", arrays)
    features = make()
    _write(features, arrays)
    statistics = {"counts": dict(features.counts), "sha256": files.sha256(arrays)}
    json_files.write(described, {**identity, **statistics}, shared=True)
    return features


def _write(features: Features, path: str) -> None:
    """Writes the names of the columns, then the values and splits of each."""
    with (
        files.write_aside(path, shared=True) as partial,
        files.gfile.GFile(partial, "wb") as file,
    ):
        np.save(file, np.array(list(features.columns)), allow_pickle=False)
        for column in features.columns.values():
            np.save(file, column.values, allow_pickle=False)
            np.save(file, column.splits, allow_pickle=False)


def _read(arrays: str, described: str, identity: dict[str, Any]) -> Features | None:
    """Returns the features of a cache, or None if it is damaged."""
    found = json_files.read_whole(described, _CacheManifest)
    if found is None or manifest.difference(found, identity) is not None:
        return None
    if not files.gfile.exists(arrays) or files.sha256(arrays) != found["sha256"]:
        return None
    with files.open_binary(arrays) as file:
        read = functools.partial(np.lib.format.read_array, file, allow_pickle=False)
        columns = {name: FeatureColumn(read(), read()) for name in read().tolist()}
    return Features(columns, found["counts"])


def remove_caches(folder: str) -> None:
    """Removes all caches in the folders of a folder; others have no manifest."""
    manifests = [
        path
        for task in files.matching(folder, "*")
        for cache in files.matching(task, "?" * _DIGITS)
        for path in files.matching(cache, f"*{_MANIFEST}")
        if json_files.read_whole(path, _CacheManifest)
    ]
    if not manifests:
        outputs.report_nothing_to_do(folder, "cache")
        return
    for cache in sorted({os.path.dirname(path) for path in manifests}):
        splits = [os.path.basename(p) for p in manifests if os.path.dirname(p) == cache]
        arrays = [name.removesuffix(_MANIFEST) + _ARRAYS for name in splits]
        names = [glob.escape(name) for name in (*splits, *arrays)]
        outputs.remove(cache, [*names, *files.LEFT_BEHIND])
    for place in (*files.matching(folder, "*"), folder):
        if files.gfile.isdir(place) and not files.gfile.listdir(place):
            files.remove_tree(place)


def layer_name(index: int) -> str:
    """Returns the name of the outputs of a layer in columns and batches; 0 is the embeddings."""
    return f"{_LAYER}{index}"


def layer_names(names: Iterable[str]) -> dict[int, str]:
    """Returns the names given by `layer_name`, by layer number."""
    found = (name for name in names if name.startswith(_LAYER))
    return {int(name.removeprefix(_LAYER)): name for name in found}


def pad(rows: Sequence[np.ndarray], count: int, length: int, fill: int = 0) -> np.ndarray:
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
