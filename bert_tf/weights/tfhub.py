"""Encoders of TF Hub: reusable SavedModels as Model Garden exports them, and ours."""

import re
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.weights import own
from bert_tf.weights.bundle import Bundle, parameter_shapes
from bert_tf.weights.table import Table
from pipelines import files, vocabulary
from pipelines.errors import InputError

_LAYER = "transformer/layer_{i}"
_NAMES = {
    "encoder/embeddings/word_embeddings": "word_embeddings/embeddings",
    "encoder/embeddings/position_embeddings": "position_embedding/embeddings",
    "encoder/embeddings/token_type_embeddings": "type_embeddings/embeddings",
    "encoder/embeddings/norm/gamma": "embeddings/layer_norm/gamma",
    "encoder/embeddings/norm/beta": "embeddings/layer_norm/beta",
    "encoder/block_{i}/attention/qkv/kernel": f"{_LAYER}/self_attention/{{part}}/kernel",
    "encoder/block_{i}/attention/qkv/bias": f"{_LAYER}/self_attention/{{part}}/bias",
    "encoder/block_{i}/attention/output/kernel": f"{_LAYER}/self_attention/attention_output/kernel",
    "encoder/block_{i}/attention/output/bias": f"{_LAYER}/self_attention/attention_output/bias",
    "encoder/block_{i}/attention_norm/gamma": f"{_LAYER}/self_attention_layer_norm/gamma",
    "encoder/block_{i}/attention_norm/beta": f"{_LAYER}/self_attention_layer_norm/beta",
    "encoder/block_{i}/feed_forward/intermediate/kernel": f"{_LAYER}/intermediate/kernel",
    "encoder/block_{i}/feed_forward/intermediate/bias": f"{_LAYER}/intermediate/bias",
    "encoder/block_{i}/feed_forward/output/kernel": f"{_LAYER}/output/kernel",
    "encoder/block_{i}/feed_forward/output/bias": f"{_LAYER}/output/bias",
    "encoder/block_{i}/output_norm/gamma": f"{_LAYER}/output_layer_norm/gamma",
    "encoder/block_{i}/output_norm/beta": f"{_LAYER}/output_layer_norm/beta",
    "encoder/pooler/kernel": "pooler_transform/kernel",
    "encoder/pooler/bias": "pooler_transform/bias",
    "masked_lm/transform/kernel": "cls/predictions/transform/dense/kernel",
    "masked_lm/transform/bias": "cls/predictions/transform/dense/bias",
    "masked_lm/norm/gamma": "cls/predictions/transform/LayerNorm/gamma",
    "masked_lm/norm/beta": "cls/predictions/transform/LayerNorm/beta",
    "masked_lm/output_bias": "cls/predictions/output_bias/bias",
}
# Kernels of attention keep heads as an axis of their own.
_TABLE = Table(_NAMES, reshaped=True)
# Names may have a prefix of the module's own.
_NAME = re.compile(
    r"(?:.*/)?((?:word_embeddings|position_embedding|type_embeddings|embeddings/layer_norm"
    r"|transformer/layer_\d+|pooler_transform|cls/predictions)/.*):0"
)


def read(path: str) -> Bundle:
    """Reads a SavedModel: the encoder, its masked LM head if it has one, and its vocabulary.

    Ours bring their configuration. For others it follows from the shapes; gelu
    with tanh and the epsilon of LayerNorm are what every published encoder of
    BERT has.

    Raises:
      InputError: it cannot be loaded, or is no encoder of BERT.
    """
    try:
        module = tf.saved_model.load(path)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise InputError(f"{path}: cannot be loaded ({str(error).splitlines()[0]}).") from error
    parts = (module, getattr(module, "mlm", None))
    # The parts share the encoder's variables.
    variables = list({id(v): v for part in parts for v in getattr(part, "variables", ())}.values())
    if getattr(module, "config_file", None) is not None:
        return _read_ours(module, variables, path)
    found = _weights(variables, path)
    return Bundle(
        config := _config(found, path),
        _TABLE.read(found, config, path),
        _vocabulary(module),
        _tokenizer_settings(module),
        place=path,
    )


def _weights(variables: list[tf.Variable], path: str) -> dict[str, np.ndarray]:
    """All variables of floats, by their names without the prefix of the module.

    Raises:
      InputError: two have one name.
    """
    found: dict[str, np.ndarray] = {}
    for variable in variables:
        if not variable.dtype.is_floating:
            continue
        match = _NAME.fullmatch(variable.name)
        name = match.group(1) if match else variable.name
        if name in found:
            raise InputError(f"{path}: has {name} twice; it is no single encoder.")
        found[name] = variable.numpy()
    return found


def _read_ours(module: Any, variables: list[tf.Variable], path: str) -> Bundle:
    """What `bert_tf.exports.hub` wrote: variables have our names."""
    config = BertConfig.load(_asset(module.config_file))
    shapes = parameter_shapes(config)
    found = {
        name: variable.numpy()
        for variable in variables
        if (name := variable.name.removesuffix(":0")) in shapes
    }
    own.check(found, shapes, path)
    return Bundle(config, found, _vocabulary(module), _tokenizer_settings(module), place=path)


def _config(found: dict[str, np.ndarray], path: str) -> BertConfig:
    try:
        vocab_size, hidden = found["word_embeddings/embeddings"].shape
        first = _LAYER.format(i=0)
        layers = {match.group(1) for name in found if (match := re.search(r"layer_(\d+)/", name))}
        return BertConfig(
            vocab_size=vocab_size,
            hidden_size=hidden,
            num_hidden_layers=len(layers),
            num_attention_heads=found[f"{first}/self_attention/query/kernel"].shape[1],
            intermediate_size=found[f"{first}/intermediate/kernel"].shape[1],
            max_position_embeddings=len(found["position_embedding/embeddings"]),
            type_vocab_size=len(found["type_embeddings/embeddings"]),
        )
    except KeyError as error:
        raise InputError(
            f"{path}: is no encoder of BERT: it lacks the variable {error}."
        ) from error


def _vocabulary(module: tf.Module) -> tuple[str, ...] | None:
    asset = getattr(module, "vocab_file", None)
    if asset is None:
        return None
    path = _asset(asset)
    return tuple(vocabulary.load(path)) if files.gfile.exists(path) else None


def _tokenizer_settings(module: tf.Module) -> dict[str, bool] | None:
    flag = getattr(module, "do_lower_case", None)
    if flag is None:
        return None
    strip_accents = getattr(module, "strip_accents", flag)
    return {"lower_case": bool(flag.numpy()), "strip_accents": bool(strip_accents.numpy())}


def _asset(asset: tf.saved_model.Asset) -> str:
    return asset.asset_path.numpy().decode()
