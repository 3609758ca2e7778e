"""Encoders of TF Hub: reusable SavedModels exported by Model Garden or by us."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2

from bert_tf.models import configs
from bert_tf.models.config import BertConfig
from bert_tf.weights import tf_checkpoint
from bert_tf.weights.bundle import Bundle, check_complete, parameter_shapes
from bert_tf.weights.table import Table, is_float
from pipelines.common import files, manifest
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import TokenizerSettings, Vocabulary
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary

_FILE = "saved_model.pb"
_MAX_BYTES = (1 << 31) - 1  # of a protocol buffer
_CHECKPOINT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"
_LAYER = "transformer/layer_{i}"
_TABLE = Table(
    {
        "encoder/embeddings/word_embeddings": "word_embeddings/embeddings",
        "encoder/embeddings/position_embeddings": "position_embedding/embeddings",
        "encoder/embeddings/token_type_embeddings": "type_embeddings/embeddings",
        "encoder/embeddings/norm": "embeddings/layer_norm",
        "encoder/block_{i}/attention/qkv": f"{_LAYER}/self_attention/{{part}}",
        "encoder/block_{i}/attention/output": f"{_LAYER}/self_attention/attention_output",
        "encoder/block_{i}/attention_norm": f"{_LAYER}/self_attention_layer_norm",
        "encoder/block_{i}/feed_forward/intermediate": f"{_LAYER}/intermediate",
        "encoder/block_{i}/feed_forward/output": f"{_LAYER}/output",
        "encoder/block_{i}/output_norm": f"{_LAYER}/output_layer_norm",
        "encoder/pooler": "pooler_transform",
        "masked_lm/transform": "cls/predictions/transform/dense",
        "masked_lm/norm": "cls/predictions/transform/LayerNorm",
        "masked_lm/output_bias": "cls/predictions/output_bias/bias",
    },
    reshaped=True,  # attention kernels have a heads axis
)
# Names may have the module's name as a prefix.
_NAME = re.compile(
    r"(?:.*/)?((?:word_embeddings|position_embedding|type_embeddings|embeddings/layer_norm"
    r"|transformer/layer_\d+|pooler_transform|cls/predictions)/.*)"
)


class SavedModel:
    """The objects of a SavedModel, read from its files without running it.

    Loading a SavedModel runs its initializers, which can do anything. Its assets are named in its
    protocol buffer; its checkpoint contains the variables and their names.

    Raises:
      InputError: The files are damaged, or not of TensorFlow 2. Methods raise it, too.
    """

    def __init__(self, path: str):
        self._path, self._prefix = path, f"{path}/variables/variables"
        saved = saved_model_pb2.SavedModel()
        data = files.read_whole(f"{path}/{_FILE}", _MAX_BYTES)
        _parse(saved, data, f"{path}/{_FILE}")
        if not saved.meta_graphs or not saved.meta_graphs[0].object_graph_def.nodes:
            raise InputError(
                f"{path}: is not a SavedModel of TensorFlow 2, as it has no objects. SavedModels "
                "of TensorFlow 1 are not supported."
            )
        graph = saved.meta_graphs[0]
        self._objects = graph.object_graph_def.nodes
        self._assets = [asset.filename for asset in graph.asset_file_def]
        found = tf_checkpoint.read(self._prefix, lambda name: name == _CHECKPOINT_GRAPH)
        if not found:
            raise InputError(f"{self._prefix}: the checkpoint has no objects; copy it again.")
        stored = trackable_object_graph_pb2.TrackableObjectGraph()
        _parse(stored, found[_CHECKPOINT_GRAPH], self._prefix)
        self._stored = list(stored.nodes)

    def _find(self, path: Sequence[str]) -> Any:
        """The object at a path of names in the checkpoint; None if absent."""
        found = self._stored[0]
        for name in path:
            found = found and self._child(found, name, self._stored)
        return found

    @staticmethod
    def _child(node: Any, name: str, nodes: Sequence[Any]) -> Any:
        numbers = (child.node_id for child in node.children if child.local_name == name)
        return next((nodes[number] for number in numbers), None)

    def asset(self, name: str) -> str | None:
        """The path of the file of an asset; None if there is none."""
        saved = self._child(self._objects[0], name, self._objects)
        if saved is None or saved.WhichOneof("kind") != "asset":
            return None
        file = self._assets[saved.asset.asset_file_def_index]
        return files.inside(f"{self._path}/assets", file, f"{self._path}/{_FILE}")

    def variables(self, *paths: Sequence[str]) -> list[tuple[str, np.ndarray]]:
        """The names and values of the variables at some paths, each once."""
        names: dict[str, str] = {}
        for path in paths:
            found = self._find(path)
            for stored in found.attributes if found else ():
                if stored.name == _VALUE:
                    names[stored.checkpoint_key] = stored.full_name
        values = tf_checkpoint.read(self._prefix, names.__contains__)
        return [(names[key], np.asarray(value)) for key, value in values.items()]

    def list_items(self, *path: str) -> list[Sequence[str]]:
        """The paths of the items of a list at a path, in order; empty if there is none."""
        found = self._find(path)
        names = [child.local_name for child in found.children] if found else []
        return [[*path, name] for name in sorted(filter(str.isdecimal, names), key=int)]


def _parse(message: Any, data: Any, place: str) -> None:
    """Parses a protocol buffer; an InputError if it is damaged."""
    try:
        message.ParseFromString(data)
    except (DecodeError, TypeError) as error:
        raise InputError(f"{place}: is damaged; copy it again.") from error


def read(path: str) -> Bundle:
    """Reads a SavedModel: encoder, masked LM head if present, and vocabulary; nothing is run.

    Our SavedModels contain their configuration. For others it follows from the shapes, with the
    gelu (tanh) and the LayerNorm epsilon of all published encoders.

    Raises:
      InputError: It is damaged, or is not an encoder of BERT.
    """
    manifest.check(f"{path}/{manifest.CHECKSUMS}")
    try:
        return _read(SavedModel(path), path)
    except IndexError as error:  # the number of a missing object
        raise InputError(f"{path}: is damaged; copy it again.") from error


def _read(model: SavedModel, path: str) -> Bundle:
    vocabulary = _vocabulary(model)
    variables, settings = _variables(model), _tokenizer_settings(model, vocabulary)
    if config_file := model.asset("config_file"):  # ours: variables have our names
        config = configs.load(config_file)
        shapes = parameter_shapes(config)
        found = {name: value for name, value in variables if name in shapes}
        check_complete(found, shapes, path)
        return Bundle(config, found, vocabulary, settings, place=path)
    theirs = _without_prefix(variables, path)
    bert = _config(theirs, path)
    found = _TABLE.read(theirs, bert, path)
    return Bundle(bert, found, vocabulary, settings, place=path)


def _variables(model: SavedModel) -> list[tuple[str, np.ndarray]]:
    """The names and values of all numeric variables of the encoder and its heads."""
    items = [*model.list_items("variables"), *model.list_items("mlm", "variables")]
    return [
        (name, value)
        for name, value in model.variables(*items)
        if is_float(value) or value.dtype == np.int32
    ]


def _without_prefix(variables: list[tuple[str, np.ndarray]], path: str) -> dict[str, np.ndarray]:
    """The float variables by their names without the prefix of the module."""
    found: dict[str, np.ndarray] = {}
    for full_name, value in variables:
        if not is_float(value):
            continue
        match = _NAME.fullmatch(full_name)
        name = match.group(1) if match else full_name
        if name in found:
            raise InputError(f"{path}: has {name} twice; it is not a single encoder.")
        found[name] = value
    return found


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
            f"{path}: is not an encoder of BERT: it lacks the variable {error}."
        ) from error
    except (ValueError, IndexError, TypeError) as error:  # an InputError is a ValueError
        raise InputError(
            f"{path}: is not an encoder of BERT: its shapes do not match ({error})."
        ) from error


def _vocabulary(model: SavedModel) -> Vocabulary | None:
    for kind in registry.KINDS.values():
        stem, _, _ = kind.vocabulary.files[0].rpartition(".")
        path = model.asset(f"{stem}_file")
        if path and files.gfile.exists(path):
            return registry.load(path)
    return None


def _tokenizer_settings(
    model: SavedModel, vocabulary: Vocabulary | None
) -> TokenizerSettings | None:
    """Those of the vocabulary's kind; "do_lower_case" is the name in the common API."""
    usual = vocabulary.usual if vocabulary else WordPieceVocabulary.usual
    found: TokenizerSettings = {}
    for name, default in {**usual, "do_lower_case": True}.items():
        for _, value in model.variables([name]):
            if value.size == 1 and (value.dtype == bool) == isinstance(default, bool):
                item = value.item()
                found[name] = item.decode() if isinstance(item, bytes) else type(default)(item)
    if "do_lower_case" not in found:
        return None if "lower_case" in usual else found or None
    lower_case = found.pop("do_lower_case")
    return {"lower_case": lower_case, "strip_accents": lower_case, **found}
