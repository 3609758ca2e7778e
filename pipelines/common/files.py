"""Files of any file system alike: local, gs://, and those of fsspec, such as webhdfs://."""

import contextlib
import fnmatch
import gzip
import hashlib
import io
import os
import re
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import tensorflow as tf

from pipelines.common import locks, machine, remote_files
from pipelines.common.errors import InputError


class _GFile:
    """The functions of tf.io.gfile; of `remote_files` where TensorFlow does not reach."""

    def __getattr__(self, name: str) -> Any:
        of_tensorflow = getattr(tf.io.gfile, name)

        def call(path: str | os.PathLike[str], *more: Any, **options: Any) -> Any:
            if remote_files.reaches(os.fspath(path)):
                return getattr(remote_files, name)(path, *more, **options)
            return of_tensorflow(path, *more, **options)

        return call


gfile = _GFile()
_BLOCK = 1 << 22
_PARTIAL = ".partial"
GZIP = ".gz"
DISK_FULL = (
    "no space left on the device. What was finished is kept: free some space and run the same "
    "command again."
)
# What a killed command leaves behind, by name.
LEFT_BEHIND = ("*.partial", f"*.partial-{'[0-9a-f]' * 8}")


def names_in(folder: str) -> list[str]:
    """The sorted names of what is in a folder; folders without the slash that buckets give them."""
    return sorted(name.rstrip("/") for name in gfile.listdir(folder))


def matching(folder: str, pattern: str) -> list[str]:
    """The sorted paths of what is in a folder under names that a pattern matches.

    Unlike a glob, it takes the folder's own path as it is.
    """
    if not gfile.isdir(folder):
        return []
    return [f"{folder}/{name}" for name in names_in(folder) if fnmatch.fnmatchcase(name, pattern)]


def inside(folder: str, name: object, place: str) -> str:
    """The path of what a file of others names in a folder.

    Args:
      folder: where it must be.
      name: a path relative to the folder.
      place: the file that says so, for errors.

    Raises:
      InputError: it is no such path, or leads out of the folder.
    """
    parts = name.split("/") if isinstance(name, str) and "\0" not in name else [".."]
    if not all(parts) or not {".", ".."}.isdisjoint(parts):
        raise InputError(f"{place}: {name!r} names no file in its folder.")
    return f"{folder}/{name}"


def partial_of(path: str) -> str:
    """The name that a file with one writer has until it is whole."""
    return f"{path}{_PARTIAL}"


@contextlib.contextmanager
def write_aside(path: str, shared: bool = False) -> Iterator[str]:
    """Yields a temporary path; renames it to `path` when the block ends well.

    A file is seen under its final name only when it is whole. After an error
    the temporary file is removed.

    Args:
      path: the final name.
      shared: whether other processes may write the same file at the same time;
        each then has a temporary file of its own, and the last one stays.

    Raises:
      InputError: the disk is full.
    """
    gfile.makedirs(os.path.dirname(path) or ".")
    with _own_partial(path, folder=False) if shared else _one_partial(path) as partial:
        yield partial
        gfile.rename(partial, path, overwrite=True)


@contextlib.contextmanager
def folder_aside(path: str, replace: bool = False) -> Iterator[str]:
    """Yields a new folder to fill; renames it to `path` when the block ends well.

    After an error it is removed.

    Args:
      path: the final name.
      replace: whether a folder of that name makes room, which an empty one does always.

    Raises:
      InputError: `path` is there already, another process writes it, or the disk is full.
    """
    if not replace:
        _check_absent(path)
    with _own_partial(path, folder=True) as partial:
        yield partial
        if not replace:
            _check_absent(path)
        remove_tree(path)
        gfile.rename(partial, path)


def _check_absent(path: str) -> None:
    empty = gfile.isdir(path) and not gfile.listdir(path)
    if gfile.exists(path) and not empty:
        raise InputError(f"{path}: is there already; name another folder, or remove it.")


@contextlib.contextmanager
def working_folder(path: str) -> Iterator[str]:
    """Yields a new folder for the time of the block, beside `path`, which is about to be written.

    Raises:
      InputError: another process has one there.
    """
    with _own_partial(path, folder=True) as partial:
        yield partial
        remove_tree(partial)


@contextlib.contextmanager
def _one_partial(path: str) -> Iterator[str]:
    partial = partial_of(path)
    with _removed_after_error(partial, path):
        yield partial


@contextlib.contextmanager
def _own_partial(path: str, folder: bool) -> Iterator[str]:
    """Yields a temporary path that no other process has; those that killed ones left are removed.

    Raises:
      InputError: another process writes the same folder.
    """
    living = _remove_left_behind(path)
    if living and folder:
        raise locks.busy(path)
    with contextlib.ExitStack() as stack:
        partial = _make_partial(path, folder, stack)
        with _removed_after_error(partial, path):
            yield partial


def _make_partial(path: str, folder: bool, stack: contextlib.ExitStack) -> str:
    """Makes a temporary file or folder, and holds a lock on it until the stack ends."""
    while True:
        partial = f"{path}{_PARTIAL}-{uuid.uuid4().hex[:8]}"
        if folder:
            gfile.makedirs(partial)
        if "://" in path:
            return partial
        lock = None
        try:
            lock = locks.take(partial, os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            if not os.path.isdir(os.path.dirname(partial) or "."):
                raise  # such as new/../here, where nobody makes `new`
        if lock is not None:  # else another process took it for left behind, a moment ago
            stack.callback(os.close, lock.descriptor)
            return partial


def _remove_left_behind(path: str) -> bool:
    """Removes temporary files of a path that no living process has; says whether some are had.

    On file systems without locks nobody can tell, and nothing is removed.
    """
    if "://" in path:
        return False
    living = False
    folder, name = os.path.split(path)
    ours = re.compile(re.escape(name + _PARTIAL) + "-[0-9a-f]{8}")
    there = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    for partial in (os.path.join(folder, other) for other in there if ours.fullmatch(other)):
        with contextlib.suppress(FileNotFoundError):  # another process removes it, too
            lock = locks.take(partial)
            if lock is None:
                living = True
                continue
            if lock.certain:
                remove_tree(partial) if os.path.isdir(partial) else os.remove(partial)
            os.close(lock.descriptor)
    return living


@contextlib.contextmanager
def _removed_after_error(partial: str, path: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(tf.errors.OpError, OSError):
            remove_tree(partial) if gfile.isdir(partial) else gfile.remove(partial)
        if is_disk_full(error):
            raise disk_full_error(path) from error
        raise


def is_disk_full(error: BaseException) -> bool:
    """Whether an error of Python or TensorFlow says that no space was left."""
    text = str(error).lower()
    return "no space left" in text or "disk quota exceeded" in text


def disk_full_error(path: str) -> InputError:
    """The error to show when the disk is full while `path` is written."""
    return InputError(f"{path}: {DISK_FULL}")


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file in one piece."""
    with write_aside(path) as partial, gfile.GFile(partial, "w") as file:
        file.write(text)


def check_regular(path: str) -> None:
    """Checks that a path is a file, whose reading ends.

    Raises:
      InputError: it is a folder, a pipe or a device, such as a link to /dev/zero.
    """
    if "://" not in path and os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path}: is not a regular file; put a copy of the file in its place.")


def read_whole(path: str, most: int = 1 << 28) -> bytes:
    """Reads a file of settings, a vocabulary or another that is known to be small.

    Args:
      path: the file.
      most: bytes that it may have.

    Raises:
      InputError: there is no such file, it is larger, or it is not a regular file.
    """
    check_regular(path)
    try:
        length = gfile.stat(path).length
        if length > most:
            raise InputError(
                f"{path}: has {length:,} bytes, and a file of this kind at most {most:,}; check "
                "what it is."
            )
        with gfile.GFile(path, "rb") as file:
            return file.read(length)
    except tf.errors.NotFoundError as error:
        raise InputError(f"{path}: no such file.") from error


def sha256(path: str) -> str:
    """Returns the SHA-256 checksum of a file's bytes, in hexadecimal.

    Raises:
      InputError: there is no such file, or it is not a regular file.
    """
    check_regular(path)
    digest = hashlib.sha256()
    with open_binary(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def open_binary(path: str) -> BinaryIO:
    """Opens a file for reading bytes: local files the fast way, others by gfile.

    Raises:
      InputError: there is no such file.
    """
    if not gfile.exists(path) or gfile.isdir(path):
        raise InputError(f"{path}: no such file.")
    if "://" not in path:
        return open(path, "rb")
    file = gfile.GFile(path, "rb")
    return file if remote_files.reaches(path) else io.BufferedReader(_RawGFile(file), _BLOCK)


class _RawGFile(io.RawIOBase):
    """A file of TensorFlow, opened for reading bytes, as a raw file of Python."""

    def __init__(self, file: Any):
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextlib.contextmanager
def for_tensorflow(path: str) -> Iterator[str]:
    """Yields a path for a file that TensorFlow writes itself; behind the block it is at `path`."""
    if not remote_files.reaches(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        local = f"{folder}/file"
        yield local
        with open(local, "rb") as source, gfile.GFile(path, "wb") as target:
            shutil.copyfileobj(source, target, _BLOCK)


def is_gzip(path: str) -> bool:
    """Whether a file is gzipped, by its name."""
    return path.lower().endswith(GZIP)


@contextlib.contextmanager
def open_unpacked(path: str) -> Iterator[BinaryIO]:
    """Opens a plain or gzipped file for reading its bytes.

    Raises:
      InputError: there is no such file, or its gzip data is damaged.
    """
    with open_binary(path) as file:
        if not is_gzip(path):
            yield file
            return
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast(BinaryIO, unpacked)  # one in all but name
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(
                f"{path}: the gzip data is cut off or damaged ({error}); fetch the file again."
            ) from error


def read_unpacked(path: str) -> bytes:
    """Reads a plain or gzipped file of data, which may be far more than its gzipped bytes.

    Raises:
      InputError: there is no such file, its gzip data is damaged, or it does not fit in memory with
        what is made of it.
    """
    most = machine.memory() // 4
    blocks, size = [], 0
    with open_unpacked(path) as file:
        while size <= most and (block := file.read(_BLOCK)):
            blocks.append(block)
            size += len(block)
    if size > most:
        raise InputError(
            f"{path}: has more than {most / 1e9:,.1f} GB, unpacked, which is too much for the "
            "memory of this machine; split the file, or take a larger machine."
        )
    return b"".join(blocks)


def remove_tree(path: str) -> None:
    """Removes a folder and all it holds, if it is there."""
    if gfile.exists(path):
        gfile.rmtree(path)
