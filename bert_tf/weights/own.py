"""Our own folders: bert_config.json, vocab.txt, tokenizer_config.json, tasks.json, checkpoint/.

Pre-training leaves such a folder with several checkpoints; the newest whole one counts.
checksums.json covers all that decides the answers besides the weights, which have theirs in the
checkpoint.
"""

import os
import re
from collections.abc import Mapping

import numpy as np
from absl import logging

from bert_tf import tasks
from bert_tf.models import configs
from bert_tf.tasks import TaskEntry
from bert_tf.tasks.model import HeadShape
from bert_tf.training import checkpoints
from bert_tf.weights.bundle import Bundle, absent_groups, head_units, parameter_shapes
from pipelines.common import checksums, files, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import Vocabulary

CONFIG = "bert_config.json"
TASKS = "tasks.json"
CHECKPOINT = "checkpoint"
_CHECKED = (CONFIG, *registry.all_files(), registry.SETTINGS, TASKS)
# What may be part of the names of variables, signatures and files.
TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RUN_CHECKPOINTS = "checkpoints"
_DEPTH = 3  # of checkpoints in a folder: runs/<run>/kept

Shapes = Mapping[str, tuple[int, ...]]


def is_own(path: str) -> bool:
    """Whether a path is a folder of ours, or one of the checkpoints in it."""
    return home(path) is not None


def has_checkpoint(path: str) -> bool:
    """Whether a folder has a checkpoint where we keep them."""
    return any(files.gfile.isdir(f"{path}/{name}") for name in (CHECKPOINT, _RUN_CHECKPOINTS))


def home(path: str) -> str | None:
    """The folder of ours that a path is, or that a checkpoint is in; None for others."""
    folders = [path] if has_checkpoint(path) else []
    if checkpoints.is_checkpoint(path):
        above = os.path.abspath(path) if "://" not in path else path
        folders = [above := os.path.dirname(above) for _ in range(_DEPTH)]
    return next((f for f in folders if files.gfile.exists(f"{f}/{CONFIG}")), None)


def read(path: str) -> Bundle:
    """Reads a folder, or one of the checkpoints in it.

    Raises:
      InputError: a file is missing or damaged, or weights do not fit the configuration.
    """
    place = home(path) or path
    checksums.check(place)
    config = configs.load(f"{place}/{CONFIG}")
    folder = _whole(path) if place != path else _checkpoint_folder(path)
    prefix = checkpoints.MODEL_PREFIX
    weights = {
        name.removeprefix(prefix): value
        for name, value in checkpoints.read_arrays(folder, prefix).items()
    }
    described = read_tasks(place)
    check(weights, parameter_shapes(config, _heads(weights, described)), folder)
    tokens, settings = registry.find(place), registry.read_settings(place)
    return Bundle(config, weights, tokens, settings, described, path)


def _heads(weights: Mapping[str, np.ndarray], described: tuple[TaskEntry, ...]) -> list[HeadShape]:
    """The heads that there are weights of, as far as the descriptions of tasks tell of them."""
    of = {entry["name"]: tasks.load(entry) for entry in described}
    return [
        HeadShape.of(of[name])._replace(units=units) if name in of else HeadShape(name, units)
        for name, units in head_units(weights).items()
    ]


def read_tasks(path: str) -> tuple[TaskEntry, ...]:
    """The descriptions of tasks, of a folder that has some.

    Raises:
      InputError: they are not what we wrote.
    """
    name = f"{path}/{TASKS}"
    found = json_files.read(name, list[TaskEntry]) if files.gfile.exists(name) else []
    for task in found:
        check_task(task, name)
    return tuple(found)


def check_task(task: TaskEntry, place: str) -> None:
    """Raises InputError where the description of a task, or its name, cannot be one."""
    check_task_name(task["name"], place)
    tasks.check_entry(task, place)


def check_task_name(name: str, place: str) -> None:
    """Raises InputError where a task has a name that cannot be a file's."""
    if not TASK_NAME.fullmatch(name):
        raise InputError(
            f"{place}: {name!r} is no name of a task; use letters, digits, '.', '_' and '-'."
        )


def _checkpoint_folder(path: str) -> str:
    single = f"{path}/{CHECKPOINT}"
    if files.gfile.isdir(single):
        return _whole(single)
    several = checkpoints.Checkpoints(f"{path}/{_RUN_CHECKPOINTS}", {}, write=False)
    for step in reversed(several.steps()):
        damage = checkpoints.find_damage(several.path(step))
        if not damage:
            return several.path(step)
        logging.warning("%s; using the checkpoint before it.", damage)
    raise InputError(f"{path}: has no whole checkpoint.")


def _whole(folder: str) -> str:
    """A checkpoint's folder; an InputError if it is damaged."""
    damage = checkpoints.find_damage(folder)
    if damage:
        raise InputError(f"{damage}.")
    return folder


def check(weights: Mapping[str, np.ndarray], shapes: Shapes, place: str) -> None:
    """Checks that weights by our names are whole.

    Args:
      weights: of a model.
      shapes: `parameter_shapes` of its configuration.
      place: where they come from, for errors.

    Raises:
      InputError: a weight is missing, surplus or misshapen; it is named.
    """
    for name, value in weights.items():
        if name not in shapes:
            raise InputError(f"{place}: has the weight {name}, which the model has no place for.")
        if value.shape != shapes[name]:
            raise InputError(
                f"{place}: {name} has the shape {list(value.shape)}; the configuration says "
                f"{list(shapes[name])}."
            )
    absent = absent_groups(weights)
    for name in shapes:
        if name not in weights and not name.startswith(absent):
            raise InputError(f"{place}: lacks the weight {name}.")


def write(model: Bundle, folder: str) -> None:
    """Writes a folder."""
    write_sealed_description(model, folder)
    prefix = checkpoints.MODEL_PREFIX
    checkpoints.write_arrays(
        f"{folder}/{CHECKPOINT}", {f"{prefix}{k}": value for k, value in model.weights.items()}
    )


def write_sealed_description(model: Bundle, folder: str) -> None:
    """Writes all but the weights, and the checksums of it."""
    checksums.remove(folder)
    write_description(model, folder)
    checksums.write(folder, _CHECKED)


def write_description(model: Bundle, folder: str) -> None:
    """Writes all but the weights: configuration, vocabulary, tokenizer's settings and tasks."""
    model.config.save(f"{folder}/{CONFIG}")
    if model.vocabulary:
        _write_tokenizer(model, model.vocabulary, folder)
    write_tasks(model, folder)


def write_tokenizer(model: Bundle, folder: str) -> None:
    """Writes vocabulary and settings of the tokenizer alone; where they are already, nothing.

    Raises:
      InputError: the model has no vocabulary, or the folder has another.
    """
    vocabulary, there = model.require_vocabulary(), registry.find(folder)
    if there is None:
        _write_tokenizer(model, vocabulary, folder)
    elif (there, registry.read_settings(folder)) != (vocabulary, model.resolved_settings()):
        raise InputError(
            f"{folder}: has the tokenizer of another model than {model.place}; name another folder "
            "(--output; TFRECORDS= for make pretrain), or remove this one."
        )


def _write_tokenizer(model: Bundle, vocabulary: Vocabulary, folder: str) -> None:
    vocabulary.save(folder)
    json_files.write(f"{folder}/{registry.SETTINGS}", model.resolved_settings())


def write_tasks(model: Bundle, folder: str) -> None:
    """Writes the descriptions of tasks, if there are any."""
    if model.tasks:
        json_files.write(f"{folder}/{TASKS}", list(model.tasks))
