"""TF 2 checkpoints of TensorFlow Model Garden: its encoders (two generations) and pre-trainer.

Keys are paths of objects. Those of the older, functional encoder and of the
newer one are brought to the names of the newer one before they are looked up.
"""

import re
from typing import Any

import numpy as np

from bert_tf.models.config import BertConfig
from bert_tf.weights import own, tf1, tf_checkpoint
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.table import Table
from pipelines.common import json_files
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_LAYER = "encoder/_transformer_layers/{i}"
_NAMES = {
    "encoder/embeddings/word_embeddings": "encoder/_embedding_layer/embeddings",
    "encoder/embeddings/position_embeddings": "encoder/_position_embedding_layer/embeddings",
    "encoder/embeddings/token_type_embeddings": "encoder/_type_embedding_layer/embeddings",
    "encoder/embeddings/norm/gamma": "encoder/_embedding_norm_layer/gamma",
    "encoder/embeddings/norm/beta": "encoder/_embedding_norm_layer/beta",
    "encoder/block_{i}/attention/qkv/kernel": f"{_LAYER}/_attention_layer/_{{part}}_dense/kernel",
    "encoder/block_{i}/attention/qkv/bias": f"{_LAYER}/_attention_layer/_{{part}}_dense/bias",
    "encoder/block_{i}/attention/output/kernel": f"{_LAYER}/_attention_layer/_output_dense/kernel",
    "encoder/block_{i}/attention/output/bias": f"{_LAYER}/_attention_layer/_output_dense/bias",
    "encoder/block_{i}/attention_norm/gamma": f"{_LAYER}/_attention_layer_norm/gamma",
    "encoder/block_{i}/attention_norm/beta": f"{_LAYER}/_attention_layer_norm/beta",
    "encoder/block_{i}/feed_forward/intermediate/kernel": f"{_LAYER}/_intermediate_dense/kernel",
    "encoder/block_{i}/feed_forward/intermediate/bias": f"{_LAYER}/_intermediate_dense/bias",
    "encoder/block_{i}/feed_forward/output/kernel": f"{_LAYER}/_output_dense/kernel",
    "encoder/block_{i}/feed_forward/output/bias": f"{_LAYER}/_output_dense/bias",
    "encoder/block_{i}/output_norm/gamma": f"{_LAYER}/_output_layer_norm/gamma",
    "encoder/block_{i}/output_norm/beta": f"{_LAYER}/_output_layer_norm/beta",
    "encoder/pooler/kernel": "encoder/_pooler_layer/kernel",
    "encoder/pooler/bias": "encoder/_pooler_layer/bias",
    "masked_lm/transform/kernel": "masked_lm/dense/kernel",
    "masked_lm/transform/bias": "masked_lm/dense/bias",
    "masked_lm/norm/gamma": "masked_lm/layer_norm/gamma",
    "masked_lm/norm/beta": "masked_lm/layer_norm/beta",
    "masked_lm/output_bias": "masked_lm/output_bias.Sbias",
    "next_sentence/kernel": "next_sentence/out_proj/kernel",
    "next_sentence/bias": "next_sentence/out_proj/bias",
}
# Kernels of attention keep heads as an axis of their own.
_TABLE = Table(_NAMES, reshaped=True)
_WORDS = _NAMES["encoder/embeddings/word_embeddings"]
_TIED_WORDS = "masked_lm/embedding_table"
_IGNORED = re.compile(r".*/\.OPTIMIZER_SLOT/.*|optimizer/.*|save_counter|global_step|_CHECKPOINT.*")
_KEYS = {
    "num_layers": "num_hidden_layers",
    "hidden_activation": "hidden_act",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
}
# Keys that choose among outputs, and do not change any.
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
    """Reads a folder, or the prefix of a checkpoint beside its bert_config.json.

    Raises:
      InputError: a file or a weight is missing, or does not fit.
    """
    prefix = tf1.find_checkpoint(path)
    assert prefix is not None  # by it the format is known
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
    # The pooler that next-sentence prediction has trained counts, not the encoder's.
    weights = _TABLE.read(_untie(found, prefix) | pooler, config, prefix)
    return Bundle(config, weights, registry.find(folder), place=path)


def _config(path: str) -> BertConfig:
    """The configuration, by the names of google-research or of Model Garden's encoder."""
    values = json_files.read(path, dict[str, Any])
    if values.pop("norm_first", False):
        raise InputError(f"{path}: norm_first is not BERT's.")
    values = {_KEYS.get(key, key): value for key, value in values.items()}
    width = values.pop("embedding_size", None)
    if width not in (None, values.get("hidden_size")):
        raise InputError(f"{path}: embedding_size {width} differs from hidden_size.")
    values = {key: value for key, value in values.items() if key not in _OUTPUTS}
    config = BertConfig.from_dict(values, path)
    if foreign := config.differences("causal"):
        raise InputError(f"{path}: has {', '.join(foreign)}; Model Garden's encoder is BERT's.")
    return config


def _modern_name(name: str, layers: int) -> str:
    """The name that the newer encoder gives a variable."""
    name = name.replace("/encoder_network/", "/").replace(
        "/_attention_output_dense/", "/_attention_layer/_output_dense/"
    )
    if re.match(r"model/(layer_with_weights-|_)", name):
        name = name.replace("model/", "encoder/", 1)
    name = re.sub(r"^model/classification_heads/\d+/", "next_sentence/", name)
    match = re.fullmatch(r"encoder/layer_with_weights-(\d+)/(.*)", name)
    if not match:
        return name
    number = int(match.group(1))
    if number < len(_FUNCTIONAL):
        layer = _FUNCTIONAL[number]
    elif number < len(_FUNCTIONAL) + layers:
        layer = f"_transformer_layers/{number - len(_FUNCTIONAL)}"
    else:
        layer = "_pooler_layer"
    return f"encoder/{layer}/{match.group(2)}"


def _untie(found: dict[str, np.ndarray], place: str) -> dict[str, np.ndarray]:
    """Word embeddings stand under the name of the encoder, or of the masked LM head."""
    tied = found.pop(_TIED_WORDS, None)
    if tied is None:
        return found
    if _WORDS in found and not np.array_equal(found[_WORDS], tied):
        raise InputError(f"{place}: {_TIED_WORDS} differs from {_WORDS}; BERT's are tied.")
    return found | {_WORDS: tied}
