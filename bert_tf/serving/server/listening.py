"""The servers of REST and gRPC, with limits on the resources that their clients can hold."""

import contextlib
import functools
import math
import socket
from collections.abc import Iterator

import grpc
import uvicorn

from bert_tf.serving.credentials import Identity
from bert_tf.serving.server import connections, rpc
from bert_tf.serving.server.answers import Answerer, RequestLimits
from bert_tf.serving.server.rest import RestInterface, Sites
from pipelines.common.errors import InputError

GRACE = 30.0  # seconds for current requests when the server ends
_BACKLOG = 2048  # connections that wait to be accepted
_MAX_ANSWER = 1 << 30  # bytes, of gRPC
_MAX_METADATA = 16 << 10  # bytes of a request of gRPC other than its message
_MAX_IDLE = 300.0  # seconds of a connection of gRPC without requests
_PING = 60.0  # seconds of silence after which a client of gRPC has to confirm that it is there


def rest_server(
    answerer: Answerer, host: str, port: int, identity: Identity, tls: tuple[str, str] | None
) -> "RestServer":
    """A server of REST; `tls` are the files of the certificate and its key, or None."""
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        RestInterface(answerer, identity, Sites(host)).app(),
        host=host,
        port=port,
        http="httptools",
        ws="none",
        log_level="error",  # any client can cause lines of lower levels
        access_log=False,
        server_header=False,
        lifespan="off",
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_keep_alive=math.ceil(connections.IDLE),
        timeout_graceful_shutdown=round(GRACE),
    )
    return RestServer(config, answerer.limits)


class RestServer(uvicorn.Server):
    """Uvicorn that accepts only as many connections as it can serve.

    `end` stops it: uvicorn's own signal handlers would end the process.

    Args:
      config: of uvicorn, with host and port.
      limits: of requests.
    """

    def __init__(self, config: uvicorn.Config, limits: RequestLimits):
        super().__init__(config)
        self._limits = limits

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn; listens.

        Raises:
          InputError: the port is taken.
        """
        make = functools.partial(
            connections.BoundedProtocol,
            self.config,
            self.server_state,
            self.lifespan.state,
            seconds=self._limits.seconds,
            max_body=self._limits.bytes,
        )
        listeners = _listeners(self.config.host, self.config.port)
        acceptor = connections.Acceptor(
            listeners, make, connections.max_connections(), self.config.ssl
        )
        self.servers = [acceptor]  # type: ignore[list-item]  # as far as uvicorn uses them
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles no signals."""
        yield

    def end(self) -> None:
        """Ends when the current requests are answered."""
        self.should_exit = True


def _listeners(host: str, port: int) -> list[socket.socket]:
    """Sockets on all addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners = []
    try:
        for family, place in {(family, place) for family, *_, place in found}:
            listeners.append(socket.create_server(place, family=family, backlog=_BACKLOG))
            listeners[-1].setblocking(False)
    except OSError as error:
        raise InputError(
            f"--rest_port={port}: cannot be opened ({error.strerror}); another program may use it."
        ) from error
    return listeners


async def grpc_server(answerer: Answerer, place: str, identity: Identity) -> grpc.aio.Server:
    """A listening server of gRPC.

    Args:
      answerer: of the model.
      place: host:port.
      identity: token and TLS.

    Raises:
      InputError: the port is taken.
    """
    options = [
        ("grpc.max_receive_message_length", answerer.limits.bytes),
        ("grpc.max_send_message_length", _MAX_ANSWER),
        ("grpc.so_reuseport", 0),
        ("grpc.max_metadata_size", _MAX_METADATA),
        ("grpc.absolute_max_metadata_size", _MAX_METADATA),
        ("grpc.max_concurrent_streams", answerer.limits.requests),
        ("grpc.max_allowed_incoming_connections", connections.max_connections()),
        ("grpc.server_handshake_timeout_ms", round(connections.IDLE * 1000)),
        ("grpc.max_connection_idle_ms", round(_MAX_IDLE * 1000)),
        ("grpc.keepalive_time_ms", round(_PING * 1000)),
        ("grpc.keepalive_timeout_ms", round(connections.IDLE * 1000)),
    ]
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers(tuple(rpc.handlers(answerer, identity)))
    try:
        if identity.pair is None:
            server.add_insecure_port(place)
        else:
            server.add_secure_port(place, grpc.ssl_server_credentials([identity.pair]))
    except RuntimeError as error:
        raise InputError(
            f"--grpc_port: {place} cannot be opened; another program may use it."
        ) from error
    await server.start()
    return server
