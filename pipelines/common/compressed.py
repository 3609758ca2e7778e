"""Reading of files that may be compressed, by gzip or by zstd."""

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from pipelines.common import files, machine, optional
from pipelines.common.errors import InputError

_GZIP = ".gz"
ENDINGS = (_GZIP, ".zst")
_BLOCK = 1 << 20


def is_compressed(path: str) -> bool:
    """Whether a file is compressed, by its name."""
    return path.lower().endswith(ENDINGS)


def name_unpacked(path: str) -> str:
    """A path without the ending of a compressed file."""
    return path.rpartition(".")[0] if is_compressed(path) else path


@contextlib.contextmanager
def open_unpacked(path: str) -> Iterator[BinaryIO]:
    """Opens a plain or compressed file for reading its bytes.

    Raises:
      InputError: The file is missing, its compressed data is damaged, or zstd needs a package that
        is not installed.
    """
    with files.open_binary(path) as file:
        if not is_compressed(path):
            yield file
            return
        try:
            with _unpacked(file, path) as unpacked:
                yield unpacked
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise _damaged(path, error) from error


def _unpacked(file: BinaryIO, path: str) -> BinaryIO:
    if path.lower().endswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    arrow = optional.load("pyarrow", "tables")
    return io.BufferedReader(_ZstdStream(arrow.CompressedInputStream(file, "zstd"), path))


class _ZstdStream(io.RawIOBase):
    """A stream of pyarrow, with our error for damaged data."""

    def __init__(self, stream: Any, path: str):
        self._stream, self._path = stream, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except OSError as error:
            raise _damaged(self._path, error) from error
        buffer[: len(data)] = data
        return len(data)


def _damaged(path: str, error: Exception) -> InputError:
    return InputError(
        f"{path}: the compressed data is truncated or damaged ({error}); download the file again."
    )


def read_unpacked(path: str) -> bytes:
    """Reads a plain or compressed file.

    Raises:
      InputError: As for `open_unpacked`, or its content is too large for the memory.
    """
    max_bytes = machine.memory() // 4  # as more is made from it
    blocks, size = [], 0
    with open_unpacked(path) as file:
        while size <= max_bytes and (block := file.read(_BLOCK)):
            blocks.append(block)
            size += len(block)
    if size > max_bytes:
        raise InputError(
            f"{path}: has more than {max_bytes / 1e9:,.1f} GB, unpacked, which is too much for the "
            "memory of this machine; split the file, or use a larger machine."
        )
    return b"".join(blocks)
