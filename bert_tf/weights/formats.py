"""Detection, reading and writing of all formats."""

import dataclasses
import enum
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_tf import tasks
from bert_tf.models.config import BertConfig
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.models.families import FAMILIES, ModelFamily
from bert_tf.weights import (
    elmo,
    huggingface,
    keras_hub,
    model_garden,
    named_models,
    own,
    tf1,
    tf_checkpoint,
    tfhub,
)
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.huggingface import sentence_transformers, weight_files
from pipelines.common import files, hub, json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import kept_tokens, registry
from pipelines.tokenizers.settings import Keep
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary


class Format(enum.StrEnum):
    """Formats of models on disk."""

    BERT_TF = "bert_tf"  # ours
    TF1 = "tf1"  # google-research/bert
    HUGGINGFACE = "huggingface"  # transformers
    KERAS_HUB = "keras_hub"  # presets of KerasHub and KerasNLP; read only
    MODEL_GARDEN = "model_garden"  # TF 2 checkpoints of TensorFlow Model Garden; read only
    TF_HUB = "tf_hub"  # encoder SavedModels; read only
    ELMO = "elmo"  # the released weights of Peters et al. 2018; read only


_SAVED_MODEL = "saved_model.pb"
_ADAPTER = "adapter_config.json"
# Files that may be given instead of their folder.
_FILES = (huggingface.CONFIG, own.CONFIG, _SAVED_MODEL)
_READERS = {
    Format.BERT_TF: own.read,
    Format.TF1: tf1.read,
    Format.HUGGINGFACE: huggingface.read,
    Format.KERAS_HUB: keras_hub.read,
    Format.MODEL_GARDEN: model_garden.read,
    Format.TF_HUB: tfhub.read,
    Format.ELMO: elmo.read,
}
_WRITERS = {Format.BERT_TF: own.write, Format.TF1: tf1.write, Format.HUGGINGFACE: huggingface.write}
WRITABLE = tuple(_WRITERS)


def read(path: str | os.PathLike[str]) -> Bundle:
    """Reads a model in any of the formats.

    Args:
      path: A folder, a checkpoint in one of our folders, or a file in a folder: of a checkpoint
        (or its prefix), a configuration, model.safetensors, saved_model.pb, or weights in HDF5. Or
        a name in the cache of Hugging Face or KerasHub, such as "bert-base-uncased".

    Raises:
      InputError: There is no model, or it is damaged or inconsistent.
    """
    path = os.fspath(path)
    found = find(path)
    if not files.gfile.exists(path) and named_models.find(path):
        logging.info("%s: read from %s.", path, found)
    return _READERS[detect(found)](found)


def find(path: str) -> str:
    """The folder of a model, or the prefix of a checkpoint, at a path as for `read`."""
    if not files.gfile.exists(path):
        path = named_models.find(path) or path
    path = path if files.gfile.isdir(path) else _model_of(path)
    return sentence_transformers.encoder_folder(path.rstrip("/") or path)


def folder_of(path: str) -> str:
    """The folder of a model at a path as for `read`; for one in a cache, the current folder."""
    if not files.gfile.exists(path) and named_models.find(path):
        return "."
    path = path if files.gfile.isdir(path) else _model_of(path)
    folder = path if files.gfile.isdir(path) else os.path.dirname(path) or "."
    return own.find_folder(path) or folder


def _model_of(path: str) -> str:
    """The folder of a model, or the prefix of a checkpoint, from the path of one of its files."""
    folder, name = os.path.split(path)
    folder = folder or "."
    if name in _FILES:
        return folder
    if name.endswith((".safetensors", weight_files.INDEX)):
        known = weight_files.names(folder)
    elif name.endswith((elmo.OPTIONS, elmo.WEIGHTS)):
        known = [os.path.basename(each) for each in elmo.find(folder) or ()]
    else:
        return tf_checkpoint.prefix_of(path)
    if name not in known:
        raise InputError(
            f"{path}: is not a file of the model in {folder}; "
            + (f"its files are {', '.join(known)}." if known else "give the folder of a model.")
        )
    return folder


def detect(path: str) -> Format:
    """The format of the model at a path.

    Raises:
      InputError: The format is not recognized.
    """

    def has(name: str) -> bool:
        return files.gfile.exists(f"{path}/{name}")

    if own.find_folder(path):
        return Format.BERT_TF
    if has(_ADAPTER):
        raise InputError(
            f"{path}/{_ADAPTER}: adapters (LoRA, PEFT) are not read; merge it into its model with "
            "model.merge_and_unload().save_pretrained(folder), and read that folder."
        )
    if has(_SAVED_MODEL):
        return Format.TF_HUB
    if has(huggingface.CONFIG):
        config = json_files.read(f"{path}/{huggingface.CONFIG}", dict[str, Any])
        preset = "registered_name" in config
        return Format.KERAS_HUB if preset else Format.HUGGINGFACE
    if elmo.find(path):
        return Format.ELMO
    prefix = tf_checkpoint.find(path)
    if prefix is None and not files.gfile.exists(path):
        download = "One with its owner, such as google-bert/bert-base-uncased, is downloaded"
        if hub.is_name(path):
            download = f"The Hub is not asked for it, because {path.split('/')[0]} is a folder here"
        raise InputError(
            f"{path or 'the model'}: no such folder or checkpoint, and the caches of Hugging Face "
            f"and KerasHub have no model of that name. {download}; `bert-tf convert --help` lists "
            "formats."
        )
    if prefix is None:
        if own.has_checkpoint(path):
            raise InputError(f"{path}: has a checkpoint, but no {own.CONFIG}; copy it there.")
        if names := sentence_transformers.modules(path):
            raise InputError(
                f"{path}: is of sentence-transformers with the modules {', '.join(names)}; only "
                "models whose first module is a Transformer, with its config.json, can be read."
            )
        raise InputError(
            f"{path}: has no model of a known format. Known are a folder of bert_tf, a "
            "google-research or Model Garden checkpoint (bert_config.json and *.index), a "
            "Hugging Face folder (config.json and model.safetensors), a KerasHub preset, a TF Hub "
            "encoder (saved_model.pb), and a released ELMo (options.json and *.hdf5)."
        )
    names = tf_checkpoint.names(prefix)
    object_based = any(name.endswith("/.ATTRIBUTES/VARIABLE_VALUE") for name in names)
    return Format.MODEL_GARDEN if object_based else Format.TF1


def write(
    model: Bundle, folder: str | os.PathLike[str], target: Format | str = Format.BERT_TF
) -> None:
    """Writes a model; the folder appears when it is complete.

    Args:
      model: The model.
      folder: The folder, which must not exist or be empty.
      target: One of WRITABLE, or its name, such as "huggingface".

    Raises:
      InputError: The folder exists, or the format is unknown or does not support the model; foreign
        formats support at most one task.
    """
    if target not in WRITABLE:
        raise InputError(f"{target!r} is not a format to write; use one of {', '.join(WRITABLE)}.")
    if target != Format.BERT_TF:
        check_heads(model, str(target))
    with files.folder_aside(os.fspath(folder).rstrip("/")) as partial:
        _WRITERS[Format(target)](model, partial)


def check_heads(model: Bundle, target: str) -> None:
    """Raises InputError if other programs do not support the head of a task."""
    for task in map(tasks.load, model.tasks):
        if task.head.crf:
            raise InputError(
                f"{model.place}: {task.name} has a CRF, which {target} does not support; write it "
                "as bert_tf, or fine-tune without --crf."
            )
        if not task.head.is_plain:
            raise InputError(
                f"{model.place}: {task.name} has a head that {target} does not support (a BiLSTM, "
                "layers below the last, or pairs in both orders); write it as bert_tf."
            )
        if (keep := getattr(task, "keep", Keep.HEAD)) != Keep.HEAD:
            logging.warning(
                "%s: keeps another part of long texts (--keep=%s) than programs that read %s, "
                "which cut the end off.",
                *(task.name, keep, target),
            )
        if getattr(task, "thresholds", ()):
            logging.warning(
                "%s: has a threshold for each label, where programs that read %s take 0.5.",
                *(task.name, target),
            )
        windows = getattr(task, "windows", 1)
        if windows > 1:
            logging.warning(
                "%s: reads long texts in %d windows; programs that read %s cut them.",
                *(task.name, windows, target),
            )
        # In families that are always causal, other programs use the last token, too.
        family = FAMILIES.get(model.config.model_type, ModelFamily())
        last = isinstance(model.config, BertConfig) and model.config.pools_last
        causal = model.config.causal and not family.values.get("causal")
        if causal and last and task.reads_pooled:
            raise InputError(
                f"{model.place}: {task.name} reads the last token, as the model is causal, but "
                f"programs that read {target} use the first one; write it as bert_tf."
            )


def with_tokenizer(model: Bundle, vocab: str | None, chosen: Mapping[str, bool]) -> Bundle:
    """A copy of a model with the vocabulary at a path, if given, and these tokenizer settings.

    Raises:
      InputError: The size of the vocabulary differs from that of the model's own (except for an
        ELMo), or it does not match the model or the settings.
    """
    old = dict(model.tokenizer_settings or {})
    kept: TokenizerSettings = {}
    if vocab:
        if isinstance(model.config, ElmoConfig):
            model = elmo.with_words(model, registry.load(vocab))
        else:
            model = dataclasses.replace(model, vocabulary=_vocabulary(model, vocab))
        kept = {"lower_case": old["lower_case"]} if "lower_case" in old else {}
    if model.vocabulary:
        model.vocabulary.check_settings({**kept, **chosen}, vocab or model.place)
    # Stripping of accents continues to follow lower-casing.
    if old.get("strip_accents") == old.get("lower_case"):
        old.pop("strip_accents", None)
    settings: TokenizerSettings | None = {**old, **chosen} or None
    return dataclasses.replace(model, tokenizer_settings=settings)


def _vocabulary(model: Bundle, path: str) -> Vocabulary:
    vocabulary = registry.load(path)
    if model.vocabulary and len(vocabulary) != len(model.vocabulary):
        raise InputError(
            f"{path}: has {len(vocabulary)} tokens, the model's own vocabulary "
            f"{len(model.vocabulary)}; a new one may rename tokens, but must not renumber them."
        )
    whole = kept_tokens.of(model.tokenizer_settings or {})
    if lost := [token for token in whole if token not in vocabulary.tokens]:
        raise InputError(
            f"{path}: lacks {', '.join(lost)}, which the model's tokenizer finds whole; keep the "
            "names of these tokens."
        )
    return vocabulary
