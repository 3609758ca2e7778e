"""TF 1 checkpoints of google-research/bert, albert and electra.

A folder has bert_config.json (or albert_config.json; ELECTRA's may have none), a vocabulary, and
bert_model.ckpt.* or another checkpoint.
"""

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import tasks
from bert_tf.models.config import BertConfig
from bert_tf.models.families import FAMILIES
from bert_tf.weights import own, tf_checkpoint
from bert_tf.weights.bundle import HEADS, MASKED_LM, POOLER, Bundle
from bert_tf.weights.tf1_layouts import IGNORED, LAYOUTS, Layout
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import listed
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary

_EPSILON = 1e-12  # of LayerNorm; fixed in the programs


def read(path: str) -> Bundle:
    """Reads a folder, or the prefix of a checkpoint next to its configuration.

    A tasks.json and tokenizer settings of ours are used if present.

    Raises:
      InputError: A file or a weight is missing, or does not match.
    """
    prefix = tf_checkpoint.find(path)
    assert prefix is not None  # the format was detected from it
    weights = tf_checkpoint.read(prefix, lambda name: not re.fullmatch(IGNORED, name))
    family = _family(weights)
    layout = LAYOUTS[family]
    folder = os.path.dirname(prefix) or "."
    config = _config(folder, family, weights)
    _check(config, layout, f"{folder}/{own.CONFIG}")
    span = layout.span_head is not None and layout.span_head[0] in weights
    heads: list[tuple[str, int]] = []
    described: tuple[Mapping[str, Any], ...] = own.tasks_without_head(folder)
    if found_head := _head(layout, weights, span):
        name, units = found_head
        if (family, name) == ("electra", "chunk"):
            raise InputError(
                f"{prefix}: has the head of ELECTRA's task chunk, whose words are of the second "
                "segment; tagging here reads the first. Read the model that it was trained from."
            )
        task = _task(folder, units, span, name)
        described, heads = (task,), [(task["name"], units)]
    found = layout.table(span).read(weights, config, prefix, heads)
    vocabulary, settings = _vocabulary(folder, family), registry.read_settings(folder)
    return Bundle(config, found, vocabulary, settings, described, path)


def _family(weights: Mapping[str, np.ndarray]) -> str:
    """The model_type of a checkpoint, by the names of its weights; that of BERT if unknown."""
    for family in ("albert", "electra"):
        if any(name.startswith(LAYOUTS[family].marker) for name in weights):
            return family
    return "bert"


def _config(folder: str, family: str, weights: Mapping[str, np.ndarray]) -> BertConfig:
    """The configuration in the folder; of an ELECTRA without one, by the shapes of its weights.

    Raises:
      InputError: there is none, or it is invalid.
    """
    names = (f"{folder}/{own.CONFIG}", f"{folder}/{LAYOUTS[family].config}")
    found = next((name for name in names if files.gfile.exists(name)), None)
    if found is None and family == "electra":
        try:
            return _electra_config(weights)
        except (KeyError, IndexError, TypeError, ZeroDivisionError) as error:
            raise InputError(
                f"{folder}: has no bert_config.json, and it cannot be read off the weights "
                f"({error}); copy it there."
            ) from error
    if found is None:
        found = f"{tf_checkpoint.folder_of(f'{folder}/{tf_checkpoint.NAME}')}/{own.CONFIG}"
    values = json_files.read(found, dict[str, Any])
    if family == "bert" or found == names[0]:
        return BertConfig.from_dict(values, found)
    for key in ("num_hidden_groups", "inner_group_num"):
        if values.get(key, 1) != 1:
            raise InputError(f"{found}: {key} is {values[key]!r}; only 1 is supported.")
    followed = {*BertConfig().to_dict(), "embedding_size"}
    known = {key: value for key, value in values.items() if key in followed}
    if known.get("embedding_size", 0) == known.get("hidden_size"):  # the program projects nothing
        known["embedding_size"] = None
    return BertConfig.from_dict({**FAMILIES[family].values, **known}, found)


def _electra_config(weights: Mapping[str, np.ndarray]) -> BertConfig:
    words, positions, types = (
        weights[f"electra/embeddings/{name}_embeddings"]
        for name in ("word", "position", "token_type")
    )

    def width(prefix: str) -> int:
        return len(weights[f"{prefix}/encoder/layer_0/attention/output/dense/bias"])

    layers = {
        match[1] for name in weights if (match := re.match(r"electra/encoder/layer_(\d+)/", name))
    }
    hidden = width("electra")
    has_generator = any(name.startswith("generator/encoder/") for name in weights)
    return BertConfig(
        **{
            **FAMILIES["electra"].values,
            "vocab_size": len(words),
            "hidden_size": hidden,
            "embedding_size": None if words.shape[1] == hidden else words.shape[1],
            "num_hidden_layers": len(layers),
            "num_attention_heads": max(1, hidden // 64),
            "intermediate_size": len(weights["electra/encoder/layer_0/intermediate/dense/bias"]),
            "max_position_embeddings": len(positions),
            "type_vocab_size": len(types),
            "pooler_act": None,
            "pooler_dropout": 0.0,
            "generator_size": width("generator") / hidden if has_generator else None,
        }
    )


def _head(layout: Layout, weights: Mapping[str, np.ndarray], span: bool) -> tuple[str, int] | None:
    """Name and number of units of the head of a task; the name is "" where it has none."""
    _, bias = (layout.span_head if span else None) or layout.head
    pattern = bias.replace("{head}", "([^/]+)")
    matches = ((re.fullmatch(pattern, name), value) for name, value in weights.items())
    found = ((match.groups(), len(value)) for match, value in matches if match)
    return next((("".join(groups), units) for groups, units in found), None)


def _vocabulary(folder: str, family: str) -> Vocabulary | None:
    """The vocabulary in a folder; ALBERT's model may have another name (30k-clean.model)."""
    found = registry.find(folder)
    models = files.matching(folder, "*.model") if family == "albert" else []
    return registry.load(models[0]) if found is None and len(models) == 1 else found


def _check(config: BertConfig, layout: Layout, place: str) -> None:
    """Raises InputError if the program does not support the model."""
    differences = config.differences("causal", *layout.options)
    differences += [
        f"{name} {getattr(config, name)!r}"
        for name, value in layout.fixed.items()
        if getattr(config, name) != value
    ]
    if differences:
        raise InputError(
            f"{place}: has {', '.join(differences)}; {layout.program} does not support that. Use "
            "another format."
        )


def _task(folder: str, units: int, span: bool, name: str) -> Mapping[str, Any]:
    """The task of a head: as described in a tasks.json of ours, or inferred from the head."""
    described = own.read_tasks(folder)
    if len(described) == 1:
        if (described[0]["shape"] == "span") != span:
            raise InputError(
                f"{folder}/{own.TASKS}: describes another task than that of the checkpoint's head; "
                "remove it."
            )
        return described[0]
    if described:
        raise InputError(
            f"{folder}/{own.TASKS}: describes {len(described)} tasks, and the checkpoint has one "
            "head; leave its own task in the file, or remove the file."
        )
    shape = "span" if span else "classification" if units > 1 else "regression"
    labels = [str(index) for index in range(units)] if shape == "classification" else []
    return {"name": name or shape, "shape": shape, "labels": labels}


def write(model: Bundle, folder: str) -> None:
    """Writes a folder that the program of the model's family reads.

    Raises:
      InputError: The format does not support the model, or the model has several tasks.
    """
    layout = LAYOUTS.get(model.config.model_type, LAYOUTS["bert"])
    config = _checked(model, layout)
    description = model.task() if model.tasks else None
    span = description is not None and description["shape"] == "span"
    if layout is LAYOUTS["electra"]:
        _check_electra(model, span)
    has_head = description is not None and tasks.load(description).units
    names = [description["name"]] if description and has_head else []
    table = layout.table(span)
    lost = [n for n in model.weights if not n.startswith(HEADS) and not table.theirs(n)]
    if lost:
        raise InputError(
            f"{model.place}: the format tf1 of {model.config.model_type} has no place for "
            f"{listed(lost, 3)}; choose another --format."
        )
    weights = table.write(model.weights, model.config, names)
    activation = "gelu" if config.hidden_act == "gelu_tanh" else config.hidden_act
    config = dataclasses.replace(config, hidden_act=activation)
    own.write_description(dataclasses.replace(model, config=config), folder)
    if layout.config != own.CONFIG:
        groups = {"num_hidden_groups": 1, "inner_group_num": 1, "net_structure_type": 0}
        groups["embedding_size"] = config.embedding_width
        json_files.write(f"{folder}/{layout.config}", config.to_dict() | groups)
    if model.vocabulary and model.vocabulary.kind == "wordpiece":
        _log_tokenizer_flags(model.resolved_settings())
    _save(weights, f"{folder}/{tf_checkpoint.NAME}")


def _check_electra(model: Bundle, span: bool) -> None:
    """Raises InputError for what google-research/electra has no name or another layer for."""
    if span:
        problem = "its head for spans is another one"
    elif model.tasks and model.has(POOLER):
        problem = "its heads have no layer between [CLS] and the logits (pooler_act)"
    elif model.has(MASKED_LM):
        problem = "a masked LM is its generator, which is stored with the discriminator"
    else:
        return
    raise InputError(
        f"{model.place}: google-research/electra cannot read it, as {problem}; use another format."
    )


def _checked(model: Bundle, layout: Layout) -> BertConfig:
    """The configuration; an InputError if the program would compute something else."""
    config = model.config
    if not isinstance(config, BertConfig):
        raise InputError(
            f"{model.place}: {layout.program} does not support {config.differences()[0]}."
        )
    _check(config, layout, model.place)
    if config.embedding_size == config.hidden_size:
        raise InputError(
            f"{model.place}: {layout.program} does not project embeddings of the width of hidden "
            "states; use another format."
        )
    if config.causal:
        raise InputError(
            f"{model.place}: {layout.program} has no left-to-right encoder; use another format."
        )
    change = (
        "To write it anyway, convert it to bert_tf first, set {} in the bert_config.json there "
        "and remove checksums.json; outputs then differ by {}."
    )
    if config.hidden_act == "gelu_erf" and "hidden_act" not in layout.fixed:
        raise InputError(
            f"{layout.program} computes gelu with tanh only; this model was trained with the "
            f"exact one (gelu_erf). {change.format('hidden_act to gelu', 'about 1e-3')}"
        )
    if config.layer_norm_eps != _EPSILON:
        raise InputError(
            f"{layout.program} adds {_EPSILON} to the variance of LayerNorm, this model "
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
    if settings.get("kept_tokens"):
        logging.warning(
            "google-research/bert keeps no tokens whole but special ones; this model does: %s.",
            settings["kept_tokens"],
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
