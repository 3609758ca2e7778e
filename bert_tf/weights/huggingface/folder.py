"""Folders of Hugging Face transformers: config.json, model.safetensors, and a tokenizer."""

from collections.abc import Mapping
from typing import Any, TypedDict

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from bert_tf.weights import own
from bert_tf.weights.bundle import MASKED_LM, Bundle
from bert_tf.weights.huggingface import byte_bpe, families, wordpiece
from bert_tf.weights.huggingface import config as configs
from bert_tf.weights.huggingface.config import CONFIG
from bert_tf.weights.huggingface.family import Architecture, Family
from bert_tf.weights.table import Table
from pipelines.common import files, json_files, machine
from pipelines.common.errors import InputError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


class _Index(TypedDict):
    """Which file has which weight."""

    weight_map: dict[str, str]


# Buffers; and the pooler in files of classes that have another layer in its place.
_IGNORED = r".*embeddings\.position_ids|.*\.pooler\.dense\.(weight|bias)"
# Types of safetensors; those of integers are buffers, which are no weights.
_TYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "BOOL": np.bool_,
}

# By the kind of the vocabulary.
_TOKENIZERS: dict[str, Any] = {"wordpiece": wordpiece, "byte_bpe": byte_bpe}


def _table(family: Family, architecture: Architecture, prefix: str) -> Table:
    names = {
        **family.names,
        "encoder/pooler/kernel": f"{architecture.pooler}.weight",
        "encoder/pooler/bias": f"{architecture.pooler}.bias",
    }
    if architecture.head:
        names["heads/{head}/kernel"] = f"{architecture.head}.weight"
        names["heads/{head}/bias"] = f"{architecture.head}.bias"
    return Table(
        {ours: theirs.replace("{prefix}", prefix) for ours, theirs in names.items()},
        lambda ours: ours.endswith("/kernel"),
        ignored=_IGNORED,
    )


def read(path: str) -> Bundle:
    """Reads a folder; one that we wrote says more of its task than the format does.

    Raises:
      InputError: a file or a weight is missing, does not fit, or is pickled.
    """
    name = f"{path}/{CONFIG}"
    values = json_files.read(name, dict[str, Any])
    family, config = configs.read_config(values, name)
    weights = _modernize(_load_weights(path))
    prefix = family.prefix if any(name.startswith(family.prefix) for name in weights) else ""
    weights = _untie(weights, family, prefix, path)
    task, units = configs.read_task(values, weights, family, path)
    task = _described(task, path) if task else None
    architecture = family.architecture(values)
    table = _table(family, architecture, prefix)
    found = table.read(weights, config, path, [(task["name"], units)] if task else [])
    for group in architecture.needs:
        names = [theirs for ours, theirs in table.names.items() if ours.startswith(group)]
        if not any(ours.startswith(group) for ours in found):
            raise InputError(
                f"{path}: lacks the weights of {group[:-1]}; a {architecture.name} has them: "
                f"{', '.join(names)}."
            )
    configs.check(config, family, any(ours.startswith(MASKED_LM) for ours in found), name)
    vocabulary, settings = _TOKENIZERS[family.tokenizer].read(path, config.vocab_size)
    return Bundle(config, found, vocabulary, settings, (task,) if task else (), path)


def _described(task: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The task as our file beside theirs describes it; as theirs do where there is none."""
    ours = own.read_tasks(path)
    if not ours:
        return task
    if [(t["shape"], t["labels"]) for t in ours] != [(task["shape"], task["labels"])]:
        raise InputError(
            f"{path}: {own.TASKS} and {CONFIG} describe different tasks; remove {own.TASKS} if the "
            "model was trained on with another program."
        )
    return ours[0]


def _load_weights(path: str) -> dict[str, np.ndarray]:
    names = [WEIGHTS]
    if files.gfile.exists(f"{path}/{INDEX}"):
        index = json_files.read(f"{path}/{INDEX}", _Index)
        names = sorted(set(index["weight_map"].values()))
    weights: dict[str, np.ndarray] = {}
    for name in names:
        place = files.inside(path, name, f"{path}/{INDEX}")
        if not files.gfile.exists(place):
            raise InputError(f"{path}: has no {name}{_remedy(path)}.")
        data = files.read_whole(place, machine.memory())
        try:
            found = safetensors.deserialize(data)
        except safetensors.SafetensorError as error:
            raise InputError(f"{place}: is damaged ({error}).") from error
        weights |= {key: _array(key, value, place) for key, value in found}
    return weights


def _remedy(path: str) -> str:
    """What to do where weights are in a file that is not read."""
    again = "in transformers, save the model with save_pretrained(..., safe_serialization=True)"
    if files.matching(path, "pytorch_model*.bin"):
        return (
            f"; pytorch_model.bin is a pickle, which can run code of others and is never loaded: "
            f"{again}"
        )
    return (
        f"; tf_model.h5 is not read: {again}" if files.gfile.exists(f"{path}/tf_model.h5") else ""
    )


def _array(name: str, stored: dict[str, Any], place: str) -> np.ndarray:
    kind = _TYPES.get(stored["dtype"])
    if kind is None:
        raise InputError(f"{place}: {name} has the type {stored['dtype']}, which is not read.")
    return np.frombuffer(stored["data"], kind).reshape(stored["shape"])


def _modernize(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Old versions called the weights of a LayerNorm gamma and beta."""
    return {
        name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
            "LayerNorm.beta", "LayerNorm.bias"
        ): value
        for name, value in weights.items()
    }


def _untie(
    weights: dict[str, np.ndarray], family: Family, prefix: str, path: str
) -> dict[str, np.ndarray]:
    """The weights without copies of others; where a file has the copy only, it is the weight."""
    for copy, tied in family.tied.items():
        original = tied.replace("{prefix}", prefix)
        if copy in weights:
            if not np.array_equal(weights[copy], weights.get(original, weights[copy])):
                raise InputError(
                    f"{path}: {copy} differs from {original}; {family.title}'s output embeddings "
                    "are tied to its input embeddings."
                )
            weights = {original if name == copy else name: v for name, v in weights.items()}
    return weights


def write(model: Bundle, folder: str) -> None:
    """Writes a folder that transformers reads.

    What its files have no place for, such as the length of windows, stands in a
    tasks.json of ours beside them.

    Raises:
      InputError: the model has several tasks, or the format cannot express it.
    """
    architecture = configs.architecture_for(model)
    config = configs.from_bundle(model, architecture)
    family = families.find(model.config.model_type, model.place)
    if model.vocabulary and model.vocabulary.kind != family.tokenizer:
        raise InputError(
            f"{model.place}: a {family.title} of Hugging Face has a vocabulary of "
            f"{family.tokenizer}, and this one's is of {model.vocabulary.kind}; write it as "
            "bert_tf."
        )
    names = [model.task()["name"]] if model.tasks else []
    kept = {k: v for k, v in model.weights.items() if not k.startswith(architecture.lacks)}
    table = _table(family, architecture, "" if architecture.bare else family.prefix)
    weights = table.write(kept, model.config, names)
    json_files.write(f"{folder}/{CONFIG}", config)
    own.write_tasks(model, folder)
    if model.vocabulary:
        _TOKENIZERS[family.tokenizer].write(model, folder)
    with (
        files.write_aside(f"{folder}/{WEIGHTS}") as partial,
        files.gfile.GFile(partial, "wb") as file,
    ):
        file.write(safetensors.numpy.save(weights, {"format": "pt"}))
