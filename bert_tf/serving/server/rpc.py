"""TensorFlow Serving's gRPC interface.

Messages arrive and leave as bytes: they are parsed in threads, after the token is checked. To
clients the methods are unary; here they are streams of one message, because only then can a server
refuse a request, or stop waiting for it, before the message arrives.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2, regression_pb2
from tensorflow_serving.apis.get_model_metadata_pb2 import (
    GetModelMetadataRequest,
    GetModelMetadataResponse,
    SignatureDefMap,
)
from tensorflow_serving.apis.get_model_status_pb2 import (
    GetModelStatusRequest,
    GetModelStatusResponse,
)

from bert_tf.serving.credentials import Identity
from bert_tf.serving.server import rpc_values
from bert_tf.serving.server.answers import Answerer, EncodedRequest, ModelResponse, ModelSpec
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.tasks.signatures import Method

_PACKAGE = "tensorflow.serving"
_UNKNOWN_ERROR = 2  # code of an error of no other kind
_MAX_SPEC = 16 << 10  # bytes of a request that only names a model
Receive = Callable[[], Awaitable[bytes]]


class Predict(EncodedRequest):
    """A PredictRequest: for the outputs of any signature."""

    def parse(self) -> ModelSpec:
        self._request = rpc_values.decoded(self.take(), predict_pb2.PredictRequest)
        for value in self._request.inputs.values():
            axes = value.tensor_shape.dim
            self.limits.check_rows(axes[0].size if axes else 0)
        return _spec(self._request.model_spec, Method.PREDICT)

    def inputs(self, names: Sequence[str]) -> Mapping[str, Any]:
        given, most = self._request.inputs, self.limits.bytes
        return {name: rpc_values.array_of(name, value, most) for name, value in given.items()}

    def encode(self, answer: ModelResponse) -> bytes:
        response = predict_pb2.PredictResponse()
        wanted = dict.fromkeys(self._request.output_filter)
        if unknown := [name for name in wanted if name not in answer.outputs]:
            raise RefusalError(Fault.INVALID, f"{answer.signature}: has no output {unknown[0]!r}.")
        for name in wanted or answer.outputs:
            response.outputs[name].CopyFrom(tf.make_tensor_proto(answer.outputs[name]))
        return _encode(response, self._request.model_spec.name, answer)


class _ByExamples(EncodedRequest):
    """A request with tf.Examples."""

    kind: type[Any]
    method: Method

    def parse(self) -> ModelSpec:
        self._request = rpc_values.decoded(self.take(), self.kind)
        given = self._request.input
        joined = given.example_list_with_context
        count = max(len(given.example_list.examples), len(joined.examples))
        if not count:
            raise RefusalError(Fault.INVALID, "The request has no examples.")
        self.limits.check_rows(count)
        self.limits.check_context(joined.context.ByteSize(), count)
        return _spec(self._request.model_spec, self.method)

    def inputs(self, names: Sequence[str]) -> Mapping[str, Any]:
        given = self._request.input
        if given.WhichOneof("kind") != "example_list_with_context":
            found = given.example_list.examples
            return {"inputs": [example.SerializeToString() for example in found]}
        joined = given.example_list_with_context
        encoded = []
        for example in joined.examples:
            whole = tf.train.Example()
            whole.MergeFrom(joined.context)
            whole.MergeFrom(example)
            encoded.append(whole.SerializeToString())
        return {"inputs": encoded}


class Classify(_ByExamples):
    """A ClassificationRequest: for classes and their scores."""

    kind, method = classification_pb2.ClassificationRequest, Method.CLASSIFY

    def encode(self, answer: ModelResponse) -> bytes:
        response = classification_pb2.ClassificationResponse()
        rows = zip(answer.outputs["classes"], answer.outputs["scores"], strict=True)
        for labels, scores in rows:
            classes = response.result.classifications.add().classes
            for label, score in zip(labels, scores, strict=True):
                classes.add(label=label.decode("utf-8", "replace"), score=score)
        return _encode(response, self._request.model_spec.name, answer)


class Regress(_ByExamples):
    """A RegressionRequest: for a number each."""

    kind, method = regression_pb2.RegressionRequest, Method.REGRESS

    def encode(self, answer: ModelResponse) -> bytes:
        response = regression_pb2.RegressionResponse()
        for value in answer.outputs["outputs"].reshape(-1):
            response.result.regressions.add(value=value)
        return _encode(response, self._request.model_spec.name, answer)


def handlers(answerer: Answerer, identity: Identity) -> list[grpc.GenericRpcHandler]:
    """The implemented services of TensorFlow Serving; the token is that of the identity."""

    def guarded(answer: Callable[[Receive, float | None], Awaitable[bytes]]) -> Any:
        """A method that checks the token, has a place, and answers refusals with a status."""

        async def method(requests: Any, context: Any) -> bytes:
            async def receive() -> bytes:
                found = await context.read()
                if found is grpc.aio.EOF:
                    raise RefusalError(Fault.INVALID, "The request has no message.")
                return found

            try:
                given = dict(context.invocation_metadata() or ()).get("authorization", "")
                release = answerer.take_place(identity.admits(given))
                context.add_done_callback(lambda _: release())  # when the answer was sent
                return await answer(receive, context.time_remaining())
            except RefusalError as error:
                await context.abort(error.fault.grpc, error.message)
                raise  # abort does

        return grpc.stream_unary_rpc_method_handler(method)

    def answered(kind: type[EncodedRequest]) -> Any:
        async def answer(receive: Receive, seconds: float | None) -> bytes:
            async def request() -> EncodedRequest:
                return kind(await receive(), answerer.limits)

            return await answerer.answer(request, seconds)

        return guarded(answer)

    def described(kind: Any, describe: Callable[[Answerer, ModelSpec], Any]) -> Any:
        """A method that describes the model, which needs no computation."""

        async def answer(receive: Receive, _: float | None) -> bytes:
            try:
                async with asyncio.timeout(answerer.limits.seconds):
                    encoded = await receive()
            except TimeoutError:
                raise RefusalError(Fault.TIMEOUT, "The request has not arrived.") from None
            if len(encoded) > _MAX_SPEC:
                raise RefusalError(Fault.TOO_LARGE, f"Such a request may have {_MAX_SPEC:,} bytes.")
            request = rpc_values.decoded(encoded, kind)
            for field in getattr(request, "metadata_field", ()):
                if field != "signature_def":
                    raise RefusalError(
                        Fault.INVALID, f"Unknown metadata_field {field!r}; there is signature_def."
                    )
            spec = _spec(request.model_spec, Method.PREDICT)
            return describe(answerer, spec).SerializeToString()

        return guarded(answer)

    services = {
        "PredictionService": {
            "Predict": answered(Predict),
            "Classify": answered(Classify),
            "Regress": answered(Regress),
            "GetModelMetadata": described(GetModelMetadataRequest, metadata),
        },
        "ModelService": {"GetModelStatus": described(GetModelStatusRequest, status)},
    }
    return [
        grpc.method_handlers_generic_handler(f"{_PACKAGE}.{service}", methods)
        for service, methods in services.items()
    ]


def _encode(response: Any, name: str, answer: ModelResponse) -> bytes:
    spec = response.model_spec
    spec.name, spec.signature_name = name, answer.signature
    spec.version.value = answer.version
    return response.SerializeToString()


def _spec(spec: Any, method: Method) -> ModelSpec:
    if spec.version_label:
        raise RefusalError(Fault.INVALID, "Labels of versions are not supported; name a number.")
    version = spec.version.value if spec.HasField("version") else None
    return ModelSpec(spec.name, version, spec.signature_name, method)


def status(answerer: Answerer, spec: ModelSpec) -> GetModelStatusResponse:
    """The states of the versions, or of one."""
    known = answerer.versions(spec.model).known
    versions = [version for version in known if spec.version in (None, version.number)]
    if not versions:
        raise RefusalError(Fault.NOT_FOUND, f"There is no version {spec.version}.")
    response = GetModelStatusResponse()
    for version in versions:
        found = response.model_version_status.add()
        found.version = version.number
        found.state = found.State.Value(version.state.value)
        found.status.error_code = _UNKNOWN_ERROR if version.error else 0
        found.status.error_message = version.error
    return response


def metadata(answerer: Answerer, spec: ModelSpec) -> GetModelMetadataResponse:
    """The signatures of a version."""
    response = GetModelMetadataResponse()
    found = SignatureDefMap()
    with answerer.versions(spec.model).use(spec.version) as (version, predictor):
        response.model_spec.name = spec.model
        response.model_spec.version.value = version
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
