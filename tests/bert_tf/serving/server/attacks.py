"""What attackers of a server send."""

import contextlib
import socket
import struct
import threading

import grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc

SIZE = 4 << 20  # bytes that a request may have
PREDICT, CLASSIFY = "/v1/models/bert:predict", "/v1/models/bert:classify"
SMALL = b'{"instances": ["x"]}'


def connect(server, buffer=None):
    """A connection on which nothing was sent; buffer: bytes that arrive without being read."""
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", server.rest_port))
    return connection


def send(server, data):
    """What a server answers to bytes, until it closes the connection."""
    with connect(server) as connection:
        with contextlib.suppress(ConnectionError):  # it may close before all is sent
            connection.sendall(data)
        return rest_of(connection)


def rest_of(connection):
    """What comes until the server closes a connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            found += part
    return found


def request(body=b"", path=PREDICT, framing=None):
    """A POST request; framing is the header that says how long the body is."""
    framing = framing or f"Content-Length: {len(body)}"
    head = (f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", framing, "", "")
    return "\r\n".join(head).encode() + body


@contextlib.contextmanager
def attack(function):
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


@contextlib.contextmanager
def service(server, kind=prediction_service_pb2_grpc.PredictionServiceStub):
    """The stock stub of a service of gRPC."""
    with grpc.insecure_channel(server.grpc.removeprefix("grpc://")) as channel:
        yield kind(channel)


@contextlib.contextmanager
def method(server, method, **options):
    """A method of gRPC that takes and returns bytes."""
    with grpc.insecure_channel(server.grpc.removeprefix("grpc://"), **options) as channel:
        yield channel.unary_unary(f"/tensorflow.serving.{method}")


def varint(number):
    """A number of variable length in a protobuf message."""
    low = bytes([number & 127 | 128 * (number > 127)])
    return low + (varint(number >> 7) if number > 127 else b"")


class RawCalls:
    """Calls over HTTP/2 by a client that receives no bytes of any answer."""

    def __init__(self, server):
        self.connection = socket.create_connection(("127.0.0.1", server.grpc_port), 60)
        window = struct.pack(">HI", 4, 0)  # of each stream
        self.connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, window))
        self._stream = -1

    def send(self, method, message, whole=True):
        """Calls a method, with a message or its beginning."""
        self._stream += 2
        names = (":path", f"/tensorflow.serving.{method}"), (":authority", "localhost")
        rest = ("te", "trailers"), ("content-type", "application/grpc")
        literals = b"".join(
            b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
            for name, value in (*names, *rest)
        )
        size = len(message) if whole else SIZE
        body = struct.pack(">BI", 0, size) + message
        self.connection.sendall(
            _frame(1, 4, self._stream, b"\x83\x86" + literals)  # POST, http
            + _frame(0, int(whole), self._stream, body)
        )


def _frame(kind, flags, stream, body):
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body
