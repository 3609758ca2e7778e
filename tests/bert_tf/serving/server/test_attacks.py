"""Clients that want to harm a server, and others that it goes on to answer meanwhile."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request

import grpc
import pytest
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
)

from bert_tf.serving import client
from pipelines.common.errors import InputError
from tests.bert_tf.serving.server import attacks

pytestmark = pytest.mark.more

_GENEROUS = 10  # seconds for what takes a thousandth of them when nobody attacks


def _filled(head, item, tail):
    """A body of as many items as a request may have."""
    return head + item * ((attacks.SIZE - len(head) - len(tail)) // len(item)) + tail


_LARGE_BODIES = {
    "columns": (attacks.PREDICT, _filled(b'{"inputs":{"text":[[]', b",[]", b"]}}")),
    "rows": (attacks.PREDICT, _filled(b'{"instances":["a"', b',"a"', b"]}")),
    "objects": (attacks.PREDICT, _filled(b'{"instances":[{}', b",{}", b"]}")),
    "examples": (
        attacks.CLASSIFY,
        _filled(b'{"signature_name":"classes","examples":[{}', b",{}", b"]}"),
    ),
}


@pytest.mark.parametrize("blank", [b"\t", b" ", b"\t x"])
@pytest.mark.parametrize("place", ["head", "trailer"])
def test_headers_of_many_blanks_take_no_time(served, place, blank):
    def seconds_of(length):
        field = b"X: " + blank * (length // len(blank)) + b"\0\r\n\r\n"
        if place == "head":
            data = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + field
        else:
            data = attacks.request(b"0\r\n" + field, framing="Transfer-Encoding: chunked")
        begin = time.monotonic()
        with attacks.connect(served) as connection:
            connection.sendall(data)
            assert b" 400 " in attacks.rest_of(connection)
        return time.monotonic() - begin

    # In proportion to the square of the blanks, they took 1 and 20 seconds.
    assert seconds_of(60_000) < 1 + 8 * seconds_of(15_000)


@pytest.mark.parametrize("kind", _LARGE_BODIES)
def test_others_are_answered_while_large_requests_are_refused(served, kind):
    path, body = _LARGE_BODIES[kind]
    found, seconds = [], []
    served.get(path, body)
    memory = served.memory
    with attacks.attack(lambda: found.append(served.get(path, body))):
        while len(found) < 5:
            begin = time.monotonic()
            assert served.get("/healthz") == (200, "ok")
            seconds.append(time.monotonic() - begin)
    assert max(seconds) < _GENEROUS
    for status, text in found:
        words = "at most 2,048 at once" if kind == "rows" else "opening brackets"
        assert status == 413 and words in json.loads(text)["error"]
    assert served.memory - memory < 1 << 29


def test_a_body_that_is_too_large_is_not_read(usual_stub):
    declared = attacks.request(framing="Content-Length: 99999999999")
    assert b" 413 " in attacks.send(usual_stub, declared)
    chunked = attacks.request(framing="Transfer-Encoding: chunked")
    chunk = b"%x\r\n%s\r\n" % (1 << 16, b" " * (1 << 16))
    assert b" 413 " in attacks.send(usual_stub, chunked + chunk * (attacks.SIZE // (1 << 16) + 1))


@pytest.mark.parametrize("size", [attacks.SIZE + 1, 5 * attacks.SIZE])
def test_a_client_that_sends_first_sees_that_its_body_is_too_large(usual_stub, size):
    found = attacks.send(usual_stub, attacks.request(b" " * size))
    assert b" 413 " in found and b"A request may have 4,194,304 bytes" in found
    with pytest.raises(InputError, match="A request may have 4,194,304 bytes"):
        client.connect(usual_stub.rest).predict("first", text=["x" * size])


def test_a_text_that_stands_for_many_is_counted_as_often(served):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "bert", "tags_words"
    words = request.inputs["words"]
    words.dtype = types_pb2.DT_STRING
    for size in (1, 400):
        words.tensor_shape.dim.add().size = size
    words.string_val.append(b"x" * 100_000)
    with (
        attacks.service(served) as service,
        pytest.raises(grpc.RpcError, match="400 texts have 40,000,000 bytes") as raised,
    ):
        service.Predict(request, 60)
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def _inputs(signature, **inputs):
    return json.dumps({"signature_name": signature, "inputs": inputs}).encode()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        # One row of many choices, each a sequence; one long text that all others are padded to.
        (_inputs("pick", context=["x"], choices=[["y"] * 5000]), "batch of 5,000"),
        (_inputs("mood", text=["x" * 20_000] + ["x"] * 1000), "padded to the longest"),
        (_inputs("mood", text=[[[[[[[[["x"]]]]]]]]]), "nested"),
        (b'{"signature_name": "mood_ids", "inputs": [[[[1]]]]}', "must be named"),
        (b'{"instances": [NaN]}', "is invalid"),
        (b'{"instances": [1e999]}', "is invalid"),
        (b'{"instances": [%d]}' % 10**400, "is beyond int32"),
        (b'{"instances": [1], "instances": [2]}', "must be"),
    ],
)
def test_few_bytes_that_take_much_or_mean_nothing_are_refused(served, body, words):
    status, text = served.get(attacks.PREDICT, body)
    assert status in (400, 413) and words in json.loads(text)["error"]


def test_a_context_is_not_copied_into_many_examples(usual_stub):
    body = {"signature_name": "classes", "context": {"x": "y" * 100_000}, "examples": [{}] * 1000}
    status, text = usual_stub.get(attacks.CLASSIFY, json.dumps(body).encode())
    assert status == 413 and '"context" would have' in json.loads(text)["error"]
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "bert", "classes"
    given = request.input.example_list_with_context
    given.context.features.feature["x"].bytes_list.value.append(b"y" * 100_000)
    for _ in range(1000):
        given.examples.add()
    with (
        attacks.service(usual_stub) as service,
        pytest.raises(grpc.RpcError, match="context.*would have"),
    ):
        service.Classify(request, 60)


def test_a_compressed_message_is_not_unpacked_beyond_the_limit(stub):
    server = stub()
    memory = server.memory
    options = [("grpc.max_send_message_length", -1)]
    with (
        attacks.method(
            server, "PredictionService/Predict", options=options, compression=grpc.Compression.Gzip
        ) as predict,
        pytest.raises(grpc.RpcError) as raised,
    ):
        predict(b"\0" * (1 << 26), 60)
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert server.memory - memory < 1 << 25


def test_what_a_client_can_break_leaves_no_traceback(stub):
    server = stub()
    head = attacks.request(framing="Content-Length: 100")
    for data in (b"", head[:-2], head, head + b'{"inst'):
        with attacks.connect(server) as connection:
            connection.sendall(data)
    with attacks.connect(server) as connection:  # and one that leaves before its answer
        connection.sendall(attacks.request(b'{"signature_name": "slow", "instances": ["x"]}'))
    assert b" 400 " in attacks.send(server, b"GET / HTTP/1.1\r\nx: " + b"y" * (1 << 20))
    assert b" 400 " in attacks.send(server, b"\x16\x03\x01\x00 no HTTP\r\n\r\n")
    for path in ("/nothing", attacks.PREDICT):  # a request whose body is invalid from its beginning
        found = attacks.send(server, attacks.request(b"z\r\n", path, "Transfer-Encoding: chunked"))
        assert found.startswith(b"HTTP/1.1 400 ") and found.count(b"HTTP/1.1") == 1
    for number in (0, 7, 1 << 63, 1 << 64, "9" * 5000, "x", "-1", "٣"):
        path = urllib.parse.quote(f"/v1/models/bert/versions/{number}")
        assert server.get(f"{path}/metadata")[0] in (200, 404)
        assert server.get(f"{path}:predict", b"{}")[0] in (400, 404)
        if number != 0:
            assert server.get(path)[0] == 404
    status, text = server.get("/v1/models/bert:regress", b'{"examples": [{}]}')
    assert status == 404 and "There is no signature for regress" in text
    for body in (b"[" * 1_000_000, b'{"signature_name": "%s"}' % (b"x" * 9999)):
        status, text = server.get(attacks.PREDICT, body)
        assert status in (404, 413) and len(text) < 2000
    for method in ("Predict", "Classify", "Regress", "GetModelMetadata"):
        with attacks.method(server, f"PredictionService/{method}") as ask:
            with pytest.raises(grpc.RpcError, match="The request is not a ") as raised:
                ask(b"\xff\xff", 60)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with attacks.service(server) as service, pytest.raises(grpc.RpcError) as raised:
        service.MultiInference(inference_pb2.MultiInferenceRequest(), 60)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
    with attacks.service(server, model_service_pb2_grpc.ModelServiceStub) as service:
        with pytest.raises(grpc.RpcError) as raised:
            service.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest(), 60)
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with pytest.raises(grpc.RpcError, match="Unknown model"):
            service.GetModelStatus(get_model_status_pb2.GetModelStatusRequest(), 60)
    labelled = predict_pb2.PredictRequest()
    labelled.model_spec.name, labelled.model_spec.version_label = "bert", "stable"
    with (
        attacks.service(server) as service,
        pytest.raises(grpc.RpcError, match="Labels of versions"),
    ):
        service.Predict(labelled, 60)
    time.sleep(2)  # the slow one
    assert len(server.log) < 10_000
