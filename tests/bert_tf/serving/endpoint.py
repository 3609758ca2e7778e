"""The two interfaces of TensorFlow Serving, answered by a predictor: for tests of clients."""

import base64
import contextlib
import http.server
import json
import threading
import time
from concurrent import futures

import grpc
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from pipelines.common.errors import InputError

SLOW = "slow"  # a signature that takes its time


class _Grpc(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, predictor):
        self._predictor = predictor

    def Predict(self, request, context):  # noqa: N802
        if request.model_spec.name != "bert":
            context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found for request")
        if request.model_spec.signature_name == SLOW:
            time.sleep(2)
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        try:
            outputs = self._predictor(request.model_spec.signature_name, **inputs)
        except InputError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        response = predict_pb2.PredictResponse()
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response


def _decode(value):
    if isinstance(value, list):
        return [_decode(item) for item in value]
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value


def _encode(value):
    if isinstance(value, list):
        return [_encode(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _outputs(predictor):
    graph = saved_model_pb2.SavedModel()
    with open(f"{predictor.path}/saved_model.pb", "rb") as file:
        graph.ParseFromString(file.read())
    return {
        name: {
            key: json_format.MessageToDict(
                info, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
            for key, info in found.outputs.items()
        }
        for name, found in graph.meta_graphs[0].signature_def.items()
    }


def rest_handler(predictor):
    """The class that answers over REST."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if request["signature_name"] == SLOW:
                time.sleep(2)
            try:
                if self.path != "/v1/models/bert:predict":
                    raise InputError("Servable not found for request")
                inputs = {name: _decode(value) for name, value in request["inputs"].items()}
                outputs = predictor(request["signature_name"], **inputs)
                columns = {name: _encode(value.tolist()) for name, value in outputs.items()}
                only = next(iter(columns.values())) if len(columns) == 1 else columns
                status, answer = 200, {"outputs": only}
            except InputError as error:
                status, answer = 400, {"error": str(error)}
            with contextlib.suppress(BrokenPipeError):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

        def do_GET(self):
            signatures = {
                name: {"outputs": outputs} for name, outputs in _outputs(predictor).items()
            }
            answer = {"metadata": {"signature_def": {"signature_def": signatures}}}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    return Handler


@contextlib.contextmanager
def serve(predictor):
    """Yields the addresses of a gRPC and a REST endpoint."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_Grpc(predictor), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    rest = http.server.ThreadingHTTPServer(("localhost", 0), rest_handler(predictor))
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    try:
        yield f"grpc://localhost:{port}", f"http://localhost:{rest.server_port}"
    finally:
        server.stop(None)
        rest.shutdown()
