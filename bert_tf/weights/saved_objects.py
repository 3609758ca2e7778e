"""The objects of a SavedModel, read from its files without running it.

Loading a SavedModel runs its initializers, which can do anything. Its names, variables and assets
are data in its protocol buffer and its checkpoint.
"""

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


class SavedObject:
    """An object of a SavedModel.

    Args:
      model: The SavedModel.
      saved: Its number in the object graph of saved_model.pb.
      stored: Its number in the object graph of the checkpoint; None: not part of it.
    """

    def __init__(self, model: "SavedModel", saved: int, stored: int | None):
        self._model, self._node = model, model.objects[saved]
        self._stored = None if stored is None else model.stored[stored]

    def part(self, name: str) -> "SavedObject | None":
        """The part of a name; None if there is none."""
        found = _children(self._node).get(name)
        stored = None if self._stored is None else _children(self._stored).get(name)
        return None if found is None else SavedObject(self._model, found, stored)

    def items(self) -> list["SavedObject"]:
        """The items of a list, in order."""
        numbers = sorted(int(name) for name in _children(self._node) if name.isdecimal())
        return [part for number in numbers if (part := self.part(str(number)))]

    @property
    def key(self) -> str | None:
        """The key of a variable's value in the checkpoint; None if it is not a stored variable."""
        if self._node.WhichOneof("kind") != "variable" or self._stored is None:
            return None
        attributes = self._stored.attributes
        return next((a.checkpoint_key for a in attributes if a.name == _VALUE), None)

    @property
    def variable_name(self) -> str:
        """The name of a variable."""
        return self._node.variable.name

    @property
    def asset(self) -> str | None:
        """The path of an asset's file; None if the object is not an asset.

        Raises:
          InputError: The file is in another folder.
        """
        if self._node.WhichOneof("kind") != "asset":
            return None
        file = self._model.assets[self._node.asset.asset_file_def_index]
        return files.inside(f"{self._model.path}/assets", file, f"{self._model.path}/{_FILE}")


class SavedModel:
    """The files of a SavedModel.

    Args:
      path: The folder.

    Raises:
      InputError: The files are damaged, or not of TensorFlow 2.
    """

    def __init__(self, path: str):
        self.path = path
        self._prefix = f"{path}/variables/variables"
        saved = _parse(path)
        if not saved.meta_graphs or not saved.meta_graphs[0].object_graph_def.nodes:
            raise InputError(
                f"{path}: is not a SavedModel of TensorFlow 2, as it has no objects. SavedModels "
                "of TensorFlow 1 are not supported."
            )
        graph = saved.meta_graphs[0]
        self.objects = graph.object_graph_def.nodes
        self.assets = [asset.filename for asset in graph.asset_file_def]
        self.stored = self._stored_objects()
        self.root = SavedObject(self, 0, 0)

    def _stored_objects(self) -> list[trackable_object_graph_pb2.TrackableObjectGraph]:
        data = tf_checkpoint.read(self._prefix, lambda name: name == _CHECKPOINT_GRAPH)
        if not data:
            raise InputError(f"{self._prefix}: the checkpoint has no objects; copy it again.")
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        try:
            graph.ParseFromString(data[_CHECKPOINT_GRAPH])
        except (DecodeError, TypeError) as error:
            raise InputError(f"{self._prefix}: is damaged; copy it again.") from error
        return list(graph.nodes)

    def values(self, keys: set[str]) -> dict[str, np.ndarray]:
        """The values of variables by their keys in the checkpoint.

        Raises:
          InputError: The checkpoint is damaged.
        """
        found = tf_checkpoint.read(self._prefix, keys.__contains__)
        return {key: np.asarray(value) for key, value in found.items()}


def _parse(path: str) -> saved_model_pb2.SavedModel:
    saved = saved_model_pb2.SavedModel()
    try:
        saved.ParseFromString(files.read_whole(f"{path}/{_FILE}", _MAX_BYTES))
    except DecodeError as error:
        raise InputError(f"{path}/{_FILE}: is damaged; copy it again.") from error
    return saved


def _children(node: Any) -> dict[str, int]:
    """The numbers of the children of an object in either graph."""
    return {child.local_name: child.node_id for child in node.children}
