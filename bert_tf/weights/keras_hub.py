"""Presets of KerasHub (formerly KerasNLP) on disk; keras_nlp reads their weights."""

import unicodedata
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from absl import logging

from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.weights import hdf5
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.table import Table
from pipelines.common import files, json_files, machine, optional
from pipelines.common.errors import InputError
from pipelines.tokenizers.vocabulary import TokenizerSettings
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary

_WEIGHTS = "model.weights.h5"
_INDEX = "model.weights.json"
_LAYER = "transformer_layer_{i}"
_TABLE = Table(
    {
        "encoder/embeddings/word_embeddings": "token_embedding/embeddings",
        "encoder/embeddings/position_embeddings": "position_embedding/embeddings",
        "encoder/embeddings/token_type_embeddings": "segment_embedding/embeddings",
        "encoder/embeddings/norm": "embeddings_layer_norm",
        "encoder/block_{i}/attention/qkv": f"{_LAYER}/self_attention_layer/{{part}}",
        "encoder/block_{i}/attention/output": f"{_LAYER}/self_attention_layer/attention_output",
        "encoder/block_{i}/attention_norm": f"{_LAYER}/self_attention_layer_norm",
        "encoder/block_{i}/feed_forward/intermediate": f"{_LAYER}/feedforward_intermediate_dense",
        "encoder/block_{i}/feed_forward/output": f"{_LAYER}/feedforward_output_dense",
        "encoder/block_{i}/output_norm": f"{_LAYER}/feedforward_layer_norm",
        "encoder/pooler": "pooled_dense",
    },
    reshaped=True,  # attention kernels have a heads axis
)


class _BackboneConfig(TypedDict):
    """The sizes of a BertBackbone, by its arguments; a preset also has a name and a dtype."""

    vocabulary_size: int
    num_layers: int
    num_heads: int
    hidden_dim: int
    intermediate_dim: int
    max_sequence_length: int
    num_segments: int
    dropout: float


class _Preset(TypedDict):
    registered_name: str | None
    config: dict[str, Any]


class _Tokenizer(TypedDict):
    config: dict[str, Any]


# Settings of tokenizers that are not followed, with the values that change no ids of ours.
_FIXED: dict[str, tuple[Any, ...]] = {
    "suffix_indicator": (None, "##"),
    "oov_token": (None, "[UNK]"),
    "split": (None, True),
    "sequence_length": (None,),
    "special_tokens": (None,),
    "special_tokens_in_strings": (None, False),
}


class _WeightsIndex(TypedDict):
    """The files of the weights of a sharded preset."""

    weight_map: dict[str, str | list[str]]


def read(path: str) -> Bundle:
    """Reads the encoder of a preset.

    The backbone is created from the sizes in the preset, as the description in a preset can name
    any class of any module, with any arguments.

    Heads are not read, with a warning: the masked LM head uses another gelu and epsilon than the
    encoder, which `BertConfig` does not support.

    Raises:
      InputError: The preset is not of a BERT, or a weight does not match.
    """
    place = f"{path}/config.json"
    described = json_files.read(place, _Preset)
    name = str(described["registered_name"])
    if not name.endswith(">BertBackbone"):
        raise InputError(f"{path}: is a preset of {name}, not of a BertBackbone.")
    if files.gfile.exists(f"{path}/task.json"):
        logging.warning("%s: its encoder is read, and not the head of its task.json.", path)
    sizes = json_files.check(described["config"], _BackboneConfig, place)
    config = _config(sizes, place)
    parameters = BertEncoder.unallocated(config).parameters
    machine.check_memory(4 * parameters, f"{path}: a model of {parameters:,} parameters")
    found = _weights(path, sizes)
    tokens, settings = _tokenizer(path)
    return Bundle(config, _TABLE.read(found, config, path), tokens, settings, place=path)


def _weights(path: str, sizes: _BackboneConfig) -> dict[str, np.ndarray]:
    """The weights by their names in the backbone, read with keras_nlp."""
    keras_nlp = optional.load("keras_nlp", "keras-hub")
    file = f"{path}/{_WEIGHTS}"
    parts = {file}
    if files.gfile.exists(f"{path}/{_INDEX}"):
        file = f"{path}/{_INDEX}"
        named = json_files.read(file, _WeightsIndex)["weight_map"].values()
        names = {n for each in named for n in ([each] if isinstance(each, str) else each)}
        parts = {files.inside(path, name, file) for name in names}
    if not all(map(files.gfile.exists, parts)):
        raise InputError(f"{path}: has no {_WEIGHTS}, or not all of its parts.")
    backbone = keras_nlp.models.BertBackbone(
        **{k: value for k, value in sizes.items() if k in _BackboneConfig.__annotations__}
    )
    _check_parts(sorted(parts), file, backbone)
    try:
        backbone.load_weights(file)
    except Exception as error:  # of any kind, from h5py or Keras
        reason = (str(error).strip().splitlines() or ["damaged"])[0]
        raise InputError(f"{file}: cannot be read ({reason}).") from error
    return {variable.path: np.asarray(variable) for variable in backbone.weights}


def _check_parts(parts: Sequence[str], file: str, backbone: Any) -> None:
    """Checks number and size of the weights in files, as Keras ignores some differences."""
    count = size = 0
    for part in parts:
        with hdf5.opened(part) as stored:
            count += len(stored)
            size += sum(map(hdf5.claimed_bytes, stored.values()))
    wanted, most = len(backbone.weights), 8 * backbone.count_params()
    if count != wanted or size > most:
        raise InputError(
            f"{file}: has {count} weights of {size:,} bytes, the model that its config.json "
            f"describes {wanted} of at most {most:,}."
        )


def _config(theirs: _BackboneConfig, place: str) -> BertConfig:
    values = {
        "vocab_size": theirs["vocabulary_size"],
        "hidden_size": theirs["hidden_dim"],
        "num_hidden_layers": theirs["num_layers"],
        "num_attention_heads": theirs["num_heads"],
        "intermediate_size": theirs["intermediate_dim"],
        "max_position_embeddings": theirs["max_sequence_length"],
        "type_vocab_size": theirs["num_segments"],
        "hidden_dropout_prob": theirs["dropout"],
        "attention_probs_dropout_prob": theirs["dropout"],
        "hidden_act": "gelu",  # always with tanh
    }
    return BertConfig.from_dict(values, place)


def _tokenizer(path: str) -> tuple[WordPieceVocabulary | None, TokenizerSettings | None]:
    if not files.gfile.exists(f"{path}/tokenizer.json"):
        return None, None
    place = f"{path}/tokenizer.json"
    stated = json_files.read(place, _Tokenizer)["config"]
    for key, values in _FIXED.items():
        if stated.get(key) not in values:
            raise InputError(f"{place}: {key} {stated[key]!r} is not supported; {values[-1]!r} is.")
    lower_case, strip = bool(stated.get("lowercase")), bool(stated.get("strip_accents"))
    tokens = WordPieceVocabulary.load(f"{path}/assets/tokenizer/vocabulary.txt")
    # Presets of uncased models keep accents, which their vocabularies have not.
    text = unicodedata.normalize("NFD", "".join(tokens.tokens))
    strip |= lower_case and not any(unicodedata.category(char) == "Mn" for char in text)
    return tokens, {"lower_case": lower_case, "strip_accents": strip}
