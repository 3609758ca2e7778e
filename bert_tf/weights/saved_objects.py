"""The objects of a SavedModel, read from its files without running it.

Loading a SavedModel runs its initializers, which can do anything. Its names, variables and assets
are data in its protocol buffer and its checkpoint.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2

from bert_tf.weights import tf_checkpoint
from pipelines.common import files
from pipelines.common.errors import InputError

_FILE = "saved_model.pb"
_MAX_BYTES = (1 << 31) - 1  # of a protocol buffer
_CHECKPOINT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"


class SavedModel:
    """The files of a SavedModel.

    Args:
      path: The folder.

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

    def _find(self, path: Sequence[str]) -> tuple[Any, Any]:
        """The object at a path of names in saved_model.pb and in the checkpoint; None if absent."""
        saved, stored = self._objects[0], self._stored[0]
        for name in path:
            saved = saved and self._child(saved, name, self._objects)
            stored = stored and self._child(stored, name, self._stored)
        return saved, stored

    @staticmethod
    def _child(node: Any, name: str, nodes: Sequence[Any]) -> Any:
        numbers = (child.node_id for child in node.children if child.local_name == name)
        return next((nodes[number] for number in numbers), None)

    def asset(self, name: str) -> str | None:
        """The path of the file of an asset; None if there is none."""
        saved, _ = self._find([name])
        if saved is None or saved.WhichOneof("kind") != "asset":
            return None
        file = self._assets[saved.asset.asset_file_def_index]
        return files.inside(f"{self._path}/assets", file, f"{self._path}/{_FILE}")

    def variables(self, *paths: Sequence[str]) -> list[tuple[str, np.ndarray]]:
        """The names and values of the variables at some paths, each once."""
        names: dict[str, str] = {}
        for path in paths:
            saved, stored = self._find(path)
            if saved and stored and saved.WhichOneof("kind") == "variable":
                keys = [a.checkpoint_key for a in stored.attributes if a.name == _VALUE]
                names |= dict.fromkeys(keys[:1], saved.variable.name)
        values = tf_checkpoint.read(self._prefix, names.__contains__)
        return [(names[key], np.asarray(value)) for key, value in values.items()]

    def list_items(self, *path: str) -> list[Sequence[str]]:
        """The paths of the items of a list at a path, in order; empty if there is none."""
        saved, _ = self._find(path)
        names = [child.local_name for child in saved.children] if saved else []
        return [[*path, name] for name in sorted(filter(str.isdecimal, names), key=int)]


def _parse(message: Any, data: Any, place: str) -> None:
    """Parses a protocol buffer; an InputError if it is damaged."""
    try:
        message.ParseFromString(data)
    except (DecodeError, TypeError) as error:
        raise InputError(f"{place}: is damaged; copy it again.") from error
