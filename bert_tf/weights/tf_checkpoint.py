"""Files of TensorFlow 1 and 2 checkpoints: location and contents."""

import math
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.common import files
from pipelines.common.errors import InputError

NAME = "bert_model.ckpt"  # of google-research's checkpoints
_DATA = re.compile(r"\.(index|data-\d+-of-\d+)$")


def prefix_of(path: str) -> str:
    """The prefix of a checkpoint from the path of one of its files; other paths unchanged."""
    return _DATA.sub("", path)


def find(path: str) -> str | None:
    """The prefix of the checkpoint that a path names or a folder contains; None if there is none.

    Of several in a folder, it is bert_model.ckpt, or the one in the folder's state file, or the one
    with the highest number.
    """
    if files.gfile.exists(f"{path}.index"):
        return path
    found = [name.removesuffix(".index") for name in files.matching(path, "*.index")]
    if not found:
        return None
    if f"{path}/{NAME}" in found:
        return f"{path}/{NAME}"
    newest = tf.train.latest_checkpoint(path)
    return newest if newest in found else max(found, key=_number)


def _number(prefix: str) -> tuple[int, str]:
    match = re.search(r"(\d+)$", prefix)
    return int(match.group()) if match else -1, prefix


def folder_of(prefix: str) -> str:
    """The folder of a checkpoint; an InputError if it contains no bert_config.json."""
    folder = os.path.dirname(prefix) or "."
    if not files.gfile.exists(f"{folder}/bert_config.json"):
        raise InputError(
            f"{folder}: has a checkpoint, but no bert_config.json; copy it and vocab.txt from the "
            "model that the training started from."
        )
    return folder


def names(prefix: str) -> list[str]:
    """The sorted names of all variables; an InputError if the checkpoint is damaged."""
    return sorted(_open(prefix).get_variable_to_shape_map())


def read(prefix: str, wanted: Callable[[str], bool]) -> dict[str, np.ndarray]:
    """The variables with wanted names, sorted by name.

    Raises:
      InputError: The checkpoint is damaged, or its variables are larger than its files.
    """
    reader = _open(prefix)
    try:
        dtypes = reader.get_variable_to_dtype_map()
        shapes = {n: s for n, s in sorted(reader.get_variable_to_shape_map().items()) if wanted(n)}
        claimed = sum(math.prod(shape) * dtypes[name].size for name, shape in shapes.items())
        if claimed > sum(files.gfile.stat(path).length for path in _files_of(prefix)):
            raise ValueError("its variables are larger than its files")
        return {name: reader.get_tensor(name) for name in shapes}
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        raise _damaged(prefix, error) from error


def _open(prefix: str) -> Any:  # the type has no public name
    for path in _files_of(prefix):
        files.check_regular(path)
    try:
        return tf.train.load_checkpoint(prefix)
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        raise _damaged(prefix, error) from error


def _files_of(prefix: str) -> list[str]:
    folder, name = os.path.split(prefix)
    found = files.matching(folder or ".", "*")
    return [
        path
        for path in found
        if re.fullmatch(f"{re.escape(name)}{_DATA.pattern}", os.path.basename(path))
    ]


def _damaged(prefix: str, error: Exception) -> InputError:
    return InputError(
        f"{prefix}: the checkpoint is damaged ({str(error).splitlines()[0]}); copy it again."
    )
