"""Features of labelled examples: columns of rows of numbers, cached as TFRecords.

Rows differ in length; nothing is padded before batches are formed.
"""

import dataclasses
import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np
import tensorflow as tf
from absl import logging

from pipelines.common import cleaning, files, json_files, manifest
from pipelines.common.errors import InputError

_BATCH = 1024
_LAYER = "layer_"
# Of a cache: the length of its name, and what its files end with.
_DIGITS = 16
_RECORDS, _MANIFEST = ".tfrecord", ".manifest.json"


class _Described(TypedDict):
    """What a cache says of itself, besides what it was made of."""

    columns: dict[str, Literal["int64", "float32"]]
    records: int
    counts: dict[str, int]
    bytes: int


@dataclasses.dataclass(frozen=True)
class FeatureColumn:
    """Rows of numbers, one after the other: row i is values[splits[i]:splits[i + 1]].

    `values` are int64 or float32; or vectors, float32 [all of them, width].
    """

    values: np.ndarray
    splits: np.ndarray

    @classmethod
    def of(cls, rows: tf.RaggedTensor | np.ndarray) -> "FeatureColumn":
        """Of a ragged tensor [rows, (numbers)], or of one number a row."""
        if isinstance(rows, tf.RaggedTensor):
            values, splits = rows.flat_values.numpy(), rows.row_splits.numpy()
        else:
            values, splits = np.asarray(rows), np.arange(len(rows) + 1)
        is_float = np.issubdtype(values.dtype, np.floating)
        return cls(values.astype(np.float32 if is_float else np.int64), splits)

    def __len__(self) -> int:
        return len(self.splits) - 1

    def row(self, index: int) -> np.ndarray:
        """The numbers of a row."""
        return self.values[self.splits[index] : self.splits[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Numbers in each row, int64 [rows]."""
        return np.diff(self.splits)


@dataclasses.dataclass(frozen=True)
class Features:
    """Columns of as many rows each, and what was counted while they were made."""

    columns: Mapping[str, FeatureColumn]
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pad_id: int = 0  # of the tokenizer, to fill up sequences with

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> FeatureColumn:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns


def cached(
    folder: str, split: str, identity: dict[str, Any], make: Callable[[], Features]
) -> Features:
    """Features from the cache, or made and put there.

    The cache is `folder`/<digest of identity>/: <split>.tfrecord and its manifest.

    Args:
      folder: of all caches of a task.
      split: names the file.
      identity: JSON values; all that decides the features.
      make: makes them.
    """
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False)
    place = f"{folder}/{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"
    record, described = f"{place}/{split}{_RECORDS}", f"{place}/{split}{_MANIFEST}"
    if files.gfile.exists(described):
        found = _whole(record, described, identity)
        if found is not None:
            return found
        logging.warning("%s is damaged; made anew.", record)
    features = make()
    _write(features, record)
    kinds = {name: column.values.dtype.name for name, column in features.columns.items()}
    json_files.write(
        described,
        {
            **identity,
            "columns": kinds,
            "records": len(features),
            "counts": dict(features.counts),
            "bytes": files.gfile.stat(record).length,
        },
        shared=True,
    )
    return features


def remove_caches(folder: str) -> None:
    """Removes the caches of all tasks in a folder: those that have a manifest."""
    manifests = [
        path
        for task in files.matching(folder, "*")
        for cache in files.matching(task, "?" * _DIGITS)
        for path in files.matching(cache, f"*{_MANIFEST}")
        if json_files.read_whole(path, _Described)
    ]
    if not manifests:
        cleaning.nothing_to_do(folder, "cache")
        return
    for cache in sorted({os.path.dirname(path) for path in manifests}):
        splits = [os.path.basename(p) for p in manifests if os.path.dirname(p) == cache]
        records = [name.removesuffix(_MANIFEST) + _RECORDS for name in splits]
        names = [glob.escape(name) for name in (*splits, *records)]
        cleaning.remove(cache, [*names, *files.LEFT_BEHIND])
    for place in (*files.matching(folder, "*"), folder):
        if files.gfile.isdir(place) and not files.gfile.listdir(place):
            files.remove_tree(place)


def _whole(record: str, described: str, identity: dict[str, Any]) -> Features | None:
    """The features of a cache; None if it is damaged, or of other features by a chance of 2^-64."""
    found = json_files.read_whole(described, _Described)
    if found is None or manifest.difference(found, identity) is not None:
        return None
    if not files.gfile.exists(record) or files.gfile.stat(record).length != found["bytes"]:
        return None
    try:
        features = _read(record, found)
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError):
        return None
    return features if len(features) == found["records"] else None


def _write(features: Features, path: str) -> None:
    with (
        files.write_aside(path, shared=True) as partial,
        tf.io.TFRecordWriter(partial) as writer,
    ):
        for index in range(len(features)):
            example = tf.train.Example()
            for name, column in features.columns.items():
                feature = example.features.feature[name]
                is_float = column.values.dtype == np.float32
                values = feature.float_list if is_float else feature.int64_list
                values.value.extend(column.row(index).tolist())
            writer.write(example.SerializeToString(deterministic=True))


def _read(path: str, described: "_Described") -> Features:
    spec = {
        name: tf.io.RaggedFeature(tf.as_dtype(kind), row_splits_dtype=tf.int64)
        for name, kind in described["columns"].items()
    }
    batches = [
        tf.io.parse_example(records, spec)
        for records in tf.data.TFRecordDataset(path).batch(_BATCH)
    ]
    columns = {name: FeatureColumn.of(tf.concat([b[name] for b in batches], 0)) for name in spec}
    return Features(columns, described["counts"])


def layer_name(index: int) -> str:
    """The column, or the entry of a batch, of a layer's outputs; 0 is the embeddings."""
    return f"{_LAYER}{index}"


def layer_names(names: Iterable[str]) -> dict[int, str]:
    """Those of the names that `layer_name` gives, by number."""
    found = (name for name in names if name.startswith(_LAYER))
    return {int(name.removeprefix(_LAYER)): name for name in found}


def pad(rows: Sequence[np.ndarray], count: int, length: int, fill: int = 0) -> np.ndarray:
    """Rows as an array [count, length] of int32 or float32, filled up at the end of each.

    Rows of vectors [(vectors), width] make one [count, length, width].

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
