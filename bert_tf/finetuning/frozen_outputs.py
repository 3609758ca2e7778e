"""Outputs of an encoder that is not trained, computed once for all epochs, seeds and heads.

The feature-based approach (paper, section 5.3) reads nothing else. A file has the vectors of one
layer for all tokens of a split, float32 [tokens, hidden_size] in NumPy's format, which is mapped
into memory: a run needs no more of it than the rows of a batch.
"""

import contextlib
import dataclasses
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.finetuning.task_data import Split, TaskData
from bert_tf.models import fused_ops
from bert_tf.models.base_encoder import Encoder
from bert_tf.tasks import Task
from bert_tf.weights import Bundle
from pipelines.common import files, json_files, outputs
from pipelines.labelled import bucketing
from pipelines.labelled.features import FeatureColumn, Features, layer_name
from pipelines.tokenizers.packing import MODEL_INPUTS

_TOKENS = 4096  # of a batch
_BLOCK = 65_536  # tokens whose vectors are in memory at once
_DIGITS = 16
_FOLDER = "frozen-"  # begins the name of a folder
_DESCRIPTION = "encoder.json"

Encode = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Sequence[tf.Tensor]]


def add(data: Sequence[TaskData], bundle: Bundle, cache: str) -> list[TaskData]:
    """The data with the outputs that the heads of its tasks read as further features.

    Args:
      data: of each task.
      bundle: the model that begins the run; its encoder is not trained.
      cache: folder for the files.

    Raises:
      InputError: the disk is full.
    """
    maker = _Maker(bundle)
    found = []
    for item in data:
        indices = item.task.head.indices(bundle.config.num_hidden_layers)
        train, *rest = (
            dataclasses.replace(split, features=maker.features(item.task, split, indices, cache))
            for split in (item.train, *item.dev, *item.test)
        )
        dev, test = tuple(rest[: len(item.dev)]), tuple(rest[len(item.dev) :])
        found.append(dataclasses.replace(item, train=train, dev=dev, test=test))
    return found


class _Maker:
    """Computes outputs of an encoder, which is made when the first ones are not there."""

    def __init__(self, bundle: Bundle):
        self._bundle = bundle
        self._sha256 = bundle.encoder_sha256()
        self._encoder: Encoder | None = None

    def features(self, task: Task, split: Split, indices: tuple[int, ...], cache: str) -> Features:
        """The features of a split with the outputs of layers."""
        features, splits = split.features, task.sequence_splits(split.features)
        identity = {
            "encoder_sha256": self._sha256,
            "inputs_sha256": _digest(features, splits),
        }
        name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        folder = f"{cache}/{task.name}/{_FOLDER}{name[:_DIGITS]}"
        paths = {index: f"{folder}/layer-{index}.npy" for index in indices}
        shape = (int(splits[-1]), self._bundle.config.hidden_size)
        missing = [index for index, path in paths.items() if not _is_whole(path, shape)]
        if missing:
            json_files.write(f"{folder}/{_DESCRIPTION}", identity, shared=True)
            self._write(features, splits, {index: paths[index] for index in missing}, shape)
        of_tokens = features["input_word_ids"].splits
        columns = {
            layer_name(index): FeatureColumn(_mapped(path), of_tokens)
            for index, path in paths.items()
        }
        return dataclasses.replace(features, columns={**features.columns, **columns})

    def _write(
        self,
        features: Features,
        splits: np.ndarray,
        paths: dict[int, str],
        shape: tuple[int, int],
    ) -> None:
        """Writes the outputs of layers for all tokens, in the order of tokens."""
        if self._encoder is None:
            self._encoder = self._bundle.encoder()
        encode = _encoding(self._encoder, tuple(paths))
        size = len(paths) * 4 * shape[0] * shape[1]
        logging.info(
            "outputs of the frozen encoder: %s tokens, %d layers, %.2f GB, kept in %s",
            f"{shape[0]:,}",
            len(paths),
            size / 1e9,
            next(iter(paths.values())).rpartition("/")[0],
        )
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(_new_array(path, shape)) for path in paths.values()]
            for block in _blocks(splits):
                for file, values in zip(opened, _encoded(encode, features, block), strict=True):
                    file.write(values.tobytes())


def _encoding(encoder: Encoder, indices: tuple[int, ...]) -> Encode:
    """A function of ids, mask and types, int32 [batch, length], to outputs of layers, float32."""
    spec = [tf.TensorSpec([None, None], tf.int32)] * len(MODEL_INPUTS)

    @tf.function(autograph=False, input_signature=spec)
    def encode(*inputs: tf.Tensor) -> list[tf.Tensor]:
        with fused_ops.inference():
            found = encoder(dict(zip(MODEL_INPUTS, inputs, strict=True)), drop_padding=True)
        layers = [found["embedding_output"], *found["encoder_outputs"]]
        return [tf.cast(layers[index], tf.float32) for index in indices]

    return encode


def _encoded(encode: Encode, features: Features, splits: np.ndarray) -> list[np.ndarray]:
    """The outputs for the tokens of some sequences, float32 [tokens, width] of each layer."""
    lengths, first = np.diff(splits), splits[0]
    arrays: list[np.ndarray] = []
    for rows in bucketing.batches_by_tokens(lengths, _TOKENS):
        at = np.arange(lengths[rows].max())
        there = at < lengths[rows][:, None]
        index = np.where(there, splits[:-1][rows][:, None] + at, first)
        inputs = (
            np.where(there, features["input_word_ids"].values[index], features.pad_id),
            there,
            np.where(there, features["input_type_ids"].values[index], 0),
        )
        outputs = encode(*(tf.constant(x, tf.int32) for x in inputs))
        arrays = arrays or [
            np.empty([splits[-1] - first, int(x.shape[-1])], np.float32) for x in outputs
        ]
        for array, values in zip(arrays, outputs, strict=True):
            array[index[there] - first] = values.numpy()[there]
    return arrays


def _blocks(splits: np.ndarray) -> Iterator[np.ndarray]:
    """The splits of a few sequences after the others."""
    start = 0
    while start < len(splits) - 1:
        end = int(np.searchsorted(splits, splits[start] + _BLOCK, "right")) - 1
        end = min(max(end, start + 1), len(splits) - 1)
        yield splits[start : end + 1]
        start = end


@contextlib.contextmanager
def _new_array(path: str, shape: tuple[int, int]) -> Iterator[BinaryIO]:
    """A file of float32 in NumPy's format, for its values; it has its name when it is whole."""
    with (
        files.write_aside(path, shared=True) as partial,
        files.gfile.GFile(partial, "wb") as file,
    ):
        file.write(_header(shape))
        yield file


def _header(shape: tuple[int, int]) -> bytes:
    """What a file begins with."""
    file = io.BytesIO()
    fields = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def _is_whole(path: str, shape: tuple[int, int]) -> bool:
    """Whether a file is there, and as long as it has to be."""
    if not files.gfile.exists(path):
        return False
    if files.gfile.stat(path).length == len(_header(shape)) + 4 * shape[0] * shape[1]:
        return True
    logging.warning("%s is damaged; made anew.", path)
    return False


def _mapped(path: str) -> np.ndarray:
    """The array of a file; of one on this machine, mapped into memory."""
    if "://" not in path:
        return np.load(path, mmap_mode="r")
    with files.gfile.GFile(path, "rb") as file:
        return np.load(cast(Any, file))


def _digest(features: Features, splits: np.ndarray) -> str:
    digest = hashlib.sha256()
    for values in (features["input_word_ids"].values, features["input_type_ids"].values, splits):
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def remove_caches(folder: str) -> None:
    """Removes the outputs that are kept for the tasks in a folder."""
    for task in files.matching(folder, "*"):
        for place in files.matching(task, f"{_FOLDER}*"):
            if files.gfile.exists(f"{place}/{_DESCRIPTION}"):
                outputs.remove(place, [_DESCRIPTION, "layer-*.npy", *files.LEFT_BEHIND])
