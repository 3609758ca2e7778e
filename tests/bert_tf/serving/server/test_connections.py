"""Connections that are kept, and more of them than there can be."""

import contextlib
import http.client
import os
import re
import resource
import socket
import threading
import time

import grpc
import pytest

from bert_tf.serving.server import listening
from pipelines.common.errors import InputError
from tests.bert_tf.serving.server import attacks
from tests.bert_tf.serving.server.stub import LARGE, LONG
from tests.ports import free_ports

pytestmark = pytest.mark.more


def test_connections_that_wait_are_closed(stub):
    server = stub(idle=0.5, seconds=1)
    head = attacks.request(framing="Content-Length: 100")
    # What each sends, and then again and again.
    begun = {
        "nothing": (b"", b""),
        "half of a header": (b"GET /healthz HTTP/1.1\r\nHost: local", b"x"),
        "half of a body": (head + b'{"inst', b"x"),
        "an answer": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
        "chunks without an end": (
            attacks.request(b"1\r\n{\r\n", framing="Transfer-Encoding: chunked"),
            b"0",
        ),
        "a body that is not asked for": (head.replace(attacks.PREDICT.encode(), b"/"), b"x"),
    }
    with contextlib.ExitStack() as stack:
        opened = {}
        for name, (data, _) in begun.items():
            opened[name] = stack.enter_context(attacks.connect(server))
            opened[name].sendall(data)
        stop = time.monotonic() + 1.5
        while time.monotonic() < stop:  # a byte at a time keeps none of them
            for name, connection in opened.items():
                with contextlib.suppress(OSError):
                    connection.send(begun[name][1])
            time.sleep(0.1)
        answers = {name: attacks.rest_of(connection) for name, connection in opened.items()}
    assert answers["nothing"] == b"" == answers["half of a header"]
    assert answers["an answer"].endswith(b"ok")
    assert answers["half of a body"].startswith(b"HTTP/1.1 504 ")
    assert answers["chunks without an end"].startswith(b"HTTP/1.1 504 ")
    assert answers["a body that is not asked for"].startswith(b"HTTP/1.1 405 ")


def test_an_answer_is_whole_though_its_client_goes_on_sending(stub):
    """What arrives at a socket that is closed resets its connection."""
    body = b'{"signature_name": "long", "instances": ["x"]}'
    server = stub()
    with attacks.connect(server) as connection:
        connection.sendall(attacks.request(body))
        found = b""
        while len(found) < LONG - (1 << 18):
            found += connection.recv(1 << 16)
        time.sleep(0.5)  # the rest is in the system's buffer, and the server has ended its side
        connection.sendall(b"more")
        time.sleep(0.2)
        found += attacks.rest_of(connection)
    head, _, rest = found.partition(b"\r\n\r\n")
    assert len(rest) == int(re.search(rb"content-length: (\d+)", head)[1]) > LONG


def test_an_answer_that_nobody_takes_is_dropped(stub):
    server = stub(idle=0.5, seconds=1)
    memory = server.memory
    body = b'{"signature_name": "large", "instances": ["x"]}'
    with attacks.connect(server) as connection:
        connection.sendall(attacks.request(body))
        end = time.monotonic() + 60
        while server.memory < memory + LARGE:
            assert time.monotonic() < end
            time.sleep(0.01)
        end = time.monotonic() + 60
        while server.memory > memory + LARGE:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert len(attacks.rest_of(connection)) < LARGE


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
    end = time.monotonic() + 60
    while (status := server.get(attacks.PREDICT, attacks.SMALL)[0]) == 429:
        assert time.monotonic() < end  # the client can know it before the place is free
    assert status == 200


def test_where_descriptors_are_short_connections_wait(stub):
    server = stub(idle=0.5, descriptors=64)
    kept = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=60)
    answers = []

    def ask():
        kept.request("GET", "/healthz")
        answers.append(kept.getresponse().read())
        time.sleep(0.1)

    ask()
    with attacks.attack(ask), contextlib.ExitStack() as stack:
        for _ in range(120):
            stack.enter_context(attacks.connect(server))
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
            stack.enter_context(attacks.connect(server))
        assert server.get("/healthz") == (200, "ok")
    assert server.log.count("connections have to wait") >= 1
    assert len(server.log) < 10_000


def test_a_name_may_have_an_address_that_is_turned_off(monkeypatch):
    """As that of IPv6 in some containers."""
    (port,) = free_ports(1)
    found = [
        (family, socket.SOCK_STREAM, 6, "", place)
        for family, place in (
            (socket.AF_INET6, ("2001:db8::1", port, 0, 0)),
            (socket.AF_INET, ("127.0.0.1", port)),
        )
    ]
    monkeypatch.setattr(listening.socket, "getaddrinfo", lambda *_, **__: found)
    (opened,) = listening.open_port("rest_port", "localhost", port)
    with opened:
        assert opened.getsockname() == ("127.0.0.1", port) and not opened.getblocking()
    found.pop()
    with pytest.raises(InputError, match="--host=localhost: is not an address of this machine"):
        listening.open_port("rest_port", "localhost", port)
