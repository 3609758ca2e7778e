"""The weights of a Hugging Face folder: safetensors in one file, or in several with an index."""

import os
import shutil
import tempfile
from typing import Any, TypedDict

import ml_dtypes
import numpy as np
import safetensors
from numpy.typing import DTypeLike

from bert_tf.weights.table import StoredArray
from pipelines.common import files, json_files
from pipelines.common.errors import InputError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_OTHERS = ("tf_model.h5", "flax_model.msgpack", "*.gguf", "*.onnx")


# Types of safetensors; buffers have integer types.
_TYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


class _Index(TypedDict):
    """The file of each weight."""

    weight_map: dict[str, str]


class _Stored:
    """A tensor of a safetensors file, which is read when it is converted to an array."""

    def __init__(self, file: Any, name: str, place: str):
        described = file.get_slice(name)
        kind = _TYPES.get(described.get_dtype())
        if kind is None:
            raise InputError(
                f"{place}: {name} has the type {described.get_dtype()}, which is not read."
            )
        self.shape, self.dtype = tuple(described.get_shape()), np.dtype(kind)
        self._file, self._name = file, name

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._file.get_tensor(self._name), dtype)


def names(path: str) -> list[str]:
    """The names of the files of weights in a folder: one, or several after their index.

    As in transformers, model.safetensors is read if both are there.
    """
    if files.gfile.exists(f"{path}/{WEIGHTS}") or not files.gfile.exists(f"{path}/{INDEX}"):
        return [WEIGHTS]
    index = json_files.read(f"{path}/{INDEX}", _Index)
    return [INDEX, *sorted(set(index["weight_map"].values()))]


def read(path: str) -> dict[str, StoredArray]:
    """The weights in a folder by name, each read when it is used.

    Raises:
      InputError: A file is missing or damaged.
    """
    weights: dict[str, StoredArray] = {}
    for name in names(path):
        if name == INDEX:
            continue
        place = files.inside(path, name, f"{path}/{INDEX}")
        if not files.gfile.exists(place):
            raise InputError(f"{path}: has no {name}{_remedy(path)}.")
        files.check_regular(place)
        try:
            file = _open(place)
        except (safetensors.SafetensorError, OSError) as error:
            with files.open_binary(place) as damaged:
                files.check_pointer(place, damaged.read(64))
            raise InputError(f"{place}: is damaged ({error}).") from error
        weights |= {key: _Stored(file, key, place) for key in file.offset_keys()}
    return weights


def _open(place: str) -> Any:
    """Opens a safetensors file; one of another file system is copied, as it is mapped."""
    if "://" not in place:
        return safetensors.safe_open(place, framework="np")
    with tempfile.NamedTemporaryFile() as copy, files.open_binary(place) as file:
        shutil.copyfileobj(file, copy)
        copy.flush()
        return safetensors.safe_open(copy.name, framework="np")


def _remedy(path: str) -> str:
    """The remedy if weights are in a file that is not read."""
    again = "in transformers, save the model with save_pretrained(..., safe_serialization=True)"
    if files.matching(path, "pytorch_model*.bin"):
        return (
            f"; pytorch_model.bin is a pickle, which can run any code and is never loaded: {again}"
        )
    if variants := files.matching(path, "model.*.safetensors"):
        return f"; rename {os.path.basename(variants[0])} to {WEIGHTS}"
    folders = (path, f"{path}/onnx")
    others = [
        each for name in _OTHERS for folder in folders for each in files.matching(folder, name)
    ]
    return f"; {others[0].removeprefix(f'{path}/')} is not read: {again}" if others else ""
