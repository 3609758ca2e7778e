"""Checkpoints of TensorFlow 1 and 2 as files: where they are, and what is in them."""

import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.common import files
from pipelines.common.errors import InputError

_DATA = re.compile(r"\.(index|data-\d+-of-\d+)$")


def prefix_of(path: str) -> str:
    """The prefix of a checkpoint by the path of one of its files; other paths as they are."""
    return _DATA.sub("", path)


def find(path: str, preferred: str) -> str | None:
    """The prefix of the checkpoint that a path names or a folder holds.

    Of several in a folder, the preferred one counts, then the one that the
    folder's state file names, then the one with the highest number.

    Args:
      path: a prefix, or a folder.
      preferred: the prefix, in a folder, of the checkpoint to take first.
    """
    if files.gfile.exists(f"{path}.index"):
        return path
    found = [name.removesuffix(".index") for name in files.matching(path, "*.index")]
    if not found:
        return None
    if f"{path}/{preferred}" in found:
        return f"{path}/{preferred}"
    newest = tf.train.latest_checkpoint(path)
    return newest if newest in found else max(found, key=_number)


def _number(prefix: str) -> tuple[int, str]:
    match = re.search(r"(\d+)$", prefix)
    return int(match.group()) if match else -1, prefix


def folder_of(prefix: str) -> str:
    """The folder that a checkpoint is in; it holds the configuration too.

    Raises:
      InputError: there is no bert_config.json.
    """
    folder = os.path.dirname(prefix) or "."
    if not files.gfile.exists(f"{folder}/bert_config.json"):
        raise InputError(
            f"{folder}: has a checkpoint, but no bert_config.json; copy it and vocab.txt from the "
            "model that the training began with."
        )
    return folder


def names(prefix: str) -> list[str]:
    """The names of all variables, sorted.

    Raises:
      InputError: the checkpoint is damaged.
    """
    return sorted(_open(prefix).get_variable_to_shape_map())


def read(prefix: str, wanted: Callable[[str], bool]) -> dict[str, np.ndarray]:
    """The variables whose names are wanted, in the order of names.

    Raises:
      InputError: the checkpoint is damaged.
    """
    reader = _open(prefix)
    try:
        return {name: reader.get_tensor(name) for name in names(prefix) if wanted(name)}
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        raise _damaged(prefix, error) from error


def _open(prefix: str) -> Any:  # TensorFlow has no public name for its readers
    try:
        return tf.train.load_checkpoint(prefix)
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        raise _damaged(prefix, error) from error


def _damaged(prefix: str, error: Exception) -> InputError:
    return InputError(
        f"{prefix}: the checkpoint is damaged ({str(error).splitlines()[0]}); copy it again."
    )
