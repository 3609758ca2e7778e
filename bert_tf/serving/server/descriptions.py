"""TensorFlow Serving's descriptions of a model: the states of its versions, and its signatures."""

from typing import Any

import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from bert_tf.serving.server.answers import Answerer, ModelSpec
from bert_tf.serving.server.faults import Fault, RefusalError

_UNKNOWN = 2  # code of an error of no other kind


def status(answerer: Answerer, spec: ModelSpec) -> get_model_status_pb2.GetModelStatusResponse:
    """The states of the versions, or of one.

    Raises:
      RefusalError: the model or the version is unknown.
    """
    answerer.check_name(spec.model)
    versions = [v for v in answerer.versions.known if spec.version in (None, v.number)]
    if not versions:
        raise RefusalError(Fault.NOT_FOUND, f"There is no version {spec.version}.")
    response = get_model_status_pb2.GetModelStatusResponse()
    for version in versions:
        found = response.model_version_status.add()
        found.version = version.number
        found.state = found.State.Value(version.state.value)
        found.status.error_code = _UNKNOWN if version.error else 0
        found.status.error_message = version.error
    return response


def metadata(
    answerer: Answerer, spec: ModelSpec
) -> get_model_metadata_pb2.GetModelMetadataResponse:
    """The signatures of a version.

    Raises:
      RefusalError: the model is unknown, or the version is not available.
    """
    answerer.check_name(spec.model)
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    found = get_model_metadata_pb2.SignatureDefMap()
    with answerer.versions.use(spec.version) as version:
        assert version.predictor is not None  # it is available
        response.model_spec.name = answerer.name
        response.model_spec.version.value = version.number
        signatures: dict[str, Any] = dict(version.predictor.manifest["signatures"])
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
