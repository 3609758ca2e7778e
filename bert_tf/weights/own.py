"""Our model folders: bert_config.json, vocab.txt, tokenizer_config.json, tasks.json, checkpoint/.

Pre-training writes such a folder with several checkpoints, the newest complete one of which is
read. checksums.json covers all files that determine predictions, except for the weights, which have
checksums in the checkpoint.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from bert_tf import tasks
from bert_tf.models import configs
from bert_tf.tasks import TaskEntry
from bert_tf.tasks.model import HeadShape
from bert_tf.training import checkpoints
from bert_tf.weights.bundle import Bundle, check_complete, head_units, parameter_shapes
from pipelines.common import files, json_files, manifest
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry

CONFIG = "bert_config.json"
TASKS = "tasks.json"
CHECKPOINT = "checkpoint"
_CHECKED = (CONFIG, *registry.all_files(), registry.SETTINGS, TASKS)
# A task name is part of the names of variables, signatures and files.
TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RUN_CHECKPOINTS = "checkpoints"
_MAX_DEPTH = 3  # of checkpoints in a folder: runs/<run>/kept


def has_checkpoint(path: str) -> bool:
    """Whether a folder contains a checkpoint at one of our places."""
    return any(files.gfile.isdir(f"{path}/{name}") for name in (CHECKPOINT, _RUN_CHECKPOINTS))


def find_folder(path: str) -> str | None:
    """Our folder at a path, or around a checkpoint at that path; None if there is none."""
    folders = [path] if has_checkpoint(path) else []
    if checkpoints.is_checkpoint(path):
        above = files.absolute(path)
        folders = [above := os.path.dirname(above) for _ in range(_MAX_DEPTH)]
    return next((f for f in folders if files.gfile.exists(f"{f}/{CONFIG}")), None)


def read(path: str) -> Bundle:
    """Reads a folder, or one of the checkpoints in it.

    Raises:
      InputError: A file is missing or damaged, or weights do not match the configuration.
    """
    place = find_folder(path) or path
    manifest.check(f"{place}/{manifest.CHECKSUMS}")
    config = configs.load(f"{place}/{CONFIG}")
    folder = _complete(path) if place != path else _checkpoint_folder(path)
    weights = checkpoints.read_model(folder)
    described = read_tasks(place)
    check_complete(weights, parameter_shapes(config, _heads(weights, described)), folder)
    tokens, settings = registry.find(place), registry.read_settings(place)
    return Bundle(config, weights, tokens, settings, described, path)


def _heads(weights: Mapping[str, np.ndarray], described: tuple[TaskEntry, ...]) -> list[HeadShape]:
    """The heads of the weights; plain ones for tasks without a description."""
    of = {entry["name"]: tasks.load(entry) for entry in described}
    return [
        HeadShape.of(of[name])._replace(units=units) if name in of else HeadShape(name, units)
        for name, units in head_units(weights).items()
    ]


def read_tasks(path: str) -> tuple[TaskEntry, ...]:
    """The descriptions of tasks in a folder, if any; an InputError if one is invalid."""
    name = f"{path}/{TASKS}"
    found = json_files.read_optional(name, list[TaskEntry])
    for task in found:
        check_task(task, name)
    return tuple(found)


def tasks_without_head(path: str) -> tuple[TaskEntry, ...]:
    """The descriptions in a folder of tasks whose heads have no weights."""
    return tuple(task for task in read_tasks(path) if not tasks.load(task).own_head)


def check_task(task: TaskEntry, place: str) -> None:
    """Raises InputError if the description of a task is invalid."""
    check_task_name(task["name"], place)
    tasks.check_entry(task, place)


def check_task_name(name: str, place: str) -> None:
    """Raises InputError if the name of a task cannot be part of a file name."""
    if not TASK_NAME.fullmatch(name):
        raise InputError(
            f"{place}: {name!r} is not a task name; use letters, digits, '.', '_' and '-'."
        )


def _checkpoint_folder(path: str) -> str:
    single = f"{path}/{CHECKPOINT}"
    if files.gfile.isdir(single):
        return _complete(single)
    several = checkpoints.Checkpoints(f"{path}/{_RUN_CHECKPOINTS}", {}, write=False)
    for step in reversed(several.steps()):
        damage = checkpoints.find_damage(several.path(step))
        if not damage:
            return several.path(step)
        logging.warning("%s; using the previous checkpoint.", damage)
    raise InputError(f"{path}: has no complete checkpoint.")


def _complete(folder: str) -> str:
    """The folder of a checkpoint; an InputError if it is damaged."""
    damage = checkpoints.find_damage(folder)
    if damage:
        raise InputError(f"{damage}.")
    return folder


def write(model: Bundle, folder: str) -> None:
    """Writes a folder."""
    write_sealed_description(model, folder)
    prefix = checkpoints.MODEL_PREFIX
    checkpoints.write_arrays(
        f"{folder}/{CHECKPOINT}", {f"{prefix}{k}": value for k, value in model.weights.items()}
    )


def write_sealed_description(model: Bundle, folder: str) -> None:
    """Writes everything except the weights, with checksums."""
    seal = f"{folder}/{manifest.CHECKSUMS}"
    if files.gfile.exists(seal):  # of what is about to be overwritten
        files.gfile.remove(seal)
    write_description(model, folder)
    manifest.write_sealed(seal, {}, _CHECKED)


def write_description(model: Bundle, folder: str) -> None:
    """Writes configuration, vocabulary, tokenizer settings and tasks."""
    model.config.save(f"{folder}/{CONFIG}")
    if model.vocabulary:
        _write_tokenizer(model, folder)
    write_tasks(model, folder)


def identity(model: Bundle) -> dict[str, Any]:
    """All of a model that decides what it computes of a text, as JSON values."""
    vocabulary = model.vocabulary
    return {
        "weights_sha256": model.sha256(),
        "config": model.config.to_dict(),
        "vocabulary_sha256": vocabulary and vocabulary.sha256,
        "tokenizer": vocabulary and model.resolved_settings(),
        "tasks": list(model.tasks),
    }


def write_tokenizer(model: Bundle, folder: str) -> None:
    """Writes vocabulary and tokenizer settings, unless the folder already has them.

    Raises:
      InputError: The model has no vocabulary, or the folder has another.
    """
    vocabulary, there = model.require_vocabulary(), registry.find(folder)
    stated = registry.read_settings(folder)
    if there not in (None, vocabulary) or stated not in (None, model.resolved_settings()):
        raise InputError(
            f"{folder}: has the tokenizer of another model than {model.place}; name another folder "
            "(--output; TFRECORDS= of make), or remove this one."
        )
    if None in (there, stated):
        _write_tokenizer(model, folder)


def _write_tokenizer(model: Bundle, folder: str) -> None:
    model.require_vocabulary().save(folder)
    json_files.write(f"{folder}/{registry.SETTINGS}", model.resolved_settings())


def write_tasks(model: Bundle, folder: str) -> None:
    """Writes the descriptions of tasks, if there are any."""
    if model.tasks:
        json_files.write(f"{folder}/{TASKS}", list(model.tasks))
