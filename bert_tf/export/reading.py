"""Reads the models of an export."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import tasks
from bert_tf.export import saved_model
from bert_tf.export.module import Assembly
from bert_tf.export.sources import ModelSource
from bert_tf.generation.settings import GenerationSettings
from bert_tf.models import configs
from bert_tf.weights.bundle import Bundle
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry

_MAX_REASON = 200  # characters
_VARIABLE = "weights/{}/.ATTRIBUTES/VARIABLE_VALUE"


def assembly(path: str, dtype: str) -> Assembly:
    """The models of an export, with their weights.

    Args:
      path: of a version.
      dtype: "float32" or "bfloat16", to compute in.

    Raises:
      InputError: it is not an export, or is damaged.
    """
    manifest: Any = saved_model.read_manifest(path)
    sources = [_source(model, manifest["signatures"], path) for model in manifest["models"]]
    found = Assembly(sources, dtype)
    for variable, value in zip(found.variables, _values(path, found.variables), strict=True):
        variable.assign(tf.cast(value, variable.dtype))
    return found


def _source(model: dict[str, Any], signatures: dict[str, Any], path: str) -> ModelSource:
    """A model of an export, without its weights."""
    vocabulary = registry.load(f"{path}/{model['vocabulary']}")
    config = configs.of_dict(model["config"], f"{path}/{saved_model.MANIFEST}")
    bundle = Bundle(config, {}, vocabulary, model["tokenizer"], place=path)
    source = ModelSource(path, bundle, data=model["data"], shared=str(model["encoder"]))
    if model["tasks"]:
        (task,) = (tasks.load(task, config.max_seq_length) for task in model["tasks"])
        return dataclasses.replace(source, task=task, head=task.name)
    chosen = model.get("generation")
    return dataclasses.replace(
        source,
        guesses_words="fill_mask" in signatures,
        generation=GenerationSettings(**chosen) if chosen else None,
        has_pooler="pooled_output" in signatures["embed"]["outputs"],
    )


def _values(path: str, variables: Sequence[tf.Variable]) -> list[np.ndarray]:
    """The values of variables in an export.

    Raises:
      InputError: they do not match, or are damaged.
    """
    names = [_VARIABLE.format(number) for number in range(len(variables))]
    try:
        reader = tf.train.load_checkpoint(f"{path}/variables/variables")
        shapes = reader.get_variable_to_shape_map()
        if all(shapes.get(n) == v.shape for n, v in zip(names, variables, strict=True)):
            return [reader.get_tensor(name) for name in names]
    except Exception as error:  # TensorFlow raises many types for damaged files
        raise damaged(f"{path}/variables", error) from error
    raise InputError(
        f"{path}: its variables are not those of the models in its manifest; export it again."
    )


def damaged(path: str, error: Exception) -> InputError:
    """The error to show where TensorFlow could not load something, in one line."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:_MAX_REASON]
    return InputError(f"{path}: cannot be loaded ({reason}); it is damaged. Copy it again.")
