"""TensorFlow Serving's gRPC interface."""

import hmac
import math
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from bert_tf.serving.server import descriptions
from bert_tf.serving.server.answers import Answer, Answerer, Asked
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.tasks.signatures import Method


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """`Predict`, `Classify`, `Regress` and `GetModelMetadata`.

    Args:
      answerer: of the model.
    """

    def __init__(self, answerer: Answerer):
        self._answerer = answerer

    async def Predict(  # noqa: N802  # names of the interface
        self, request: predict_pb2.PredictRequest, context: Any
    ) -> predict_pb2.PredictResponse:
        """Outputs of any signature."""
        most = self._answerer.limits.bytes
        inputs = {name: _array(name, value, most) for name, value in request.inputs.items()}
        found = await self._answerer.answer(_asked(request.model_spec, Method.PREDICT), inputs)
        response = predict_pb2.PredictResponse()
        for name in _wanted(request.output_filter, found):
            response.outputs[name].CopyFrom(tf.make_tensor_proto(found.outputs[name]))
        _tell(response.model_spec, self._answerer.name, found)
        return response

    async def Classify(  # noqa: N802
        self, request: classification_pb2.ClassificationRequest, context: Any
    ) -> classification_pb2.ClassificationResponse:
        """Classes and their scores."""
        asked = _asked(request.model_spec, Method.CLASSIFY)
        found = await self._answerer.answer(asked, {"inputs": _examples(request.input)})
        response = classification_pb2.ClassificationResponse()
        rows = zip(found.outputs["classes"], found.outputs["scores"], strict=True)
        for labels, scores in rows:
            classes = response.result.classifications.add().classes
            for label, score in zip(labels, scores, strict=True):
                classes.add(label=label.decode("utf-8", "replace"), score=score)
        _tell(response.model_spec, self._answerer.name, found)
        return response

    async def Regress(  # noqa: N802
        self, request: regression_pb2.RegressionRequest, context: Any
    ) -> regression_pb2.RegressionResponse:
        """A number each."""
        asked = _asked(request.model_spec, Method.REGRESS)
        found = await self._answerer.answer(asked, {"inputs": _examples(request.input)})
        response = regression_pb2.RegressionResponse()
        for value in found.outputs["outputs"].reshape(-1):
            response.result.regressions.add(value=value)
        _tell(response.model_spec, self._answerer.name, found)
        return response

    async def GetModelMetadata(  # noqa: N802
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: Any
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """The signatures."""
        asked = _asked(request.model_spec, Method.PREDICT)
        self._answerer.check_name(asked.model)
        with self._answerer.versions.use(asked.version) as version:
            assert version.predictor is not None  # it is available
            return descriptions.metadata(self._answerer.name, version.number, version.predictor)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """`GetModelStatus`.

    Args:
      answerer: of the model.
    """

    def __init__(self, answerer: Answerer):
        self._answerer = answerer

    async def GetModelStatus(  # noqa: N802
        self, request: get_model_status_pb2.GetModelStatusRequest, context: Any
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """The states of the versions."""
        asked = _asked(request.model_spec, Method.PREDICT)
        self._answerer.check_name(asked.model)
        known = self._answerer.versions.known
        found = [v for v in known if asked.version in (None, v.number)]
        if not found:
            raise RefusalError(Fault.NOT_FOUND, f"There is no version {asked.version}.")
        return descriptions.statuses(found)


class Refusals(grpc.aio.ServerInterceptor):
    """Answers refusals with their status, and knows who asks.

    Args:
      token: that clients must know; None: nobody is asked.
    """

    def __init__(self, token: str | None = None):
        self._token = token

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """See grpc.aio."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        given = dict(handler_call_details.invocation_metadata or ()).get("authorization", "")

        async def guarded(request: Any, context: Any) -> Any:
            try:
                self._check(given)
                return await handler.unary_unary(request, context)
            except RefusalError as error:
                await context.abort(error.fault.grpc, error.message)

        return grpc.unary_unary_rpc_method_handler(
            guarded, handler.request_deserializer, handler.response_serializer
        )

    def _check(self, given: str | bytes) -> None:
        if self._token is None:
            return
        text = given if isinstance(given, bytes) else given.encode()
        if not hmac.compare_digest(text, f"Bearer {self._token}".encode()):
            raise RefusalError(Fault.UNAUTHORIZED, "This server wants a bearer token.")


def _asked(spec: Any, method: Method) -> Asked:
    version = spec.version.value if spec.HasField("version") else None
    return Asked(spec.name, version, spec.signature_name, method)


def _tell(spec: Any, name: str, answer: Answer) -> None:
    spec.name, spec.signature_name = name, answer.signature
    spec.version.value = answer.version


def _array(name: str, value: Any, most_bytes: int) -> np.ndarray:
    """The array of a message, in which a last value may stand for all that follow."""
    try:
        count = math.prod(axis.size for axis in value.tensor_shape.dim)
        if count * np.dtype(tf.as_dtype(value.dtype).as_numpy_dtype).itemsize > most_bytes:
            raise RefusalError(
                Fault.TOO_LARGE, f"{name}: is too large; a tensor may have {most_bytes:,} bytes."
            )
        return tf.make_ndarray(value)
    except (KeyError, TypeError, ValueError) as error:
        raise RefusalError(
            Fault.INVALID, f"{name}: is no tensor of numbers or texts: {error}"
        ) from error


def _wanted(names: Any, answer: Answer) -> list[str]:
    """The outputs that are asked for; all, if none are."""
    unknown = [name for name in names if name not in answer.outputs]
    if unknown:
        raise RefusalError(Fault.INVALID, f"{unknown[0]}: is no output of {answer.signature}.")
    return list(names) or list(answer.outputs)


def _examples(given: Any) -> list[bytes]:
    """The serialized tf.Examples of a request, each with the features of its context."""
    if given.WhichOneof("kind") == "example_list_with_context":
        found = []
        for example in given.example_list_with_context.examples:
            joined = tf.train.Example()
            joined.MergeFrom(given.example_list_with_context.context)
            joined.MergeFrom(example)
            found.append(joined.SerializeToString())
        return found
    return [example.SerializeToString() for example in given.example_list.examples]
