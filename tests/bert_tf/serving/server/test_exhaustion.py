"""Clients that want to use up a server's memory, its places or its event loop."""

import contextlib
import json
import threading
import time
import urllib.error

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from tests.bert_tf.serving.server import attacks
from tests.bert_tf.serving.server.stub import LONG

pytestmark = pytest.mark.more

_MIB = 1 << 20
_GENEROUS = 5  # seconds for what takes a fiftieth of them on a machine that does nothing else


@contextlib.contextmanager
def _answered_meanwhile(server):
    """The server answers all others soon, and in 128 MiB."""
    seconds, memory, before = [], [], server.memory

    def probe():
        begin = time.monotonic()
        assert server.get("/healthz") == (200, "ok")
        seconds.append(time.monotonic() - begin)
        memory.append(server.memory)
        time.sleep(0.01)

    with attacks.attack(probe):
        yield
    assert max(seconds) < _GENEROUS
    assert max(memory) - before < 128 * _MIB


@pytest.fixture(scope="module")
def server(module_stub):
    """A stub with few places, for all tests of this file."""
    return module_stub(requests=8, seconds=30, age=1)


def test_requests_that_follow_wait_until_an_answer_is_received(server):
    burst = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 7000
    with contextlib.ExitStack() as stack, _answered_meanwhile(server):
        opened = [stack.enter_context(attacks.connect(server)) for _ in range(64)]
        for connection in opened:
            connection.setblocking(False)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            for connection in opened:
                with contextlib.suppress(BlockingIOError):
                    connection.send(burst)
            time.sleep(0.01)


def test_pipelined_requests_are_answered_in_order(server):
    kinds = [
        ("/healthz", b"ok"),
        ("/nothing", b'{"error":{"message":"Not Found","type":"not_found"}}'),
    ] * 20
    requests = "".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path, _ in kinds)
    body = attacks.request(attacks.SMALL)
    found = attacks.send(server, requests.encode() + body)
    answers = [answer.partition(b"\r\n\r\n")[2] for answer in found.split(b"HTTP/1.1 ")[1:]]
    assert answers == [*(answer for _, answer in kinds), b'{"predictions":[0]}']


def _take_all_places(server, begin):
    """Begins requests until others have been refused for a while."""
    end = time.monotonic() + 60
    refused_since = None
    while refused_since is None or time.monotonic() < refused_since + 0.3:
        if server.get(attacks.PREDICT, attacks.SMALL)[0] == 429:
            refused_since = refused_since or time.monotonic()
        else:
            begin()
            refused_since = None
        assert time.monotonic() < end


def _wait_for_a_place(server):
    end = time.monotonic() + 60
    while server.get(attacks.PREDICT, attacks.SMALL)[0] != 200:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_abandoned_stream_ends_although_another_request_was_pipelined(server):
    body = b'{"signature_name": "endless", "inputs": ["x"]}'
    stream = attacks.request(body, "/v1/models/bert:stream").replace(b"Connection: close\r\n", b"")
    more = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    lines = len(server.log)
    for pipelined in (b"", more, more * 4000):
        connections = []

        def begin(connections=connections, pipelined=pipelined):
            connections.append(attacks.connect(server))
            connections[-1].sendall(stream)
            connections[-1].recv(1)  # it is answered
            connections[-1].setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connections[-1].send(pipelined)

        _take_all_places(server, begin)
        for connection in connections:
            connection.close()
        _wait_for_a_place(server)
    assert len(server.log) - lines < 1000


def test_a_place_is_held_until_an_answer_is_received(server):
    body = b'{"signature_name": "long", "instances": ["x"]}'
    memory = server.memory
    with contextlib.ExitStack() as stack:
        opened = []

        def begin():
            opened.append(stack.enter_context(attacks.connect(server, 1 << 16)))
            opened[-1].sendall(attacks.request(body))

        _take_all_places(server, begin)
        assert server.memory - memory < 8 * 6 * LONG  # copies of each
        assert len(attacks.rest_of(opened[0])) > LONG
        _wait_for_a_place(server)
        assert 'reason="busy",signature="unknown"' in server.get("/metrics")[1]


def _field(number, content):
    return attacks.varint(number << 3 | 2) + attacks.varint(len(content)) + content


def _named(kind, padding=0):
    """A request that names the model, with a field that nobody knows."""
    request = kind()
    request.model_spec.name = "bert"
    return request.SerializeToString() + _field(31, b"x" * padding)


_DESCRIBED = {
    "ModelService/GetModelStatus": get_model_status_pb2.GetModelStatusRequest,
    "PredictionService/GetModelMetadata": get_model_metadata_pb2.GetModelMetadataRequest,
}


@pytest.mark.parametrize("method", _DESCRIBED)
def test_messages_that_only_name_a_model_are_few_at_once(server, method):
    large = _named(_DESCRIBED[method], 4_000_000)
    with _answered_meanwhile(server), attacks.method(server, method) as ask:
        codes = {call.code() for call in [ask.future(large, 60) for _ in range(60)]}
    # Some are refused before the client knows how many it may ask at once.
    assert codes <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}
    with contextlib.ExitStack() as stack, _answered_meanwhile(server):

        def begin():
            calls = attacks.RawCalls(server)
            stack.callback(calls.connection.close)
            for _ in range(128):
                calls.send(method, large[:200], whole=False)

        _take_all_places(server, begin)
    _wait_for_a_place(server)
    with attacks.method(server, method) as ask:
        assert ask(_named(_DESCRIBED[method]), 60)


def test_a_call_has_its_place_until_its_answer_is_received(server):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "bert", "long"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(["x"]))
    message = request.SerializeToString()
    with contextlib.ExitStack() as stack:

        def begin():  # on a connection of its own, as they end after a second
            calls = attacks.RawCalls(server)
            stack.callback(calls.connection.close)
            calls.send("PredictionService/Predict", message)

        _take_all_places(server, begin)
    _wait_for_a_place(server)


def test_others_are_answered_while_nested_json_arrives(server):
    body = b'{"inputs": [' + b"[]," * ((attacks.SIZE - 20) // 3) + b"[]]}"
    found = []

    def ask():
        with contextlib.suppress(urllib.error.URLError):  # refused before all was sent
            found.append(server.get(attacks.PREDICT, body))

    threads = [threading.Thread(target=ask) for _ in range(40)]
    with _answered_meanwhile(server):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    refused = [json.loads(text)["error"] for status, text in found if status == 413]
    assert refused and all("opening brackets" in text for text in refused)
    assert {status for status, _ in found} <= {413, 429}


def _input(tensor):
    return _field(2, _field(1, b"text") + _field(2, tensor))


def _many(value):
    """As many of a value as leave space for what is around them."""
    return value * ((attacks.SIZE - 100) // len(value))


_MANY_VALUES = {
    "examples": ("Classify", _field(2, _field(1, _many(b"\x0a\x00")))),
    "examples with a context": ("Classify", _field(2, _field(2, _many(b"\x0a\x00")))),
    "features": ("Classify", _field(2, _field(1, _field(1, _field(1, _many(b"\x0a\x00")))))),
    "features of the context": ("Regress", _field(2, _field(2, _field(2, _many(b"\x0a\x00"))))),
    "inputs": ("Predict", b"".join(_field(2, _field(1, b"%x" % n)) for n in range(400_000))),
    "outputs": ("Predict", _many(b"\x1a\x00")),
    "texts": ("Predict", _input(b"\x08\x07" + _many(b"\x42\x00"))),
    "axes": ("Predict", _input(b"\x08\x07" + _field(2, _many(b"\x12\x00")))),
    "variants": ("Predict", _input(_many(b"\x7a\x00"))),
    "unpacked numbers": ("Predict", _input(_many(b"\x38\x01"))),
}


@pytest.mark.parametrize("kind", _MANY_VALUES)
def test_others_are_answered_while_messages_of_many_values_arrive(server, kind):
    name, message = _MANY_VALUES[kind]
    with _answered_meanwhile(server), attacks.method(server, f"PredictionService/{name}") as ask:
        calls = [ask.future(message, 60) for _ in range(40)]
        refused = [call.details() for call in calls]
    assert any("more than 131,072 values" in text for text in refused)
    assert {call.code() for call in calls} <= {
        grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE
    }  # fmt: skip


def test_a_shape_of_many_large_axes_is_not_multiplied(server):
    axis = _field(2, b"\x08" + attacks.varint((1 << 63) - 1))
    message = _input(b"\x08\x07" + _field(2, _field(2, b"\x08\x01") + axis * 60_000))
    with _answered_meanwhile(server), attacks.method(server, "PredictionService/Predict") as ask:
        message += _named(predict_pb2.PredictRequest)
        with pytest.raises(grpc.RpcError, match="text: has 60,001 axes; at most 8 are") as raised:
            ask(message, 60)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_an_output_that_is_asked_for_often_is_sent_once(server):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "bert", "long"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(["x"]))
    request.output_filter.extend(["answer"] * 100_000)
    options, predict = [("grpc.max_receive_message_length", -1)], "PredictionService/Predict"
    with _answered_meanwhile(server), attacks.method(server, predict, options=options) as ask:
        assert LONG < len(ask(request.SerializeToString(), 60)) < LONG + 1000


def test_clients_of_grpc_reconnect_by_themselves(server):
    """Although each connection ends after a second."""
    end = time.monotonic() + 3
    with attacks.method(server, "ModelService/GetModelStatus") as ask:
        request = _named(get_model_status_pb2.GetModelStatusRequest)
        while time.monotonic() < end:
            assert ask(request, 60)
