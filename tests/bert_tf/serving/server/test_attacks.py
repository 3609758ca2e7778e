"""Clients that want to harm a server, and others that it goes on to answer meanwhile."""

import contextlib
import http.client
import json
import os
import resource
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import grpc
import pytest
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.bert_tf.serving.server.stub import LARGE, Stub

_SIZE = 4 << 20  # bytes that a request may have
_PREDICT, _CLASSIFY = "/v1/models/bert:predict", "/v1/models/bert:classify"
_SMALL = b'{"instances": ["x"]}'
_GENEROUS = 10  # seconds for what takes a thousandth of them when nobody attacks


@pytest.fixture
def stub():
    """Starts servers, which must not have logged a traceback when the test ends."""
    with contextlib.ExitStack() as stack:

        def start(**options):
            server = Stub(**options).wait()

            def end():
                log = server.log
                server.process.kill()
                server.process.wait(60)
                assert "Traceback" not in log, log[-3000:]

            stack.callback(end)
            return server

        yield start


def _connect(server):
    return socket.create_connection(("127.0.0.1", server.rest_port), 60)


def _send(server, data):
    """What a server answers to bytes, until it closes the connection."""
    with _connect(server) as connection:
        with contextlib.suppress(ConnectionError):  # it may close before all is sent
            connection.sendall(data)
        return _rest_of(connection)


def _rest_of(connection):
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            found += part
    return found


def _request(path, body, *headers, end=b"\r\n"):
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", ""]).encode() + end + body


def _filled(head, item, tail):
    """A body of as many items as a request may have."""
    return head + item * ((_SIZE - len(head) - len(tail)) // len(item)) + tail


_LARGE_BODIES = {
    "columns": (_PREDICT, _filled(b'{"inputs":{"text":[[]', b",[]", b"]}}")),
    "rows": (_PREDICT, _filled(b'{"instances":["a"', b',"a"', b"]}")),
    "objects": (_PREDICT, _filled(b'{"instances":[{}', b",{}", b"]}")),
    "examples": (_CLASSIFY, _filled(b'{"signature_name":"classes","examples":[{}', b",{}", b"]}")),
}


@contextlib.contextmanager
def _attack(function):
    """Calls a function again and again meanwhile."""
    stop = threading.Event()

    def run():
        while not stop.is_set():
            function()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("kind", _LARGE_BODIES)
def test_others_are_answered_while_large_requests_are_refused(served, kind):
    path, body = _LARGE_BODIES[kind]
    found, seconds = [], []
    served.get(path, body)
    memory = served.memory
    with _attack(lambda: found.append(served.get(path, body))):
        while len(found) < 5:
            begin = time.monotonic()
            assert served.get("/healthz") == (200, "ok")
            seconds.append(time.monotonic() - begin)
    assert max(seconds) < _GENEROUS
    for status, text in found:
        assert status == 413 and "at most 1,024 at once" in json.loads(text)["error"]
    assert served.memory - memory < 1 << 29


def test_a_body_that_is_too_large_is_not_read(stub):
    server = stub()
    head = _request(_PREDICT, b"", end=b"").replace(b"Length: 0", b"Length: 99999999999")
    assert b" 413 " in _send(server, head + b"\r\n")
    chunked = _request(_PREDICT, b"", "Transfer-Encoding: chunked").replace(
        b"Content-Length: 0\r\n", b""
    )
    chunk = b"%x\r\n%s\r\n" % (1 << 16, b" " * (1 << 16))
    assert b" 413 " in _send(server, chunked + chunk * (_SIZE // (1 << 16) + 1))


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
        (b'{"instances": [NaN]}', "no JSON object"),
        (b'{"instances": [1e999]}', "no JSON object"),
        (b'{"instances": [%d]}' % 10**400, "is beyond int32"),
        (b'{"instances": [1], "instances": [2]}', "must be"),
    ],
)
def test_few_bytes_that_take_much_or_mean_nothing_are_refused(served, body, words):
    status, text = served.get(_PREDICT, body)
    assert status in (400, 413) and words in json.loads(text)["error"]


def test_a_context_is_not_copied_into_many_examples(stub):
    server = stub()
    body = {"signature_name": "classes", "context": {"x": "y" * 100_000}, "examples": [{}] * 1000}
    status, text = server.get(_CLASSIFY, json.dumps(body).encode())
    assert status == 413 and '"context" would have' in json.loads(text)["error"]
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "bert", "classes"
    given = request.input.example_list_with_context
    given.context.features.feature["x"].bytes_list.value.append(b"y" * 100_000)
    for _ in range(1000):
        given.examples.add()
    with _service(server) as service, pytest.raises(grpc.RpcError, match="context.*would have"):
        service.Classify(request, 60)


@contextlib.contextmanager
def _service(server, kind=prediction_service_pb2_grpc.PredictionServiceStub):
    with grpc.insecure_channel(server.grpc.removeprefix("grpc://")) as channel:
        yield kind(channel)


@contextlib.contextmanager
def _method(server, method, **options):
    """A method of gRPC that takes and returns bytes."""
    with grpc.insecure_channel(server.grpc.removeprefix("grpc://"), **options) as channel:
        yield channel.unary_unary(f"/tensorflow.serving.{method}")


def test_refusals_of_grpc_leave_no_memory_behind(stub):
    server = stub()
    spec = classification_pb2.ClassificationRequest()
    spec.model_spec.name, spec.model_spec.signature_name = "bert", "classes"
    examples = b"\x0a\x00" * ((_SIZE - 100) // 2)  # empty ones

    def field(number, content):
        size, varint = len(content), b""
        while size > 127:
            varint, size = varint + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + varint + bytes([size]) + content

    body = spec.SerializeToString() + field(2, field(1, examples))
    memories = []
    with _method(server, "PredictionService/Classify") as classify:
        for _ in range(12):
            with pytest.raises(grpc.RpcError, match="at most 1,024 at once") as raised:
                classify(body, 60)
            assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            memories.append(server.memory)
    assert max(memories[3:]) - memories[2] < 1 << 28


def test_without_the_token_nothing_is_read(stub):
    server = stub(token="secret", seconds=2)
    body = b"\xff" * (_SIZE - 100)  # which cannot be decoded
    with _method(server, "PredictionService/Predict") as predict:
        for metadata in ((), (("authorization", "Bearer other"),), (("authorization", "secret"),)):
            with pytest.raises(grpc.RpcError, match="bearer token") as raised:
                predict(body, 60, metadata=metadata)
            assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
        for scheme in ("Bearer", "bearer", "BEARER"):
            with pytest.raises(grpc.RpcError, match="not a PredictRequest"):
                predict(body, 60, metadata=(("authorization", f"{scheme} secret"),))
    head = _request(_PREDICT, b"", end=b"").replace(b"Length: 0", b"Length: 1000000")
    with _connect(server) as connection:  # refused although the body does not come
        connection.sendall(head + b"\r\n")
        assert b" 401 " in connection.recv(1 << 16)
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert server.get(_PREDICT, _SMALL, Authorization=f"{scheme} secret")[0] == 200
    for other in (
        "secret",
        "Bearer",
        "Basic Onh4",
        "Basic OnNlY3JldA==",
        "Bearer sécret",
        "Basic ?",
    ):
        assert server.get(_PREDICT, _SMALL, Authorization=other)[0] == 401


def test_the_page_is_secret_where_there_is_a_token(stub):
    server = stub(token="secret")
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"{server.rest}/")
    assert raised.value.code == 401 and "classes" not in raised.value.read().decode()
    assert raised.value.headers["www-authenticate"].startswith("Basic")


def test_connections_that_wait_are_closed(stub):
    server = stub(idle=0.5, seconds=1)
    head = _request(_PREDICT, b"", end=b"").replace(b"Length: 0", b"Length: 100")
    # What each sends, and then again and again.
    begun = {
        "nothing": (b"", b"\n"),
        "half of a header": (b"GET /healthz HTTP/1.1\r\nHost: local", b"x"),
        "half of a body": (head + b'\r\n{"inst', b"x"),
        "an answer": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\n"),
        "chunks without an end": (
            f"POST {_PREDICT} HTTP/1.1\r\nHost: localhost\r\n".encode()
            + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
            b"0",
        ),
        "a body that is not asked for": (head.replace(_PREDICT.encode(), b"/") + b"\r\n", b"x"),
    }
    with contextlib.ExitStack() as stack:
        opened = {}
        for name, (data, _) in begun.items():
            opened[name] = stack.enter_context(_connect(server))
            opened[name].sendall(data)
        stop = time.monotonic() + 1.5
        while time.monotonic() < stop:  # a byte at a time keeps none of them
            for name, connection in opened.items():
                with contextlib.suppress(OSError):
                    connection.send(begun[name][1])
            time.sleep(0.1)
        answers = {name: _rest_of(connection) for name, connection in opened.items()}
    assert answers["nothing"] == b"" == answers["half of a header"]
    assert answers["an answer"].endswith(b"ok")
    assert answers["half of a body"].startswith(b"HTTP/1.1 504 ")
    assert answers["chunks without an end"].startswith(b"HTTP/1.1 504 ")
    assert answers["a body that is not asked for"].startswith(b"HTTP/1.1 405 ")


def test_an_answer_that_nobody_takes_is_dropped(stub):
    server = stub(idle=0.5, seconds=1)
    memory = server.memory
    body = b'{"signature_name": "large", "instances": ["x"]}'
    with _connect(server) as connection:
        connection.sendall(_request(_PREDICT, body))
        end = time.monotonic() + 60
        while server.memory < memory + LARGE:
            assert time.monotonic() < end
            time.sleep(0.01)
        end = time.monotonic() + 60
        while server.memory > memory + LARGE:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert len(_rest_of(connection)) < LARGE


def test_messages_of_grpc_that_do_not_come_are_not_waited_for(stub):
    server = stub(seconds=1, requests=1)
    stop = threading.Event()

    def never():
        stop.wait(60)
        yield from ()

    with grpc.insecure_channel(server.grpc.removeprefix("grpc://")) as channel:
        predict = channel.stream_unary("/tensorflow.serving.PredictionService/Predict")
        with pytest.raises(grpc.RpcError) as raised:
            predict(never())
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        stop.set()
    assert server.get(_PREDICT, _SMALL)[0] == 200


def test_a_compressed_message_is_not_unpacked(stub):
    server = stub()
    memory = server.memory
    body = b"\0" * (1 << 26)
    options = [("grpc.max_send_message_length", -1)]
    with (
        _method(
            server, "PredictionService/Predict", options=options, compression=grpc.Compression.Gzip
        ) as predict,
        pytest.raises(grpc.RpcError),
    ):
        predict(body, 60)
    assert server.memory - memory < 1 << 25


def test_where_descriptors_are_short_connections_wait(stub):
    server = stub(idle=0.5, descriptors=64)
    kept = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)
    answers = []

    def ask():
        kept.request("GET", "/healthz")
        answers.append(kept.getresponse().read())
        time.sleep(0.1)

    ask()
    with _attack(ask), contextlib.ExitStack() as stack:
        for _ in range(120):
            stack.enter_context(_connect(server))
        assert server.get("/healthz") == (200, "ok")  # when those before it have timed out
    assert len(answers) > 5 and set(answers) == {b"ok"}
    assert server.get("/healthz") == (200, "ok")
    assert len(server.log) < 10_000


def test_accepting_pauses_without_descriptors(stub):
    server = stub(idle=0.3)
    used = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used + 20, used + 20))
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(_connect(server))
        assert server.get("/healthz") == (200, "ok")
    assert server.log.count("connections have to wait") >= 1
    assert len(server.log) < 10_000


def test_what_a_client_can_break_leaves_no_traceback(stub):
    server = stub()
    head = _request(_PREDICT, b"", end=b"").replace(b"Length: 0", b"Length: 100")
    for data in (b"", head, head + b"\r\n", head + b'\r\n{"inst'):
        with _connect(server) as connection:
            connection.sendall(data)
    with _connect(server) as connection:  # and one that leaves before its answer
        connection.sendall(_request(_PREDICT, b'{"signature_name": "slow", "instances": ["x"]}'))
    assert b" 431 " in _send(server, b"GET / HTTP/1.1\r\nx: " + b"y" * (1 << 20))
    assert b" 400 " in _send(server, b"\x16\x03\x01\x00 no HTTP\r\n\r\n")
    for number in (0, 7, 1 << 63, 1 << 64, "9" * 5000, "x", "-1", "٣"):
        path = urllib.parse.quote(f"/v1/models/bert/versions/{number}")
        assert server.get(f"{path}/metadata")[0] in (200, 404)
        assert server.get(f"{path}:predict", b"{}")[0] in (400, 404)
        if number != 0:
            assert server.get(path)[0] == 404
    for body in (b"[" * 1_000_000, b'{"signature_name": "%s"}' % (b"x" * 9999)):
        status, text = server.get(_PREDICT, body)
        assert status in (400, 404) and len(text) < 2000
    for method in ("Predict", "Classify", "Regress", "GetModelMetadata"):
        with _method(server, f"PredictionService/{method}") as ask:
            with pytest.raises(grpc.RpcError, match="The request is not a ") as raised:
                ask(b"\xff\xff", 60)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with _service(server) as service, pytest.raises(grpc.RpcError) as raised:
        service.MultiInference(inference_pb2.MultiInferenceRequest(), 60)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
    with _service(server, model_service_pb2_grpc.ModelServiceStub) as service:
        with pytest.raises(grpc.RpcError) as raised:
            service.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest(), 60)
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with pytest.raises(grpc.RpcError, match="no model"):
            service.GetModelStatus(get_model_status_pb2.GetModelStatusRequest(), 60)
    labelled = predict_pb2.PredictRequest()
    labelled.model_spec.name, labelled.model_spec.version_label = "bert", "stable"
    with _service(server) as service, pytest.raises(grpc.RpcError, match="labels of versions"):
        service.Predict(labelled, 60)
    time.sleep(2)  # the slow one
    assert len(server.log) < 10_000


def test_other_websites_are_refused(stub):
    server = stub()
    here = f"localhost:{server.rest_port}"
    json_type = {"Content-Type": "application/json"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    wanted = [
        ({}, form, 200),  # curl -d
        ({"Host": "127.0.0.1"}, form, 200),
        ({"Host": "[::1]:9"}, form, 200),
        ({"Host": "LOCALHOST:9"}, form, 200),
        ({"Host": "evil.com"}, form, 403),
        ({"Host": "localhost.evil.com"}, form, 403),
        ({"Host": "127.0.0.1.evil.com:80"}, form, 403),
        ({"Host": here, "Origin": f"http://{here}"}, json_type, 200),
        ({"Host": here, "Origin": f"http://{here}"}, form, 415),
        ({"Host": here, "Origin": f"http://{here}"}, {"Content-Type": "text/plain"}, 415),
        ({"Host": here, "Origin": "http://localhost:1"}, json_type, 403),
        ({"Host": here, "Origin": "http://evil.com"}, json_type, 403),
        ({"Host": here, "Origin": "null"}, json_type, 403),
        ({"Sec-Fetch-Site": "cross-site"}, form, 415),
        ({"Sec-Fetch-Site": "same-origin"}, json_type, 200),
    ]
    for headers, kind, status in wanted:
        assert server.get(_PREDICT, _SMALL, **headers, **kind)[0] == status, headers
    assert server.get("/", Host="evil.com")[0] == 403
    request = b"OPTIONS /v1/models/bert:predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nOrigin: http://evil.com\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    assert b"access-control" not in _send(server, request).lower()
