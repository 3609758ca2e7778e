"""Presets of KerasHub (formerly KerasNLP) on disk, read by keras_nlp itself."""

from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.weights.bundle import Bundle
from bert_tf.weights.table import Table
from pipelines import files, vocabulary
from pipelines.errors import InputError

_LAYER = "transformer_layer_{i}"
_NAMES = {
    "encoder/embeddings/word_embeddings": "token_embedding/embeddings",
    "encoder/embeddings/position_embeddings": "position_embedding/embeddings",
    "encoder/embeddings/token_type_embeddings": "segment_embedding/embeddings",
    "encoder/embeddings/norm/gamma": "embeddings_layer_norm/gamma",
    "encoder/embeddings/norm/beta": "embeddings_layer_norm/beta",
    "encoder/block_{i}/attention/qkv/kernel": f"{_LAYER}/self_attention_layer/{{part}}/kernel",
    "encoder/block_{i}/attention/qkv/bias": f"{_LAYER}/self_attention_layer/{{part}}/bias",
    "encoder/block_{i}/attention/output/kernel": (
        f"{_LAYER}/self_attention_layer/attention_output/kernel"
    ),
    "encoder/block_{i}/attention/output/bias": (
        f"{_LAYER}/self_attention_layer/attention_output/bias"
    ),
    "encoder/block_{i}/attention_norm/gamma": f"{_LAYER}/self_attention_layer_norm/gamma",
    "encoder/block_{i}/attention_norm/beta": f"{_LAYER}/self_attention_layer_norm/beta",
    "encoder/block_{i}/feed_forward/intermediate/kernel": (
        f"{_LAYER}/feedforward_intermediate_dense/kernel"
    ),
    "encoder/block_{i}/feed_forward/intermediate/bias": (
        f"{_LAYER}/feedforward_intermediate_dense/bias"
    ),
    "encoder/block_{i}/feed_forward/output/kernel": f"{_LAYER}/feedforward_output_dense/kernel",
    "encoder/block_{i}/feed_forward/output/bias": f"{_LAYER}/feedforward_output_dense/bias",
    "encoder/block_{i}/output_norm/gamma": f"{_LAYER}/feedforward_layer_norm/gamma",
    "encoder/block_{i}/output_norm/beta": f"{_LAYER}/feedforward_layer_norm/beta",
    "encoder/pooler/kernel": "pooled_dense/kernel",
    "encoder/pooler/bias": "pooled_dense/bias",
}
# Their kernels of attention keep heads as an axis of their own.
_TABLE = Table(_NAMES, reshaped=True)


def read(path: str) -> Bundle:
    """Reads the encoder of a preset.

    Heads stay behind: their masked LM head computes with another gelu and another
    epsilon than the encoder, which a BERT configuration cannot say.

    Raises:
      InputError: it is not of BERT, or a weight does not fit.
    """
    # Heavy, and wanted here only.
    import keras_nlp

    described = files.read_json_object(f"{path}/config.json")
    name = str(described.get("registered_name", ""))
    if not name.endswith(">BertBackbone"):
        raise InputError(f"{path}: is a preset of {name}, not of a BertBackbone.")
    # Without a slash at the front keras_nlp would look for the preset on the net.
    local = path if "://" in path or path.startswith("/") else f"./{path}"
    try:
        backbone = keras_nlp.models.BertBackbone.from_preset(local)
    except (ValueError, OSError, KeyError) as error:
        raise InputError(f"{path}: keras_nlp cannot read it ({error}).") from error
    config = _config(backbone.get_config())
    found = {variable.path: np.asarray(variable) for variable in backbone.weights}
    tokens, settings = _tokenizer(path)
    return Bundle(config, _TABLE.read(found, config, path), tokens, settings, place=path)


def _config(theirs: dict[str, Any]) -> BertConfig:
    return BertConfig(
        vocab_size=theirs["vocabulary_size"],
        hidden_size=theirs["hidden_dim"],
        num_hidden_layers=theirs["num_layers"],
        num_attention_heads=theirs["num_heads"],
        intermediate_size=theirs["intermediate_dim"],
        max_position_embeddings=theirs["max_sequence_length"],
        type_vocab_size=theirs["num_segments"],
        hidden_dropout_prob=theirs["dropout"],
        attention_probs_dropout_prob=theirs["dropout"],
        hidden_act="gelu",  # with tanh, always
    )


def _tokenizer(path: str) -> tuple[tuple[str, ...] | None, dict[str, bool] | None]:
    if not files.gfile.exists(f"{path}/tokenizer.json"):
        return None, None
    stated = files.read_json_object(f"{path}/tokenizer.json").get("config")
    if not isinstance(stated, dict):
        raise InputError(f"{path}/tokenizer.json: has no config; it is not KerasHub's.")
    lower_case = bool(stated.get("lowercase"))
    tokens = vocabulary.load(f"{path}/assets/tokenizer/vocabulary.txt")
    # Vocabularies of uncased models know no accents, whatever the preset says.
    return tuple(tokens), {"lower_case": lower_case, "strip_accents": lower_case}
