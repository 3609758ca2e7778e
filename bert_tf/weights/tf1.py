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

CHECKPOINT = "bert_model.ckpt"
_EPSILON = 1e-12  # of LayerNorm; fixed in the reference
_SPAN_HEAD = "cls/squad/output_weights"
_HEAD = "output_weights"
_LAYER = "bert/encoder/layer_{i}"
_NAMES = {
    "encoder/embeddings/word_embeddings": "bert/embeddings/word_embeddings",
    "encoder/embeddings/position_embeddings": "bert/embeddings/position_embeddings",
    "encoder/embeddings/token_type_embeddings": "bert/embeddings/token_type_embeddings",
    "encoder/embeddings/norm/gamma": "bert/embeddings/LayerNorm/gamma",
    "encoder/embeddings/norm/beta": "bert/embeddings/LayerNorm/beta",
    "encoder/block_{i}/attention/qkv/kernel": f"{_LAYER}/attention/self/{{part}}/kernel",
    "encoder/block_{i}/attention/qkv/bias": f"{_LAYER}/attention/self/{{part}}/bias",
    "encoder/block_{i}/attention/output/kernel": f"{_LAYER}/attention/output/dense/kernel",
    "encoder/block_{i}/attention/output/bias": f"{_LAYER}/attention/output/dense/bias",
    "encoder/block_{i}/attention_norm/gamma": f"{_LAYER}/attention/output/LayerNorm/gamma",
    "encoder/block_{i}/attention_norm/beta": f"{_LAYER}/attention/output/LayerNorm/beta",
    "encoder/block_{i}/feed_forward/intermediate/kernel": f"{_LAYER}/intermediate/dense/kernel",
    "encoder/block_{i}/feed_forward/intermediate/bias": f"{_LAYER}/intermediate/dense/bias",
    "encoder/block_{i}/feed_forward/output/kernel": f"{_LAYER}/output/dense/kernel",
    "encoder/block_{i}/feed_forward/output/bias": f"{_LAYER}/output/dense/bias",
    "encoder/block_{i}/output_norm/gamma": f"{_LAYER}/output/LayerNorm/gamma",
    "encoder/block_{i}/output_norm/beta": f"{_LAYER}/output/LayerNorm/beta",
    "encoder/pooler/kernel": "bert/pooler/dense/kernel",
    "encoder/pooler/bias": "bert/pooler/dense/bias",
    "masked_lm/transform/kernel": "cls/predictions/transform/dense/kernel",
    "masked_lm/transform/bias": "cls/predictions/transform/dense/bias",
    "masked_lm/norm/gamma": "cls/predictions/transform/LayerNorm/gamma",
    "masked_lm/norm/beta": "cls/predictions/transform/LayerNorm/beta",
    "masked_lm/output_bias": "cls/predictions/output_bias",
    "next_sentence/kernel": "cls/seq_relationship/output_weights",
    "next_sentence/bias": "cls/seq_relationship/output_bias",
}
# Optimizer slots and the step.
_IGNORED = r".*/adam_[mv]|.*/(lamb|Adam)(_\d)?|global_step|beta[12]_power"


def _table(span: bool) -> Table:
    prefix = "cls/squad/" if span else ""
    heads = {
        "heads/{head}/kernel": f"{prefix}output_weights",
        "heads/{head}/bias": f"{prefix}output_bias",
    }
    return Table(_NAMES | heads, lambda ours: ours.startswith(_OUTPUTS), ignored=_IGNORED)


# Output layers are kept [units, hidden_size].
_OUTPUTS = ("next_sentence/kernel", bundle.HEADS)


def find_checkpoint(path: str) -> str | None:
    """The prefix of the checkpoint that a path names or a folder holds."""
    return tf_checkpoint.find(path, CHECKPOINT)


def read(path: str) -> Bundle:
    """Reads a folder, or the prefix of a checkpoint beside its bert_config.json.

    Folders that we wrote say more than the format does: the tokenizer's settings
    and the name and labels of the task.

    Raises:
      InputError: a file or a weight is missing, or does not fit.
    """
    prefix = find_checkpoint(path)
    assert prefix is not None  # by it the format is known
    folder = tf_checkpoint.folder_of(prefix)
    config = BertConfig.load(f"{folder}/{own.CONFIG}")
    _check_bert(config, f"{folder}/{own.CONFIG}")
    weights = tf_checkpoint.read(prefix, lambda name: not re.fullmatch(_IGNORED, name))
    tasks: tuple[Mapping[str, Any], ...] = own.read_tasks(folder)
    span = _SPAN_HEAD in weights
    head = weights.get(_SPAN_HEAD if span else _HEAD)
    heads = []
    if head is None:
        tasks = ()
    else:
        tasks = tasks if len(tasks) == 1 else (_describe(len(head), span),)
        if (tasks[0]["shape"] == "span") != span:
            raise InputError(
                f"{folder}/{own.TASKS}: describes another task than that of the checkpoint's head; "
                "remove it."
            )
        heads = [(tasks[0]["name"], len(head))]
    found = _table(span).read(weights, config, prefix, heads)
    return Bundle(config, found, registry.find(folder), registry.read_settings(folder), tasks, path)


def _check_bert(config: EncoderConfig, place: str) -> None:
    """Raises InputError where the model is a relative of BERT."""
    if foreign := config.differences("causal"):
        raise InputError(
            f"{place}: has {', '.join(foreign)}; google-research/bert is of BERT only. Take "
            "another format."
        )


def _describe(units: int, span: bool) -> dict[str, Any]:
    """A task as far as its head shows it."""
    shape = "span" if span else "classification" if units > 1 else "regression"
    labels = [str(index) for index in range(units)] if shape == "classification" else []
    return {"name": shape, "shape": shape, "labels": labels}


def write(model: Bundle, folder: str) -> None:
    """Writes a folder that google-research/bert reads.

    Raises:
      InputError: the model computes what the format cannot express, or has several tasks.
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
        _tell_tokenizer(model.resolved_settings())
    _save(weights, f"{folder}/{CHECKPOINT}")


def _checked(config: EncoderConfig) -> BertConfig:
    """The configuration of a model; an InputError where google-research/bert would not do as it."""
    _check_bert(config, "the model")
    assert isinstance(config, BertConfig)  # else it has more than BERT
    if config.causal:
        raise InputError("google-research/bert has no left-to-right encoder; write another format.")
    if config.hidden_act == "gelu_erf":
        raise InputError(
            "google-research/bert computes gelu with tanh only; this model was trained with the "
            "exact one (gelu_erf). To write it all the same, convert it to bert_tf first, set "
            "hidden_act to gelu in the bert_config.json there and remove checksums.json; outputs "
            "then differ by about 1e-3."
        )
    if config.layer_norm_eps != _EPSILON:
        raise InputError(
            f"google-research/bert adds {_EPSILON} to the variance of LayerNorm, this model "
            f"{config.layer_norm_eps}. To write it all the same, convert it to bert_tf first and "
            f"set layer_norm_eps to {_EPSILON} in the bert_config.json there and remove "
            "checksums.json; outputs then differ a little."
        )
    return config


def _tell_tokenizer(settings: TokenizerSettings) -> None:
    """Says how to run google-research's scripts, whose tokenizer has a flag and no file."""
    logging.info("run its scripts with --do_lower_case=%s", settings["lower_case"])
    if settings["strip_accents"] != settings["lower_case"]:
        logging.warning(
            "google-research/bert drops accents whenever it lower-cases; this model does not do "
            "both, so its tokens of words with accents differ."
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
