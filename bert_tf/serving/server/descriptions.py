"""What TensorFlow Serving tells of a model: the states of its versions, and its signatures."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server.versions import Version

_UNKNOWN = 2  # the code of an error of no other kind


def statuses(versions: Sequence[Version]) -> get_model_status_pb2.GetModelStatusResponse:
    """The states of versions."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version in versions:
        status = response.model_version_status.add()
        status.version = version.number
        status.state = status.State.Value(version.state.value)
        if version.error:
            status.status.error_code, status.status.error_message = _UNKNOWN, version.error
        else:
            status.status.error_code = 0
    return response


def metadata(
    name: str, version: int, predictor: Predictor
) -> get_model_metadata_pb2.GetModelMetadataResponse:
    """The signatures of a version."""
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    response.model_spec.name = name
    response.model_spec.version.value = version
    found = get_model_metadata_pb2.SignatureDefMap()
    signatures: dict[str, Any] = dict(predictor.manifest["signatures"])
    signatures["serving_default"] = next(iter(signatures.values()))
    for key, signature in signatures.items():
        found.signature_def[key].CopyFrom(_definition(signature))
    response.metadata["signature_def"].Pack(found)
    return response


def _definition(signature: dict[str, Any]) -> meta_graph_pb2.SignatureDef:
    found = meta_graph_pb2.SignatureDef(method_name=signature["method"])
    for kind, tensors in (("inputs", found.inputs), ("outputs", found.outputs)):
        for name, (dtype, shape) in signature[kind].items():
            tensors[name].name = f"{name}:0"
            tensors[name].dtype = tf.as_dtype(dtype).as_datatype_enum
            for size in shape:
                tensors[name].tensor_shape.dim.add(size=-1 if size is None else size)
    return found


def as_json(message: Any) -> dict[str, Any]:
    """A message as TensorFlow Serving's REST interface writes it."""
    found = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    found.get("metadata", {}).get("signature_def", {}).pop("@type", None)
    return found
