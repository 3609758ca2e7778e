"""Features of labelled examples: columns of rows of numbers, cached as TFRecords.

Rows have different lengths; they are padded when batches are formed.
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

from pipelines.common import files, json_files, manifest, outputs
from pipelines.common.errors import InputError

_BATCH = 1024
_LAYER = "layer_"
_DIGITS = 16  # in the name of a cache
_RECORDS, _MANIFEST = ".tfrecord", ".manifest.json"


class _CacheManifest(TypedDict):
    """The contents of a cache; its manifest has the identity, too."""

    columns: dict[str, Literal["int64", "float32"]]
    records: int
    counts: dict[str, int]
    bytes: int


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

    The cache is `folder`/<digest of identity>/, with <split>.tfrecord and its manifest.

    Args:
      folder: folder of all caches of a task.
      split: name of the file.
      identity: JSON values that decide the features.
      make: makes the features.
    """
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False)
    place = f"{folder}/{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"
    record, described = f"{place}/{split}{_RECORDS}", f"{place}/{split}{_MANIFEST}"
    if files.gfile.exists(described):
        found = _whole(record, described, identity)
        if found is not None:
            return found
        logging.warning("%s is damaged; it is made again.", record)
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
        records = [name.removesuffix(_MANIFEST) + _RECORDS for name in splits]
        names = [glob.escape(name) for name in (*splits, *records)]
        outputs.remove(cache, [*names, *files.LEFT_BEHIND])
    for place in (*files.matching(folder, "*"), folder):
        if files.gfile.isdir(place) and not files.gfile.listdir(place):
            files.remove_tree(place)


def _whole(record: str, described: str, identity: dict[str, Any]) -> Features | None:
    """Returns the features of a cache, or None if it is damaged (or of another identity)."""
    found = json_files.read_whole(described, _CacheManifest)
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
    with files.write_aside(path, shared=True) as partial, tf.io.TFRecordWriter(partial) as writer:
        for index in range(len(features)):
            example = tf.train.Example()
            for name, column in features.columns.items():
                feature = example.features.feature[name]
                is_float = column.values.dtype == np.float32
                values = feature.float_list if is_float else feature.int64_list
                values.value.extend(column.row(index).tolist())
            writer.write(example.SerializeToString(deterministic=True))


def _read(path: str, described: _CacheManifest) -> Features:
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
