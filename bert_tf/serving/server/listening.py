"""The servers of REST and gRPC, with limits on the resources that their clients can hold.

Uvicorn limits neither the number of connections nor the time of each: a client that sends nothing
keeps its connection for ever, and asyncio's own server logs thousands of tracebacks when the
process has no file descriptors left.
"""

import asyncio
import contextlib
import errno
import math
import os
import re
import resource
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import h11
import h11._abnf
import h11._readers
import uvicorn
from absl import logging
from starlette.middleware.cors import CORSMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from bert_tf.serving.credentials import Identity
from bert_tf.serving.server import rest, rpc
from bert_tf.serving.server.answers import Answerer
from pipelines.common.errors import InputError

GRACE = 30.0  # seconds for current requests when the server ends
_BACKLOG = 2048  # connections that wait to be accepted
_MAX_ANSWER = 1 << 30  # bytes, of gRPC
_MAX_METADATA = 16 << 10  # bytes of a request of gRPC other than its message
_PING = 60.0  # seconds of silence after which a client of gRPC has to confirm that it is there
# Seconds of a connection of gRPC; clients reconnect by themselves. Only its end can take an answer
# back that a client does not receive.
MAX_AGE = 60.0
# Seconds from a connection, or its last answer, to the headers of the next request.
IDLE = 15.0
_MAX_CONNECTIONS = 512
_MAX_HEADERS = 64 << 10  # bytes
_MAX_REST = 4 << 20  # bytes of a client that goes on sending after the last answer
_PAUSE = 1.0  # seconds, when no file descriptors are left
_NO_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


# Of a header with 100,000 blanks, h11's own expression tries each part of them as those before the
# value, for a minute. This one takes all, as `*+` gives nothing back; it fits the same headers.
h11._readers.header_field_re = re.compile(
    h11._abnf.header_field.replace("[ \\t]*", "[ \\t]*+", 1).encode()
)


class _Protocol(H11Protocol):
    """Uvicorn's protocol, which notes when its connection is lost, and keeps the socket.

    Uvicorn's other protocol, httptools, is faster by 75 us for a request, but parses requests while
    an earlier one is answered, without a limit.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.lost = asyncio.Event()
        self.socket: socket.socket | None = None  # after the end, without TLS

    def connection_lost(self, exc: Exception | None) -> None:
        found = self.transport.get_extra_info("socket")
        if found is not None and self.transport.get_extra_info("sslcontext") is None:
            with contextlib.suppress(OSError):  # no descriptor is left
                self.socket = found.dup()
        super().connection_lost(exc)
        self.lost.set()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
            if self.cycle:  # of the same request, whose body is invalid: this was its answer
                self.cycle.disconnected = True
                self.cycle.message_event.set()
        else:  # it was answered before its body was complete
            self.transport.close()


def max_connections() -> int:
    """Maximum connections of each of two protocols; file descriptors are left for files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    free = limit - len(os.listdir("/dev/fd"))
    return max(1, min(_MAX_CONNECTIONS, free // 3))


class RestServer(uvicorn.Server):
    """Uvicorn with REST, which accepts only as many connections as it can serve.

    It accepts them itself: `asyncio.Server` continues to accept, and to log, without file
    descriptors. `end` stops it: uvicorn's own signal handlers would end the process.
    """

    def __init__(
        self,
        answerer: Answerer,
        host: str,
        port: int,
        identity: Identity,
        origins: Sequence[str] = (),
    ):
        certificate, key = identity.files or (None, None)
        app: Any = rest.RestInterface(answerer, identity, host, origins)
        if origins:  # each answer, refusals too, names the website that may read it
            # Clients of OpenAI send a dozen headers of their own.
            app = CORSMiddleware(app, origins, allow_methods=("GET", "POST"), allow_headers=("*",))
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            h11_max_incomplete_event_size=_MAX_HEADERS,
            ws="none",
            log_level="error",  # any client can cause lines of lower levels
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_keep_alive=math.ceil(IDLE),
            timeout_graceful_shutdown=round(GRACE),
        )
        super().__init__(config)
        self._seconds = answerer.limits.seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._listeners = open_port("rest_port", self.config.host, self.config.port)
        self._places = asyncio.Semaphore(max_connections())  # others wait in the system's queue
        self._exhausted = False
        self._accepting = [asyncio.create_task(self._accept(each)) for each in self._listeners]
        self._connections: set[asyncio.Task[None]] = set()
        self.servers = [self]  # type: ignore[list-item]  # closed when the server ends
        self.started = True

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await self._places.acquire()
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:
                self._places.release()
                if error.errno in _EXHAUSTED:
                    if not self._exhausted:
                        logging.warning("connections have to wait: %s.", error.strerror)
                    self._exhausted = True
                    await asyncio.sleep(_PAUSE)
                continue  # other errors are those of clients that have left
            self._exhausted = False
            task = asyncio.create_task(self._serve_connection(connection))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve_connection(self, connection: socket.socket) -> None:
        """Serves a connection until it ends, or its client takes too long.

        A request may take `answerer.limits.seconds`, its answer as long to be received, and the
        next request `IDLE` to begin.
        """
        loop, tls = asyncio.get_running_loop(), self.config.ssl
        try:
            # Headers and body are two writes; the second must not wait until the first is received.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, protocol = await loop.connect_accepted_socket(
                lambda: _Protocol(self.config, self.server_state, self.lifespan.state),
                connection,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else IDLE,
            )
            before, end = None, 0.0
            while not protocol.lost.is_set():
                cycle = protocol.cycle
                answering = cycle is not None and not cycle.response_complete
                if before != (cycle, answering):  # a request has begun, or was answered
                    before, end = (cycle, answering), loop.time() + 2 * self._seconds * answering
                if loop.time() > end + IDLE:
                    protocol.transport.abort()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(IDLE / 16):
                        await protocol.lost.wait()
            if protocol.socket:
                with protocol.socket as kept:
                    if loop.time() < end + IDLE / 2:  # it was not idle
                        await _read_rest(kept)
        except OSError:  # the client has left, or does not speak TLS
            connection.close()
        finally:
            self._places.release()

    def close(self) -> None:
        """Accepts no more connections; open ones stay."""
        for task in self._accepting:
            task.cancel()
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)  # it may be about to accept
            listener.close()

    async def wait_closed(self) -> None:
        """Does nothing: `close` is immediate."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles no signals."""
        yield

    def end(self) -> None:
        """Ends when the current requests are answered; at once if it is called again."""
        self.force_exit = self.should_exit
        self.should_exit = True


async def _read_rest(connection: socket.socket) -> None:
    """Ends a connection from this side, and reads what its client still sends.

    A socket that is closed with bytes unread, or gets more, resets its connection, and the client
    loses what it has not yet received of the last answer (RFC 9112, section 9.6).
    """
    connection.setblocking(False)
    connection.shutdown(socket.SHUT_WR)
    loop, left = asyncio.get_running_loop(), _MAX_REST
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(IDLE):
            while left > 0 and (part := await loop.sock_recv(connection, 1 << 16)):
                left -= len(part)


def open_port(flag: str, host: str, port: int) -> list[socket.socket]:
    """Listening sockets on all addresses of a host that this machine has.

    Raises:
      InputError: the port of this flag is taken, or the host is not this machine.
    """
    opened: list[socket.socket] = []
    missing = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, place in {(family, place) for family, *_, place in found}:
            both = place[0] == "::" and socket.has_dualstack_ipv6()  # IPv4, too, as gRPC does
            try:
                opened.append(
                    socket.create_server(
                        place, family=family, backlog=_BACKLOG, dualstack_ipv6=both
                    )
                )
            except OSError as error:  # "localhost" may have an address of IPv6 that is turned off
                if error.errno not in _NO_ADDRESS:
                    raise
                missing = error
        for each in opened:
            each.setblocking(False)
        if missing and not opened:
            raise missing
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno in _NO_ADDRESS:
            raise InputError(
                f"--host={host}: is not an address of this machine; use 127.0.0.1 for this machine "
                "alone, 0.0.0.0 for all networks, :: for those of IPv6, too."
            ) from error
        raise InputError(
            f"--{flag}={port}: cannot be opened ({os.strerror(error.errno or 0)}); another program "
            "may use it."
        ) from error
    return opened


async def grpc_server(answerer: Answerer, place: str, identity: Identity) -> grpc.aio.Server:
    """A server of gRPC that listens to `place`, host:port.

    Raises:
      InputError: the port is taken.
    """
    options = [
        ("grpc.max_receive_message_length", answerer.limits.bytes),
        ("grpc.max_send_message_length", _MAX_ANSWER),
        # Otherwise windows grow to megabytes, which arrive for calls that have no place yet.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.so_reuseport", 0),
        ("grpc.max_metadata_size", _MAX_METADATA),
        ("grpc.absolute_max_metadata_size", _MAX_METADATA),
        ("grpc.max_concurrent_streams", answerer.limits.requests),
        ("grpc.max_allowed_incoming_connections", max_connections()),
        ("grpc.server_handshake_timeout_ms", round(IDLE * 1000)),
        ("grpc.max_connection_age_ms", round(MAX_AGE * 1000)),
        ("grpc.max_connection_age_grace_ms", round(2 * answerer.limits.seconds * 1000)),
        ("grpc.keepalive_time_ms", round(_PING * 1000)),
        ("grpc.keepalive_timeout_ms", round(IDLE * 1000)),
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
