"""Encoders of TF Hub: reusable SavedModels as Model Garden exports them, and ours."""

import re

import numpy as np

from bert_tf.models import configs
from bert_tf.models.config import BertConfig
from bert_tf.weights import own
from bert_tf.weights.bundle import Bundle, parameter_shapes
from bert_tf.weights.saved_objects import SavedModel
from bert_tf.weights.table import Table, is_float
from pipelines.common import checksums, files
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary

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
    r"|transformer/layer_\d+|pooler_transform|cls/predictions)/.*)"
)


def read(path: str) -> Bundle:
    """Reads a SavedModel: the encoder, its masked LM head if it has one, and its vocabulary.

    It is read as data; nothing of it is run. Ours bring their configuration. For
    others it follows from the shapes; gelu with tanh and the epsilon of LayerNorm
    are what every published encoder of BERT has.

    Raises:
      InputError: it is damaged, or is no encoder of BERT.
    """
    checksums.check(path)
    try:
        model = SavedModel(path)
        return _read(model, path)
    except IndexError as error:  # a number of an object that there is not
        raise InputError(f"{path}: is damaged; copy it again.") from error


def _read(model: SavedModel, path: str) -> Bundle:
    variables = _variables(model)
    settings = _tokenizer_settings(model)
    config_file = _asset(model, "config_file")
    if config_file:
        return _read_ours(config_file, variables, _vocabulary(model), settings, path)
    found = _weights(variables, path)
    return Bundle(
        config := _config(found, path),
        _TABLE.read(found, config, path),
        _vocabulary(model),
        settings,
        place=path,
    )


def _variables(model: SavedModel) -> list[tuple[str, np.ndarray]]:
    """The names and values of all variables of numbers, of the encoder and of its heads."""
    parts = (model.root, model.root.part("mlm"))
    lists = [part.part("variables") for part in parts if part]
    # The parts share the encoder's variables.
    names = {item.key: item.variable_name for each in lists if each for item in each.items()}
    values = model.values({key for key in names if key})
    return [
        (names[key], value)
        for key, value in values.items()
        if is_float(value) or value.dtype == np.int32
    ]


def _weights(variables: list[tuple[str, np.ndarray]], path: str) -> dict[str, np.ndarray]:
    """Values by their names without the prefix of the module.

    Raises:
      InputError: two have one name.
    """
    found: dict[str, np.ndarray] = {}
    for full_name, value in (item for item in variables if is_float(item[1])):
        match = _NAME.fullmatch(full_name)
        name = match.group(1) if match else full_name
        if name in found:
            raise InputError(f"{path}: has {name} twice; it is no single encoder.")
        found[name] = value
    return found


def _read_ours(
    config_file: str,
    variables: list[tuple[str, np.ndarray]],
    tokens: Vocabulary | None,
    settings: TokenizerSettings | None,
    path: str,
) -> Bundle:
    """What `bert_tf.export.hub` wrote: variables have our names."""
    config = configs.load(config_file)
    shapes = parameter_shapes(config)
    found = {name: value for name, value in variables if name in shapes}
    own.check(found, shapes, path)
    return Bundle(config, found, tokens, settings, place=path)


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
    except (ValueError, IndexError, TypeError) as error:
        # An InputError is a ValueError, too: sizes that make no model.
        raise InputError(
            f"{path}: is no encoder of BERT: the shapes are of another ({error})."
        ) from error


def _vocabulary(model: SavedModel) -> Vocabulary | None:
    path = _asset(model, "vocab_file")
    return registry.load(path) if path and files.gfile.exists(path) else None


def _asset(model: SavedModel, name: str) -> str | None:
    part = model.root.part(name)
    return part.asset if part else None


def _tokenizer_settings(model: SavedModel) -> TokenizerSettings | None:
    parts = {name: model.root.part(name) for name in ("do_lower_case", "strip_accents")}
    keys = {name: part.key for name, part in parts.items() if part and part.key}
    values = model.values(set(keys.values()))
    there = {name: values[key] for name, key in keys.items() if key in values}
    found = {name: bool(v.item()) for name, v in there.items() if v.size == 1 and v.dtype == bool}
    if "do_lower_case" not in found:
        return None
    lower_case = found["do_lower_case"]
    return {"lower_case": lower_case, "strip_accents": found.get("strip_accents", lower_case)}
