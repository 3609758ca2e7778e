"""Checkpoints of google-research/bert: bert_config.json, vocab.txt, bert_model.ckpt.*."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.config import BertConfig
from bert_tf.weights import bundle, own, tf_checkpoint
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.table import Table
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import TokenizerSettings

_EPSILON = 1e-12  # of LayerNorm; fixed in the reference
_SPAN_HEAD = "cls/squad/output_weights"
_HEAD = "output_weights"
_LAYER = "bert/encoder/layer_{i}"
_NAMES = {
    "encoder/embeddings": "bert/embeddings",
    "encoder/embeddings/norm": "bert/embeddings/LayerNorm",
    "encoder/block_{i}/attention/qkv": f"{_LAYER}/attention/self/{{part}}",
    "encoder/block_{i}/attention/output": f"{_LAYER}/attention/output/dense",
    "encoder/block_{i}/attention_norm": f"{_LAYER}/attention/output/LayerNorm",
    "encoder/block_{i}/feed_forward/intermediate": f"{_LAYER}/intermediate/dense",
    "encoder/block_{i}/feed_forward/output": f"{_LAYER}/output/dense",
    "encoder/block_{i}/output_norm": f"{_LAYER}/output/LayerNorm",
    "encoder/pooler": "bert/pooler/dense",
    "masked_lm/transform": "cls/predictions/transform/dense",
    "masked_lm/norm": "cls/predictions/transform/LayerNorm",
    "masked_lm": "cls/predictions",
    "next_sentence/kernel": "cls/seq_relationship/output_weights",
    "next_sentence/bias": "cls/seq_relationship/output_bias",
}
# Stored as [units, hidden_size].
_TRANSPOSED = ("next_sentence/kernel", bundle.HEADS)
# Optimizer slots and the step.
_IGNORED = r".*/adam_[mv]|.*/(lamb|Adam)(_\d)?|global_step|beta[12]_power"


def _table(span: bool) -> Table:
    prefix = "cls/squad/" if span else ""
    heads = {
        "heads/{head}/kernel": f"{prefix}output_weights",
        "heads/{head}/bias": f"{prefix}output_bias",
    }
    return Table(
        _NAMES | heads, transposed=lambda ours: ours.startswith(_TRANSPOSED), ignored=_IGNORED
    )


def read(path: str) -> Bundle:
    """Reads a folder, or the prefix of a checkpoint next to its bert_config.json.

    A tasks.json and tokenizer settings of ours are used if present.

    Raises:
      InputError: A file or a weight is missing, or does not match.
    """
    prefix = tf_checkpoint.find(path)
    assert prefix is not None  # the format was detected from it
    folder = tf_checkpoint.folder_of(prefix)
    config = BertConfig.load(f"{folder}/{own.CONFIG}")
    _check_bert(config, f"{folder}/{own.CONFIG}")
    weights = tf_checkpoint.read(prefix, lambda name: not re.fullmatch(_IGNORED, name))
    span = _SPAN_HEAD in weights
    head = weights.get(_SPAN_HEAD if span else _HEAD)
    tasks, heads = [], []
    if head is not None:
        tasks = [_task(folder, len(head), span)]
        heads = [(tasks[0]["name"], len(head))]
    found = _table(span).read(weights, config, prefix, heads)
    vocabulary, settings = registry.find(folder), registry.read_settings(folder)
    return Bundle(config, found, vocabulary, settings, tuple(tasks), path)


def _check_bert(config: EncoderConfig, place: str) -> None:
    """Raises InputError if the model is not a BERT."""
    if differences := config.differences("causal"):
        raise InputError(
            f"{place}: has {', '.join(differences)}; google-research/bert supports BERT only. Use "
            "another format."
        )


def _task(folder: str, units: int, span: bool) -> Mapping[str, Any]:
    """The task of a head: as described in a tasks.json of ours, or inferred from the head."""
    described = own.read_tasks(folder)
    if len(described) == 1:
        if (described[0]["shape"] == "span") != span:
            raise InputError(
                f"{folder}/{own.TASKS}: describes another task than that of the checkpoint's head; "
                "remove it."
            )
        return described[0]
    shape = "span" if span else "classification" if units > 1 else "regression"
    labels = [str(index) for index in range(units)] if shape == "classification" else []
    return {"name": shape, "shape": shape, "labels": labels}


def write(model: Bundle, folder: str) -> None:
    """Writes a folder that google-research/bert reads.

    Raises:
      InputError: The format does not support the model, or the model has several tasks.
    """
    config = _checked(model.config)
    description = model.task() if model.tasks else None
    table = _table(description is not None and description["shape"] == "span")
    names = [description["name"]] if description else []
    weights = table.write(model.weights, model.config, names)
    activation = "gelu" if config.hidden_act == "gelu_tanh" else config.hidden_act
    config = dataclasses.replace(config, hidden_act=activation)
    own.write_description(dataclasses.replace(model, config=config), folder)
    if model.vocabulary:
        _log_tokenizer_flags(model.resolved_settings())
    _save(weights, f"{folder}/{tf_checkpoint.NAME}")


def _checked(config: EncoderConfig) -> BertConfig:
    """The configuration; an InputError if google-research/bert would compute something else."""
    _check_bert(config, "the model")
    assert isinstance(config, BertConfig)  # `_check_bert` rejects others
    if config.causal:
        raise InputError("google-research/bert has no left-to-right encoder; use another format.")
    change = (
        "To write it anyway, convert it to bert_tf first, set {} in the bert_config.json there "
        "and remove checksums.json; outputs then differ by {}."
    )
    if config.hidden_act == "gelu_erf":
        raise InputError(
            "google-research/bert computes gelu with tanh only; this model was trained with the "
            f"exact one (gelu_erf). {change.format('hidden_act to gelu', 'about 1e-3')}"
        )
    if config.layer_norm_eps != _EPSILON:
        raise InputError(
            f"google-research/bert adds {_EPSILON} to the variance of LayerNorm, this model "
            f"{config.layer_norm_eps}. {change.format(f'layer_norm_eps to {_EPSILON}', 'little')}"
        )
    return config


def _log_tokenizer_flags(settings: TokenizerSettings) -> None:
    """Logs the flags for google-research's scripts, which do not read tokenizer settings."""
    logging.info("run its scripts with --do_lower_case=%s", settings["lower_case"])
    if settings["strip_accents"] != settings["lower_case"]:
        logging.warning(
            "google-research/bert strips accents if and only if it lower-cases; this model does "
            "not, so tokens of words with accents differ."
        )


def _save(weights: dict[str, np.ndarray], prefix: str) -> None:
    """Writes a name-based checkpoint, which TensorFlow 1 and 2 read."""
    names = sorted(weights)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[weights[name] for name in names],
    )
