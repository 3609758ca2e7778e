"""Reading of files that may be compressed: by gzip, bzip2, xz or zstd."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from pipelines.common import files, machine, optional
from pipelines.common.errors import InputError

_STANDARD: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# How files begin that have these endings.
_BEGINNINGS = {
    ".gz": rb"\x1f\x8b\x08",
    ".bz2": rb"BZh[1-9]1AY&SY",
    ".xz": rb"\xfd7zXZ\x00",
    ".zst": rb"\x28\xb5\x2f\xfd",
}
_LONGEST_BEGINNING = 10  # bytes
_ARCHIVES = (".zip", ".7z", ".rar", ".tar", ".tgz", ".tbz2", ".txz", ".tzst")
ENDINGS = (*_STANDARD, ".zst")
_BLOCK = 1 << 20
# Text compresses to a third or a thirtieth, but some kilobytes can be made to hold gigabytes.
_MAX_RATIO = 200
_MIN_LIMIT = 1 << 20  # bytes that any file may unpack to


def is_compressed(path: str) -> bool:
    """Whether a file is compressed, by its name."""
    return path.lower().endswith(ENDINGS)


def name_unpacked(path: str) -> str:
    """A path without the ending of a compressed file."""
    return path.rpartition(".")[0] if is_compressed(path) else path


def ending_unpacked(path: str) -> str:
    """The extension of a file name, such as ".csv", also of "A.CSV" and "a.csv.gz"."""
    return os.path.splitext(name_unpacked(path.lower()))[1]


@contextlib.contextmanager
def open_unpacked(path: str) -> Iterator[BinaryIO]:
    """Opens a plain or compressed file for reading its bytes.

    Raises:
      InputError: The file is missing, is an archive of several, or is compressed and its name does
        not say so; its compressed data is damaged or exceeds an `UnpackedSize`; or zstd needs a
        package that is not installed.
    """
    if name_unpacked(path.lower()).endswith(_ARCHIVES):
        raise InputError(f"{path}: is an archive; unpack it, and name its files.")
    with files.open_binary(path) as file:
        if not is_compressed(path):
            plain = (
                file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(Any, file))
            )
            begin = plain.peek(_LONGEST_BEGINNING)
            for ending, pattern in _BEGINNINGS.items():
                if re.match(pattern, begin):
                    raise InputError(
                        f"{path}: the file is compressed, which its name does not say; rename it "
                        f"to *{ending}."
                    )
            yield plain
            return
        try:
            with _unpacked(path, file) as unpacked:
                counted = _Counted(unpacked, UnpackedSize(path))
                yield io.BufferedReader(counted, _BLOCK)
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk or the network
            raise InputError(
                f"{path}: the compressed data is truncated or damaged ({error}); download the file "
                "again."
            ) from error


def _unpacked(path: str, file: BinaryIO) -> BinaryIO:
    for kind, opened in _STANDARD.items():
        if path.lower().endswith(kind):
            return cast(BinaryIO, opened(file))
    return optional.load("pyarrow", "tables").CompressedInputStream(file, "zstd")


class UnpackedSize:
    """Counts the bytes of a file's content, at most 200 for each byte of the file, or 1 MiB."""

    def __init__(self, path: str):
        self._path = path
        self._left = max(_MIN_LIMIT, _MAX_RATIO * files.gfile.stat(path).length)

    def add(self, count: int) -> None:
        """Counts more bytes; raises an InputError if there are too many."""
        self._left -= count
        if self._left < 0:
            raise InputError(
                f"{self._path}: its content is more than {_MAX_RATIO} times as large as the file, "
                "which may be meant to exhaust the memory. If you trust it, write the content to a "
                "file that is not compressed (.txt, .csv or .jsonl)."
            )


class _Counted(io.RawIOBase):
    """An unpacked file of which the size is counted."""

    def __init__(self, file: BinaryIO, size: UnpackedSize):
        self._file, self._size = file, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._file.read(len(buffer))
        self._size.add(len(found))
        buffer[: len(found)] = found
        return len(found)


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
