"""Parts of an encoder that are not trained, and the outputs of one that is frozen as a whole.

Such outputs are computed once for all epochs, seeds and heads: the feature-based approach (paper,
section 5.3) reads nothing else. A file has the vectors of one layer for all tokens of a split,
float32 [tokens, hidden_size] in NumPy's format. It is mapped into memory, so that a run needs only
the rows of a batch in memory.
"""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.finetuning.task_data import Split, TaskData
from bert_tf.models import fused_ops
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.base_encoder import Encoder
from bert_tf.tasks import Task
from bert_tf.tasks.model import TaskModel
from bert_tf.weights import Bundle
from pipelines.common import files, json_files, outputs
from pipelines.common.errors import InputError
from pipelines.labelled import bucketing
from pipelines.labelled.features import FeatureColumn, Features, layer_name
from pipelines.tokenizers.packing import MODEL_INPUTS

_ALL, _EMBEDDINGS = "all", "embeddings"
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_TOKENS = 4096  # in a batch
_BLOCK = 65_536  # tokens whose vectors are in memory at once
_DIGITS = 16
_FOLDER = "frozen-"  # begins the names of cache folders
_DESCRIPTION = "encoder.json"

# Maps ids, mask and types, int32 [batch, length], to outputs of layers, float32.
Encode = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Sequence[tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Parts of an encoder that are not trained.

    Attributes:
      embeddings: whether the embeddings are frozen.
      blocks: indices of the frozen blocks, from 0, the lowest.
      whole: whether nothing else of the encoder is left; its pooler is trained with the heads.
    """

    embeddings: bool = False
    blocks: frozenset[int] = frozenset()
    whole: bool = False

    @classmethod
    def parse(cls, text: str | None, config: EncoderConfig) -> "Frozen":
        """Parses --freeze, such as "embeddings,0-3" or "all".

        Raises:
          InputError: it names a part that the model does not have.
        """
        count = config.num_blocks
        layers = f"the layers 0 to {count - 1}" if count > 1 else "the layers, which are one: 0"
        embeddings, blocks = False, set[int]()
        for part in (text or "").replace(" ", "").split(","):
            match = _RANGE.fullmatch(part)
            if part == _ALL:
                embeddings, blocks = True, set(range(count))
            elif part == _EMBEDDINGS:
                embeddings = True
            elif match:
                first, last = int(match[1]), int(match[2] or match[1])
                blocks |= set(range(first, last + 1))
                if last < first or last >= count:
                    raise InputError(f"--freeze={text}: {part} is not among {layers}.")
            elif text is not None:
                raise InputError(
                    f"--freeze={text}: {part!r} is neither `embeddings`, `all`, nor a layer or a "
                    f"range of {layers}."
                )
        return cls(embeddings, frozenset(blocks), embeddings and len(blocks) == count)

    def apply(self, model: TaskModel) -> None:
        """Freezes these parts of a model."""
        encoder = model.encoder
        frozen = [encoder.embeddings] if self.embeddings else []
        frozen += [encoder.blocks[index] for index in self.blocks]
        if self.whole:  # what is between the blocks and the pooler too
            frozen = [layer for layer in encoder.members() if layer is not encoder.pooler]
        for layer in frozen:
            layer.trainable = False


def with_outputs(data: Sequence[TaskData], bundle: Bundle, cache: str) -> list[TaskData]:
    """The data with further features: the outputs of the encoder that the tasks' heads read.

    Args:
      data: the tasks.
      bundle: the model to start from; its encoder is not trained.
      cache: folder for the files.

    Raises:
      InputError: the disk is full.
    """
    cached = _CachedOutputs(bundle, cache)

    def extended(item: TaskData) -> TaskData:
        indices = item.task.head.indices(bundle.config.num_hidden_layers)

        def add(split: Split) -> Split:
            return dataclasses.replace(split, features=cached.add(item.task, split, indices))

        return dataclasses.replace(
            item,
            train=add(item.train),
            dev=tuple(map(add, item.dev)),
            test=tuple(map(add, item.test)),
        )

    return list(map(extended, data))


class _CachedOutputs:
    """Outputs of an encoder, which is made when the first ones are missing."""

    def __init__(self, bundle: Bundle, cache: str):
        self._bundle = bundle
        self._cache = cache
        self._sha256 = bundle.encoder_sha256()
        self._encoder: Encoder | None = None

    def add(self, task: Task, split: Split, indices: tuple[int, ...]) -> Features:
        """The features of a split with the outputs of layers."""
        features, splits = split.features, task.sequence_splits(split.features)
        identity = {
            "encoder_sha256": self._sha256,
            "inputs_sha256": _digest(features, splits),
        }
        name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        folder = f"{self._cache}/{task.name}/{_FOLDER}{name[:_DIGITS]}"
        paths = {index: f"{folder}/layer-{index}.npy" for index in indices}
        shape = (int(splits[-1]), self._bundle.config.hidden_size)
        missing = {index: path for index, path in paths.items() if not _is_whole(path, shape)}
        if missing:
            json_files.write(f"{folder}/{_DESCRIPTION}", identity, shared=True)
            logging.info(
                "outputs of the frozen encoder: %s tokens, %d layers, %.2f GB, kept in %s",
                f"{shape[0]:,}",
                len(missing),
                len(missing) * 4 * shape[0] * shape[1] / 1e9,
                folder,
            )
            self._write(features, splits, missing, shape)
        of_tokens = features["input_word_ids"].splits
        columns = {layer_name(i): FeatureColumn(_mapped(p), of_tokens) for i, p in paths.items()}
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
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(_new_array(path, shape)) for path in paths.values()]
            for block in _blocks(splits):
                for file, values in zip(opened, _encoded(encode, features, block), strict=True):
                    file.write(values.tobytes())


def _encoding(encoder: Encoder, indices: tuple[int, ...]) -> Encode:
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
        found = encode(*(tf.constant(x, tf.int32) for x in inputs))
        arrays = arrays or [
            np.empty([splits[-1] - first, int(x.shape[-1])], np.float32) for x in found
        ]
        for array, values in zip(arrays, found, strict=True):
            array[index[there] - first] = values.numpy()[there]
    return arrays


def _blocks(splits: np.ndarray) -> Iterator[np.ndarray]:
    """The splits of a few sequences at a time."""
    start = 0
    while start < len(splits) - 1:
        end = int(np.searchsorted(splits, splits[start] + _BLOCK, "right")) - 1
        end = min(max(end, start + 1), len(splits) - 1)
        yield splits[start : end + 1]
        start = end


@contextlib.contextmanager
def _new_array(path: str, shape: tuple[int, int]) -> Iterator[BinaryIO]:
    """A new file in NumPy's format, to write the values of an array to."""
    with (
        files.write_aside(path, shared=True) as partial,
        files.gfile.GFile(partial, "wb") as file,
    ):
        file.write(_header(shape))
        yield file


def _header(shape: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    fields = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def _is_whole(path: str, shape: tuple[int, int]) -> bool:
    """Whether a file exists and has the length of its array."""
    if not files.gfile.exists(path):
        return False
    if files.gfile.stat(path).length == len(_header(shape)) + 4 * shape[0] * shape[1]:
        return True
    logging.warning("%s is damaged; made anew.", path)
    return False


def _mapped(path: str) -> np.ndarray:
    """The array of a file, which is mapped into memory if it is on this machine."""
    if "://" not in path:
        return np.load(path, mmap_mode="r")
    with files.gfile.GFile(path, "rb") as file:
        return np.load(cast(Any, file))


def _digest(features: Features, splits: np.ndarray) -> str:
    digest = hashlib.sha256()
    for values in (features["input_word_ids"].values, features["input_type_ids"].values, splits):
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def remove_outputs(folder: str) -> None:
    """Removes the kept outputs of the tasks in a folder, and the folders that this empties."""
    found = [
        place
        for task in files.matching(folder, "*")
        for place in files.matching(task, f"{_FOLDER}*")
        if files.gfile.exists(f"{place}/{_DESCRIPTION}")
    ]
    if not found:
        outputs.report_nothing_to_do(folder, "cache")
    for place in found:
        outputs.remove(place, [_DESCRIPTION, "layer-*.npy", *files.LEFT_BEHIND])
    for place in (*map(os.path.dirname, found), folder):
        if files.gfile.isdir(place) and not files.gfile.listdir(place):
            files.remove_tree(place)
