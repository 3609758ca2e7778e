"""What a server says where it does not answer."""

import enum

import grpc

from pipelines.common import texts

# Characters of a message: what it quotes may be as long as a request, and clients of gRPC take
# 8 KiB of metadata.
_MAX_LENGTH = 800


class Fault(enum.Enum):
    """Kinds of refusals, each with its status of HTTP and of gRPC."""

    INVALID = 400, grpc.StatusCode.INVALID_ARGUMENT
    UNAUTHORIZED = 401, grpc.StatusCode.UNAUTHENTICATED
    FORBIDDEN = 403, grpc.StatusCode.PERMISSION_DENIED
    NOT_FOUND = 404, grpc.StatusCode.NOT_FOUND
    TOO_LARGE = 413, grpc.StatusCode.RESOURCE_EXHAUSTED
    MEDIA_TYPE = 415, grpc.StatusCode.INVALID_ARGUMENT
    BUSY = 429, grpc.StatusCode.RESOURCE_EXHAUSTED
    INTERNAL = 500, grpc.StatusCode.INTERNAL
    UNIMPLEMENTED = 501, grpc.StatusCode.UNIMPLEMENTED
    UNAVAILABLE = 503, grpc.StatusCode.UNAVAILABLE
    TIMEOUT = 504, grpc.StatusCode.DEADLINE_EXCEEDED

    @property
    def http(self) -> int:
        """The status of HTTP."""
        return self.value[0]

    @property
    def grpc(self) -> grpc.StatusCode:
        """The status of gRPC."""
        return self.value[1]


class RefusalError(Exception):
    """A request that is not answered.

    Args:
      fault: what kind of refusal it is.
      message: what is wrong, and what to do; one line, whatever text of a client's it quotes.
    """

    def __init__(self, fault: Fault, message: str):
        shown = message if len(message) <= _MAX_LENGTH else f"{message[: _MAX_LENGTH - 1]}…"
        self.fault, self.message = fault, texts.one_line(shown)
        super().__init__(self.message)
