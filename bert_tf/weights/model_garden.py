"""TF 2 checkpoints of TensorFlow Model Garden: its encoders (two generations) and pre-trainer.

Keys are paths of objects. Those of the older, functional encoder are first converted to those of
the newer one.
"""

import re
from typing import Any

import numpy as np

from bert_tf.models.config import BertConfig
from bert_tf.weights import own, tf_checkpoint
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.table import Table
from pipelines.common import json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_LAYER = "encoder/_transformer_layers/{i}"
_WORDS = "encoder/_embedding_layer/embeddings"
_TIED_WORDS = "masked_lm/embedding_table"
_TABLE = Table(
    {
        "encoder/embeddings/word_embeddings": _WORDS,
        "encoder/embeddings/position_embeddings": "encoder/_position_embedding_layer/embeddings",
        "encoder/embeddings/token_type_embeddings": "encoder/_type_embedding_layer/embeddings",
        "encoder/embeddings/norm": "encoder/_embedding_norm_layer",
        "encoder/block_{i}/attention/qkv": f"{_LAYER}/_attention_layer/_{{part}}_dense",
        "encoder/block_{i}/attention/output": f"{_LAYER}/_attention_layer/_output_dense",
        "encoder/block_{i}/attention_norm": f"{_LAYER}/_attention_layer_norm",
        "encoder/block_{i}/feed_forward/intermediate": f"{_LAYER}/_intermediate_dense",
        "encoder/block_{i}/feed_forward/output": f"{_LAYER}/_output_dense",
        "encoder/block_{i}/output_norm": f"{_LAYER}/_output_layer_norm",
        "encoder/pooler": "encoder/_pooler_layer",
        "masked_lm/transform": "masked_lm/dense",
        "masked_lm/norm": "masked_lm/layer_norm",
        "masked_lm/output_bias": "masked_lm/output_bias.Sbias",
        "next_sentence": "next_sentence/out_proj",
    },
    reshaped=True,  # attention kernels have a heads axis
)
_IGNORED = re.compile(r".*/\.OPTIMIZER_SLOT/.*|optimizer/.*|save_counter|global_step|_CHECKPOINT.*")
_KEYS = {
    "num_layers": "num_hidden_layers",
    "hidden_activation": "hidden_act",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
}
# Keys that select outputs and do not change them.
_OUTPUTS = (
    "backward_compatible",
    "output_range",
    "return_all_encoder_outputs",
    "return_attention_scores",
    "return_word_embeddings",
)
# The first layers of the functional encoder; blocks follow, then the pooler.
_FUNCTIONAL = (
    "_embedding_layer",
    "_position_embedding_layer",
    "_type_embedding_layer",
    "_embedding_norm_layer",
)


def read(path: str) -> Bundle:
    """Reads a folder, or the prefix of a checkpoint next to its bert_config.json.

    Raises:
      InputError: A file or a weight is missing, or does not match.
    """
    prefix = tf_checkpoint.find(path)
    assert prefix is not None  # the format was detected from it
    folder = tf_checkpoint.folder_of(prefix)
    config = _config(f"{folder}/{own.CONFIG}")
    variables = tf_checkpoint.read(
        prefix, lambda key: not _IGNORED.fullmatch(key.removesuffix(_VALUE))
    )
    found: dict[str, np.ndarray] = {}
    pooler: dict[str, np.ndarray] = {}
    for key, value in variables.items():
        name = key.removesuffix(_VALUE)
        if name.startswith("next_sentence..pooler_dense/"):
            pooler[f"encoder/_pooler_layer/{name.rsplit('/', 1)[1]}"] = value
        else:
            found[_modern_name(name, config.num_hidden_layers)] = value
    # The pooler trained by next-sentence prediction replaces the encoder's.
    weights = _TABLE.read(_untie(found, prefix) | pooler, config, prefix)
    vocabulary, settings = registry.find(folder), registry.read_settings(folder)
    return Bundle(config, weights, vocabulary, settings, place=path)


def _config(path: str) -> BertConfig:
    """The configuration, with the keys of google-research or of Model Garden's encoder."""
    values = json_files.read(path, dict[str, Any])
    if values.pop("norm_first", False):
        raise InputError(f"{path}: norm_first is not supported; BERT normalizes last.")
    values = {_KEYS.get(key, key): value for key, value in values.items()}
    width = values.pop("embedding_size", None)
    if width not in (None, values.get("hidden_size")):
        raise InputError(f"{path}: embedding_size {width} differs from hidden_size.")
    values = {key: value for key, value in values.items() if key not in _OUTPUTS}
    config = BertConfig.from_dict(values, path)
    if differences := config.differences("causal"):
        raise InputError(f"{path}: has {', '.join(differences)}; Model Garden's encoder is a BERT.")
    return config


def _modern_name(name: str, layers: int) -> str:
    """The name of a variable in the newer encoder."""
    name = name.replace("/encoder_network/", "/").replace(
        "/_attention_output_dense/", "/_attention_layer/_output_dense/"
    )
    if re.match(r"model/(layer_with_weights-|_)", name):
        name = name.replace("model/", "encoder/", 1)
    name = re.sub(r"^model/classification_heads/\d+/", "next_sentence/", name)
    match = re.fullmatch(r"encoder/layer_with_weights-(\d+)/(.*)", name)
    if not match:
        return name
    blocks = [f"_transformer_layers/{index}" for index in range(layers)]
    names, number = [*_FUNCTIONAL, *blocks], int(match.group(1))
    layer = names[number] if number < len(names) else "_pooler_layer"
    return f"encoder/{layer}/{match.group(2)}"


def _untie(found: dict[str, np.ndarray], place: str) -> dict[str, np.ndarray]:
    """Renames word embeddings that are stored as those of the masked LM head."""
    tied = found.pop(_TIED_WORDS, None)
    if tied is None:
        return found
    if _WORDS in found and not np.array_equal(found[_WORDS], tied):
        raise InputError(f"{place}: {_TIED_WORDS} differs from {_WORDS}; in BERT they are tied.")
    return found | {_WORDS: tied}
