"""Our own folders: bert_config.json, vocab.txt, tokenizer_config.json, tasks.json, checkpoint/.

Pre-training leaves such a folder with several checkpoints; the newest whole one counts.
"""

from collections.abc import Mapping

import numpy as np
from absl import logging

from bert_tf import checkpoints
from bert_tf.config import BertConfig
from bert_tf.weights.bundle import HEADS, Bundle, parameter_shapes
from pipelines import files, vocabulary
from pipelines.errors import InputError

CONFIG = "bert_config.json"
VOCABULARY = "vocab.txt"
TOKENIZER = "tokenizer_config.json"
TASKS = "tasks.json"
CHECKPOINT = "checkpoint"
_RUN_CHECKPOINTS = "checkpoints"

Shapes = Mapping[str, tuple[int, ...]]


def is_own(path: str) -> bool:
    """Whether a folder has a checkpoint of ours."""
    return any(files.gfile.isdir(f"{path}/{name}") for name in (CHECKPOINT, _RUN_CHECKPOINTS))


def read(path: str) -> Bundle:
    """Reads a folder.

    Raises:
      InputError: a file is missing or damaged, or weights do not fit the configuration.
    """
    config = BertConfig.load(f"{path}/{CONFIG}")
    folder = _checkpoint_folder(path)
    prefix = checkpoints.MODEL_PREFIX
    weights = {
        name.removeprefix(prefix): value
        for name, value in checkpoints.read_arrays(folder, prefix).items()
    }
    tasks = files.read_json(f"{path}/{TASKS}") if files.gfile.exists(f"{path}/{TASKS}") else []
    heads = {name.split("/")[1]: weights[name].size for name in weights if _is_head_bias(name)}
    check(weights, parameter_shapes(config, list(heads.items())), folder)
    if set(heads) != {task["name"] for task in tasks}:
        raise InputError(f"{path}: {TASKS} does not describe the heads of the checkpoint.")
    settings = f"{path}/{TOKENIZER}"
    vocab = f"{path}/{VOCABULARY}"
    return Bundle(
        config,
        weights,
        tuple(vocabulary.load(vocab)) if files.gfile.exists(vocab) else None,
        files.read_json(settings) if files.gfile.exists(settings) else None,
        tuple(tasks),
    )


def _is_head_bias(name: str) -> bool:
    return name.startswith(HEADS) and name.endswith("/bias")


def _checkpoint_folder(path: str) -> str:
    single = f"{path}/{CHECKPOINT}"
    if files.gfile.isdir(single):
        damage = checkpoints.find_damage(single)
        if damage:
            raise InputError(f"{damage}.")
        return single
    several = checkpoints.Checkpoints(f"{path}/{_RUN_CHECKPOINTS}", {}, write=False)
    for step in reversed(several.steps()):
        damage = checkpoints.find_damage(several.path(step))
        if not damage:
            return several.path(step)
        logging.warning("%s; using the checkpoint before it.", damage)
    raise InputError(f"{path}: has no whole checkpoint.")


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
    for name in shapes:
        group = name.rsplit("/", 1)[0]
        if name not in weights and (
            (name.startswith("encoder/") and not name.startswith("encoder/pooler/"))
            or any(other.startswith(f"{group}/") for other in weights)
        ):
            raise InputError(f"{place}: lacks the weight {name}.")


def write(model: Bundle, folder: str, task: str | None = None) -> None:
    """Writes a folder; with a task, of the heads that one only."""
    weights, tasks = model.weights, model.tasks
    if task:
        tasks = (model.task(task),)
        kept = f"{HEADS}{task}/"
        weights = {
            k: v for k, v in weights.items() if not k.startswith(HEADS) or k.startswith(kept)
        }
    model.config.save(f"{folder}/{CONFIG}")
    if model.vocabulary:
        vocabulary.save(model.vocabulary, f"{folder}/{VOCABULARY}")
        files.write_json(f"{folder}/{TOKENIZER}", model.resolved_settings())
    if tasks:
        files.write_json(f"{folder}/{TASKS}", list(tasks))
    prefix = checkpoints.MODEL_PREFIX
    checkpoints.write_arrays(
        f"{folder}/{CHECKPOINT}", {f"{prefix}{name}": value for name, value in weights.items()}
    )
