"""The objects of a SavedModel, read from its files: nothing of it is run.

A SavedModel is a program: loading it runs its initializers, which may do what
any program may. Names, variables and assets stand in its protocol buffer and
its checkpoint, as data.
"""

from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2

from bert_tf.weights import tf_checkpoint
from pipelines.common import files
from pipelines.common.errors import InputError

_FILE = "saved_model.pb"
_LARGEST = (1 << 31) - 1  # bytes of a protocol buffer
_CHECKPOINT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"


class SavedObject:
    """An object of a SavedModel: its parts by name.

    Args:
      model: whose object it is.
      saved: its number in the graph of objects of saved_model.pb.
      stored: its number in that of the checkpoint; None: it is not there.
    """

    def __init__(self, model: "SavedModel", saved: int, stored: int | None):
        self._model, self._saved, self._stored = model, saved, stored

    def part(self, name: str) -> "SavedObject | None":
        """The part of a name; None if there is none."""
        found = _children(self._model.objects[self._saved]).get(name)
        if found is None:
            return None
        stored = None
        if self._stored is not None:
            stored = _children(self._model.stored[self._stored]).get(name)
        return SavedObject(self._model, found, stored)

    def items(self) -> list["SavedObject"]:
        """The parts of a list, in its order."""
        names = _children(self._model.objects[self._saved])
        numbers = sorted(int(name) for name in names if name.isdecimal())
        return [part for number in numbers if (part := self.part(str(number)))]

    @property
    def key(self) -> str | None:
        """The name of a variable's value in the checkpoint; None if it is no variable there."""
        if self._model.objects[self._saved].WhichOneof("kind") != "variable":
            return None
        if self._stored is None:
            return None
        attributes = self._model.stored[self._stored].attributes
        return next((a.checkpoint_key for a in attributes if a.name == _VALUE), None)

    @property
    def variable_name(self) -> str:
        """The name of a variable."""
        return self._model.objects[self._saved].variable.name

    @property
    def asset(self) -> str | None:
        """The path of an asset's file; None if it is no asset.

        Raises:
          InputError: it is in another folder.
        """
        found = self._model.objects[self._saved]
        if found.WhichOneof("kind") != "asset":
            return None
        file = self._model.assets[found.asset.asset_file_def_index]
        return files.inside(f"{self._model.path}/assets", file, f"{self._model.path}/{_FILE}")


class SavedModel:
    """The files of a SavedModel.

    Args:
      path: its folder.

    Raises:
      InputError: they are damaged, or not of TensorFlow 2.
    """

    def __init__(self, path: str):
        self.path = path
        self._prefix = f"{path}/variables/variables"
        saved = _parse(path)
        if not saved.meta_graphs or not saved.meta_graphs[0].object_graph_def.nodes:
            raise InputError(
                f"{path}: is no SavedModel of TensorFlow 2: it has no objects. Those of TensorFlow "
                "1 cannot be read."
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
        """The values of variables by their names in the checkpoint.

        Raises:
          InputError: the checkpoint is damaged.
        """
        found = tf_checkpoint.read(self._prefix, keys.__contains__)
        return {key: np.asarray(value) for key, value in found.items()}


def _parse(path: str) -> saved_model_pb2.SavedModel:
    saved = saved_model_pb2.SavedModel()
    try:
        saved.ParseFromString(files.read_whole(f"{path}/{_FILE}", _LARGEST))
    except DecodeError as error:
        raise InputError(f"{path}/{_FILE}: is damaged; copy it again.") from error
    return saved


def _children(node: Any) -> dict[str, int]:  # an object of either graph
    return {child.local_name: child.node_id for child in node.children}
