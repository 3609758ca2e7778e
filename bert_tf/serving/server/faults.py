"""Refusals of requests."""

import enum

import grpc

from pipelines.common import texts

# Characters of a message: it may quote a request of any length, and clients of gRPC accept 8 KiB of
# metadata.
_MAX_LENGTH = 799


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
    UNAVAILABLE = 503, grpc.StatusCode.UNAVAILABLE
    TIMEOUT = 504, grpc.StatusCode.DEADLINE_EXCEEDED

    def __init__(self, http: int, status: grpc.StatusCode):
        self.http, self.grpc = http, status


class RefusalError(Exception):
    """A refused request; its message becomes one line, whatever text it quotes."""

    def __init__(self, fault: Fault, message: str):
        self.fault, self.message = fault, texts.one_line(texts.shorten(message, _MAX_LENGTH))
        super().__init__(self.message)
