"""Folders of Hugging Face transformers: config.json, model.safetensors, and a tokenizer."""

from typing import Any, TypedDict

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from bert_tf.weights import huggingface_config, huggingface_tokenizer, own
from bert_tf.weights.bundle import MASKED_LM, NEXT_SENTENCE, Bundle
from bert_tf.weights.huggingface_config import CONFIG
from bert_tf.weights.table import Table
from pipelines.common import files, json_files
from pipelines.common.errors import InputError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PREFIX = "bert."


class _Index(TypedDict):
    """Which file has which weight."""

    weight_map: dict[str, str]


_LAYER = "encoder.layer.{i}"
_ENCODER = {
    "encoder/embeddings/word_embeddings": "embeddings.word_embeddings.weight",
    "encoder/embeddings/position_embeddings": "embeddings.position_embeddings.weight",
    "encoder/embeddings/token_type_embeddings": "embeddings.token_type_embeddings.weight",
    "encoder/embeddings/norm/gamma": "embeddings.LayerNorm.weight",
    "encoder/embeddings/norm/beta": "embeddings.LayerNorm.bias",
    "encoder/block_{i}/attention/qkv/kernel": f"{_LAYER}.attention.self.{{part}}.weight",
    "encoder/block_{i}/attention/qkv/bias": f"{_LAYER}.attention.self.{{part}}.bias",
    "encoder/block_{i}/attention/output/kernel": f"{_LAYER}.attention.output.dense.weight",
    "encoder/block_{i}/attention/output/bias": f"{_LAYER}.attention.output.dense.bias",
    "encoder/block_{i}/attention_norm/gamma": f"{_LAYER}.attention.output.LayerNorm.weight",
    "encoder/block_{i}/attention_norm/beta": f"{_LAYER}.attention.output.LayerNorm.bias",
    "encoder/block_{i}/feed_forward/intermediate/kernel": f"{_LAYER}.intermediate.dense.weight",
    "encoder/block_{i}/feed_forward/intermediate/bias": f"{_LAYER}.intermediate.dense.bias",
    "encoder/block_{i}/feed_forward/output/kernel": f"{_LAYER}.output.dense.weight",
    "encoder/block_{i}/feed_forward/output/bias": f"{_LAYER}.output.dense.bias",
    "encoder/block_{i}/output_norm/gamma": f"{_LAYER}.output.LayerNorm.weight",
    "encoder/block_{i}/output_norm/beta": f"{_LAYER}.output.LayerNorm.bias",
    "encoder/pooler/kernel": "pooler.dense.weight",
    "encoder/pooler/bias": "pooler.dense.bias",
}
_PRETRAINING_HEADS = {
    "masked_lm/transform/kernel": "cls.predictions.transform.dense.weight",
    "masked_lm/transform/bias": "cls.predictions.transform.dense.bias",
    "masked_lm/norm/gamma": "cls.predictions.transform.LayerNorm.weight",
    "masked_lm/norm/beta": "cls.predictions.transform.LayerNorm.bias",
    "masked_lm/output_bias": "cls.predictions.bias",
    "next_sentence/kernel": "cls.seq_relationship.weight",
    "next_sentence/bias": "cls.seq_relationship.bias",
}
_IGNORED = r".*embeddings\.position_ids"
# Copies that some versions store of weights that are tied.
_TIED = {
    "cls.predictions.decoder.weight": f"{_PREFIX}embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
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


def _table(head_layer: str | None, prefix: str = _PREFIX) -> Table:
    names = {ours: f"{prefix}{theirs}" for ours, theirs in _ENCODER.items()} | _PRETRAINING_HEADS
    if head_layer:
        names["heads/{head}/kernel"] = f"{head_layer}.weight"
        names["heads/{head}/bias"] = f"{head_layer}.bias"
    return Table(names, lambda ours: ours.endswith("/kernel"), ignored=_IGNORED)


def read(path: str) -> Bundle:
    """Reads a folder; one that we wrote says more of its task than the format does.

    Raises:
      InputError: a file or a weight is missing, does not fit, or is pickled.
    """
    name = f"{path}/{CONFIG}"
    values = json_files.read(name, dict[str, Any])
    config = huggingface_config.read_config(values, name)
    weights = _drop_tied(_modernize(_load_weights(path)), path)
    prefix = _PREFIX if any(name.startswith(_PREFIX) for name in weights) else ""
    task, units, layer = huggingface_config.read_task(values, weights, path)
    task = _described(task, path) if task else None
    heads = [(task["name"], units)] if task else []
    found = _table(layer, prefix).read(weights, config, path, heads)
    huggingface_config.check_heads(values, found, path)
    return Bundle(
        config,
        found,
        huggingface_tokenizer.read_vocabulary(path, config.vocab_size),
        huggingface_tokenizer.read_settings(path),
        (task,) if task else (),
        path,
    )


def _described(task: dict[str, Any], path: str) -> dict[str, Any]:
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
        with files.open_binary(place) as file:
            data = file.read()
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


def _drop_tied(weights: dict[str, np.ndarray], path: str) -> dict[str, np.ndarray]:
    for copy, original in _TIED.items():
        if copy in weights:
            if not np.array_equal(weights[copy], weights.get(original)):
                raise InputError(
                    f"{path}: {copy} differs from {original}; BERT's output embeddings are tied "
                    "to its input embeddings."
                )
            weights = {name: value for name, value in weights.items() if name != copy}
    return weights


def write(model: Bundle, folder: str) -> None:
    """Writes a folder that transformers reads.

    What its files have no place for, such as the length of windows, stands in a
    tasks.json of ours beside them.

    Raises:
      InputError: the model has several tasks.
    """
    description = model.task() if model.tasks else None
    config = huggingface_config.from_bundle(model, description)
    layer = huggingface_config.head_layer(description)
    names = [description["name"]] if description else []
    prefix = "" if config["architectures"] == ["BertModel"] else _PREFIX
    kept = model.weights
    if description:  # their models of tasks have no heads besides
        kept = {k: v for k, v in kept.items() if not k.startswith((MASKED_LM, NEXT_SENTENCE))}
    weights = _table(layer, prefix).write(kept, model.config, names)
    json_files.write(f"{folder}/{CONFIG}", config)
    own.write_tasks(model, folder)
    if model.vocabulary:
        huggingface_tokenizer.write(model, folder)
    with (
        files.write_aside(f"{folder}/{WEIGHTS}") as partial,
        files.gfile.GFile(partial, "wb") as file,
    ):
        file.write(safetensors.numpy.save(weights, {"format": "pt"}))
