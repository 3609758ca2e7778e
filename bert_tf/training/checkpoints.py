"""Checkpoints, which appear only when complete and are verified before use."""

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from pipelines.common import files, manifest
from pipelines.common.errors import InputError

_NAME = "checkpoint-{step:08d}"
_PATTERN = re.compile(r"checkpoint-(\d{8,})$")
_DATA = "state"
_KEPT = "kept"
# Names of variables that belong to the model, not to the optimizer, begin with it.
MODEL_PREFIX = "model/"


class Checkpoints:
    """The checkpoints of a run, of which the newest few are kept.

    Args:
      folder: the folder of `checkpoint-<step>` folders.
      variables: the variables to save and restore, by name.
      keep: number of checkpoints to keep.
      write: whether this process writes, as the chief does.
      kept: steps whose checkpoints are kept in addition.

    Raises:
      InputError: checkpoints in a folder of this name cannot be read.
    """

    def __init__(
        self,
        folder: str,
        variables: dict[str, tf.Variable],
        keep: int = 3,
        write: bool = True,
        kept: frozenset[int] = frozenset(),
    ):
        if write:
            check_name(folder)
        self.folder = folder
        self._kept = kept
        self._keep = keep
        self._write = write
        self._variables = variables
        self._checkpoint = tf.train.Checkpoint(variables=variables)

    def all_finite(self) -> bool:
        """Whether no variable has a value that is NaN or infinite."""
        return all(
            bool(tf.reduce_all(tf.math.is_finite(variable)))
            for variable in self._variables.values()
            if variable.dtype.is_floating
        )

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending."""
        if not files.gfile.exists(self.folder):
            return []
        names = files.names_in(self.folder)
        return sorted(int(match.group(1)) for name in names if (match := _PATTERN.match(name)))

    def path(self, step: int) -> str:
        """The folder of a checkpoint."""
        return f"{self.folder}/{_NAME.format(step=step)}"

    def save(self, step: int) -> str:
        """Writes a checkpoint, then removes the oldest ones.

        Raises:
          InputError: the disk is full.
        """
        path = self.path(step)
        if not self._write or files.gfile.exists(path):
            return path
        _write(self._checkpoint, path)
        if step in self._kept:
            files.write_text(f"{path}/{_KEPT}", "")  # also for a later command without `kept`
        self._remove_oldest()
        return path

    def _remove_oldest(self) -> None:
        for old in self.steps()[: -self._keep]:
            is_kept = old in self._kept or files.gfile.exists(f"{self.path(old)}/{_KEPT}")
            if not is_kept:
                files.remove_tree(self.path(old))

    def restore_newest(self) -> int | None:
        """Restores the newest complete checkpoint and returns its step; None if there is none.

        A damaged checkpoint is named in a warning, and the one before it is used.

        Raises:
          InputError: a complete checkpoint is of another model, or one cannot be read.
        """
        for step in reversed(self.steps()):
            damage = find_damage(self.path(step))
            if damage:
                logging.warning("%s; using the checkpoint before it.", damage)
                continue
            self.restore(step)
            return step
        return None

    def restore(self, step: int) -> None:
        """Restores the checkpoint of a step.

        Raises:
          InputError: it is of another model.
        """
        remedy = "Name another output folder, or remove this one."
        _read(self._checkpoint, self.path(step), "model or optimizer", remedy)

    def restore_weights(self, path: str) -> None:
        """Restores the model's variables from the checkpoint folder of another run.

        Raises:
          InputError: it is damaged, or of another model.
        """
        damage = find_damage(path)
        if damage:
            raise InputError(f"{damage}.")
        weights = {k: v for k, v in self._variables.items() if k.startswith(MODEL_PREFIX)}
        checkpoint = tf.train.Checkpoint(variables=weights)
        _read(checkpoint, path, "model", "Choose another one.").expect_partial()

    def resume(self) -> int | None:
        """Restores the newest complete checkpoint, and removes what a killed run left behind.

        These are damaged and partial checkpoints, and more than are to be kept.

        Returns:
          The step; None if there is no checkpoint.

        Raises:
          InputError: a complete checkpoint is of another model, or one cannot be read.
        """
        restored = self.restore_newest()
        if self._write:
            for step in self.steps():
                if restored is None or step > restored:  # found to be damaged
                    files.remove_tree(self.path(step))
            for pattern in files.LEFT_BEHIND:
                for partial in files.matching(self.folder, pattern):
                    files.remove_tree(partial)
            self._remove_oldest()
        return restored


def is_checkpoint(path: str) -> bool:
    """Whether a folder is a checkpoint, complete or damaged."""
    return files.gfile.exists(f"{path}/{_DATA}.index")


def check_name(path: str) -> None:
    """Raises InputError for a path that TensorFlow, which looks for a pattern, would not find."""
    if found := re.search(r"[*?\[\\]", files.absolute(path)):
        raise InputError(
            f"{path}: checkpoints cannot be read from a path with {found[0]}; name another folder."
        )


def find_damage(path: str) -> str | None:
    """Describes the damage of a checkpoint folder; None if it is complete.

    A folder that another process is removing is damaged, too.

    Raises:
      InputError: a file cannot be read at this time; it may be sound.
    """
    try:
        sums = manifest.read_listed(f"{path}/{manifest.CHECKSUMS}")
    except InputError:
        return f"{path}: is damaged: {manifest.CHECKSUMS} is missing or unreadable"
    if f"{_DATA}.index" not in sums:
        return f"{path}: is damaged: {manifest.CHECKSUMS} does not list {_DATA}.index"
    for name, expected in sums.items():
        file = f"{path}/{name}"
        try:
            found = files.sha256(file)
        except InputError:
            return f"{path}: is damaged: {name} is missing, or not a file"
        except (OSError, tf.errors.OpError) as error:
            if not files.gfile.exists(file):
                return f"{path}: is damaged: {name} is missing"
            raise InputError(
                f"{file}: cannot be read ({str(error).splitlines()[0]}). Try again later; if it "
                f"is lost, remove {path}."
            ) from error
        if found != expected:
            return f"{path}: is damaged: the checksum of {name} is wrong"
    return None


def read_model(path: str) -> dict[str, np.ndarray]:
    """Reads the weights of the model in a checkpoint folder, by their names in the model."""
    reader = tf.train.load_checkpoint(f"{path}/{_DATA}")
    keys = {name: key for key in reader.get_variable_to_shape_map() if (name := _name_of(key))}
    return {
        name.removeprefix(MODEL_PREFIX): reader.get_tensor(key)
        for name, key in sorted(keys.items())
        if name.startswith(MODEL_PREFIX)
    }


def checksum(
    arrays: Mapping[str, np.ndarray | tf.Variable], description: str = "", prefix: str = ""
) -> str:
    """The SHA-256 of a description, and of the arrays whose names begin with a prefix."""
    digest = hashlib.sha256(description.encode())
    for name in sorted(arrays):
        if name.startswith(prefix):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def write_arrays(path: str, arrays: dict[str, np.ndarray]) -> None:
    """Writes arrays by name as a checkpoint folder, replacing an existing one.

    Raises:
      InputError: the disk is full, or the path has a character of patterns.
    """
    check_name(path)
    variables = {name: tf.Variable(value) for name, value in arrays.items()}
    _write(tf.train.Checkpoint(variables=variables), path)


def _name_of(key: str) -> str | None:
    """The name of a variable, from its key in a file of tf.train.Checkpoint; None for others."""
    match = re.fullmatch(r"variables/(.*)/\.ATTRIBUTES/VARIABLE_VALUE", key)
    if not match:
        return None
    return re.sub(r"\.(.)", lambda escape: {"S": "/"}.get(escape[1], escape[1]), match.group(1))


def _write(checkpoint: tf.train.Checkpoint, path: str) -> None:
    with files.folder_aside(path, replace=True) as partial:
        checkpoint.write(f"{partial}/{_DATA}")
        names = map(os.path.basename, files.matching(partial, f"{_DATA}.*"))
        manifest.write_sealed(f"{partial}/{manifest.CHECKSUMS}", {}, names)


def _read(checkpoint: tf.train.Checkpoint, path: str, what: str, remedy: str) -> Any:
    """Reads a checkpoint folder into all variables of `checkpoint`; returns the status."""
    try:
        return checkpoint.read(f"{path}/{_DATA}").assert_existing_objects_matched()
    except (ValueError, AssertionError, tf.errors.InvalidArgumentError) as error:
        raise InputError(
            f"{path}: is of another {what} ({str(error).splitlines()[0]}). {remedy}"
        ) from error
