"""Limits of HTTP connections: their number, and the time that each may take.

Uvicorn limits neither: a client that sends nothing keeps its connection for ever, and asyncio's own
server logs thousands of tracebacks when the process has no file descriptors left.
"""

import asyncio
import errno
import os
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from absl import logging
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Seconds from a connection, or its last answer, to the headers of the next request.
IDLE = 15.0
_MAX_CONNECTIONS = 512
_MAX_HEADERS = 64 << 10  # bytes of a request other than its body
_PAUSE = 1.0  # seconds, when no file descriptors are left
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits on everything that a client can delay.

    Args:
      *arguments: see HttpToolsProtocol.
      seconds: for a request; its answer may then take as long to be received.
      max_body: in bytes.
      **named: see HttpToolsProtocol.
    """

    def __init__(self, *arguments: Any, seconds: float, max_body: int, **named: Any):
        super().__init__(*arguments, **named)
        self.lost = asyncio.Event()
        self._seconds, self._max_body = seconds, max_body
        self._end = 0.0  # by the loop's clock
        self._timer: asyncio.TimerHandle | None = None
        self._in_headers = self._in_body = False
        self._overhead = 0  # bytes of the request that are not its body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._limit_time()
        self._check_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        # The bytes in which a request begins are not counted: they are few.
        if self._in_headers or self._in_body:
            self._overhead += len(data)
        super().data_received(data)
        # Chunks of a body may be as small as a byte, so that most of it is their lengths.
        most = _MAX_HEADERS if self._in_headers else _MAX_HEADERS + self._max_body
        if (self._in_headers or self._in_body) and self._overhead > most:
            if self._in_headers:
                self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        """See httptools."""
        super().on_message_begin()
        self._in_headers, self._in_body, self._overhead = True, False, 0

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._in_headers, self._in_body = False, True
        super().on_headers_complete()
        self._limit_time()

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._overhead -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See httptools."""
        self._in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """See HttpToolsProtocol."""
        super().on_response_complete()
        self._limit_time()

    def _limit_time(self) -> None:
        """Sets the time at which the connection ends if the client, not the server, is slow."""
        if self.cycle is not None and not self.cycle.response_complete:
            seconds = self._seconds + IDLE  # the request itself is refused earlier
        elif self.transport.get_write_buffer_size():
            seconds = self._seconds
        else:
            seconds = IDLE
        self._end = self.loop.time() + seconds

    def _check_time(self) -> None:
        """Ends the connection when its time is over; one timer for all of its requests."""
        left = self._end - self.loop.time()
        if left > 0:  # it may become less meanwhile
            self._timer = self.loop.call_later(min(left, IDLE), self._check_time)
        else:
            self.transport.abort()


class Acceptor:
    """Accepts a limited number of connections; others wait in the system's queue.

    It replaces `asyncio.Server`, which continues to accept, and to log, without file descriptors.

    Args:
      listeners: listening sockets that do not block.
      make: makes the protocol of a connection.
      most: maximum number of connections.
      tls: context of encryption, or None.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        make: Callable[[], BoundedProtocol],
        most: int,
        tls: ssl.SSLContext | None,
    ):
        self._listeners, self._make, self._tls = listeners, make, tls
        self._places = asyncio.Semaphore(most)
        self._loop = asyncio.get_running_loop()
        self._exhausted = False
        self._connections: set[asyncio.Task[None]] = set()
        self._accepting = [self._loop.create_task(self._accept(each)) for each in listeners]

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await self._places.acquire()
            try:
                connection, _ = await self._loop.sock_accept(listener)
            except OSError as error:
                self._places.release()
                if error.errno in _EXHAUSTED:
                    if not self._exhausted:
                        logging.warning("connections have to wait: %s.", error.strerror)
                    self._exhausted = True
                    await asyncio.sleep(_PAUSE)
                continue  # other errors are those of clients that have left
            self._exhausted = False
            task = self._loop.create_task(self._serve(connection))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, connection: socket.socket) -> None:
        """Serves a connection until it ends."""
        try:
            # Headers and body are two writes; the second must not wait until the first is received.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, protocol = await self._loop.connect_accepted_socket(
                self._make,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else IDLE,
            )
            await protocol.lost.wait()
        except OSError:  # the client has left, or does not speak TLS
            connection.close()
        finally:
            self._places.release()

    def close(self) -> None:
        """Accepts no more connections; open ones stay."""
        for task in self._accepting:
            task.cancel()
        for listener in self._listeners:
            listener.close()

    async def wait_closed(self) -> None:
        """Does nothing: `close` is immediate."""


def max_connections() -> int:
    """Maximum connections of each of two protocols; file descriptors are left for files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    free = limit - len(os.listdir("/dev/fd"))
    return max(1, min(_MAX_CONNECTIONS, free // 3))
