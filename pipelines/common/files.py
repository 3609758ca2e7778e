"""Files of all file systems: local, those of TensorFlow such as gs://, and those of fsspec."""

import contextlib
import fnmatch
import functools
import hashlib
import io
import os
import re
import uuid
from collections.abc import Iterator
from typing import Any, BinaryIO

import tensorflow as tf

from pipelines.common import locks, remote_files
from pipelines.common.errors import InputError, UnfinishedError


class _GFile:
    """The functions of tf.io.gfile, for file systems of fsspec those of `remote_files`."""

    def __getattr__(self, name: str) -> Any:
        of_tensorflow = getattr(tf.io.gfile, name)

        def call(path: str | os.PathLike[str], *more: Any, **options: Any) -> Any:
            if remote_files.reaches(os.fspath(path)):
                return getattr(remote_files, name)(path, *more, **options)
            return of_tensorflow(path, *more, **options)

        return call


gfile = _GFile()
_BLOCK = 1 << 22  # bytes
_PARTIAL = ".partial"
DISK_FULL = (
    "no space left on the device. Finished work is kept: free some space and run the same command "
    "again."
)
# Patterns of the names of files and folders that a killed command leaves behind.
LEFT_BEHIND = ("*.partial", f"*.partial-{'[0-9a-f]' * 8}")


def names_in(folder: str) -> list[str]:
    """The sorted names in a folder; names of folders do not end in a slash.

    Raises:
      InputError: A name is not UTF-8.
    """
    try:
        return sorted(name.rstrip("/") for name in gfile.listdir(folder))
    except UnicodeDecodeError as error:
        raise wrong_name(error) from error


def wrong_name(error: UnicodeDecodeError) -> InputError:
    """The error for the name of a file that TensorFlow could not read."""
    return InputError(f"{os.fsdecode(error.object)!r}: is a name that is not UTF-8; rename it.")


def matching(folder: str, pattern: str) -> list[str]:
    """The sorted paths in a folder whose names match a pattern; none if the folder is missing."""
    if not gfile.isdir(folder):
        return []
    return [f"{folder}/{name}" for name in names_in(folder) if fnmatch.fnmatchcase(name, pattern)]


def size_and_date(path: str) -> tuple[int, int]:
    """The bytes of a file, and when it was modified in nanoseconds, 0 if its storage is silent."""
    if "://" in path:
        found = gfile.stat(path)
        return found.length, found.mtime_nsec
    local = os.stat(path)  # TensorFlow counts in seconds
    return local.st_size, local.st_mtime_ns


def inside(folder: str, name: object, place: str) -> str:
    """The path of a file in a folder, of which the relative path comes from outside.

    Args:
      folder: The folder.
      name: The path relative to the folder.
      place: The file that contains the name, for the error.

    Raises:
      InputError: The name is not a relative path, or leads out of the folder.
    """
    parts = name.split("/") if isinstance(name, str) and "\0" not in name else [".."]
    if not all(parts) or not {".", ".."}.isdisjoint(parts):
        raise InputError(f"{place}: {name!r} is not the path of a file in its folder.")
    return f"{folder}/{name}"


def absolute(path: str) -> str:
    """A path from the root of its file system, without a slash at its end."""
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def partial_of(path: str) -> str:
    """The temporary name of a file that one process writes at a time."""
    return f"{path}{_PARTIAL}"


@contextlib.contextmanager
def write_aside(path: str, shared: bool = False) -> Iterator[str]:
    """Yields a temporary path, which is renamed to `path` if the block succeeds, else removed.

    Args:
      path: The final path.
      shared: Whether several processes may write the file at the same time. Each has a temporary
        file of its own, and the last one stays.

    Raises:
      InputError: The disk is full.
    """
    gfile.makedirs(os.path.dirname(path) or ".")
    temporary = _own_partial(path, folder=False) if shared else _one_partial(path)
    with temporary as partial:
        yield partial
        gfile.rename(partial, path, overwrite=True)


@contextlib.contextmanager
def folder_aside(path: str, replace: bool = False) -> Iterator[str]:
    """Yields a new folder, which is renamed to `path` if the block succeeds, else removed.

    Args:
      path: The final path.
      replace: Whether an existing folder is replaced; an empty one always is.

    Raises:
      InputError: `path` exists, another process writes it, or the disk is full.
    """
    if not replace:
        check_absent(path)
    path = locks.target(path)
    if "://" not in path and os.path.ismount(path):
        raise InputError(f"{path}: is a mount point, which stays; name a folder in it.")
    with _own_partial(path, folder=True) as partial:
        yield partial
        if not replace:
            check_absent(path)
        remove_tree(path)
        gfile.rename(partial, path)


def check_absent(path: str) -> None:
    """Raises InputError if a folder to write exists and is not empty."""
    empty = gfile.isdir(path) and not gfile.listdir(path)
    if gfile.exists(path) and not empty:
        raise InputError(f"{path}: exists already; name another folder, or remove it.")


@contextlib.contextmanager
def working_folder(path: str) -> Iterator[str]:
    """Yields a new folder next to `path`, for the duration of the block.

    Raises:
      InputError: Another process has such a folder.
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
    """Yields a temporary path of this process alone; removes those of killed processes.

    Raises:
      InputError: Another process writes the same folder.
    """
    parent = os.path.dirname(path) or "."
    living = _remove_left_behind(path, _partials_in(parent) if folder else _first_partials(parent))
    if living and folder:
        raise locks.busy(path)
    with contextlib.ExitStack() as stack:
        partial = _make_partial(path, folder, stack)
        with _removed_after_error(partial, path):
            yield partial


def _make_partial(path: str, folder: bool, stack: contextlib.ExitStack) -> str:
    """Makes a temporary file or folder, which is locked until the stack ends."""
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
                raise  # for example new/../here, if `new` is missing
        if lock is not None:  # else another process has just removed it as left behind
            stack.callback(os.close, lock.descriptor)
            return partial


def _partials_in(folder: str) -> list[str]:
    """The names of temporary files in a folder; none where locks are missing."""
    local = "://" not in folder and os.path.isdir(folder)
    return [name for name in os.listdir(folder) if _PARTIAL in name] if local else []


# A folder of many files is listed once, because processes were killed before this one started.
_first_partials = functools.lru_cache(maxsize=64)(_partials_in)


def _remove_left_behind(path: str, names: list[str]) -> bool:
    """Removes the temporary files of killed processes; returns whether a living one has some.

    Nothing is removed on file systems without locks, where this is unknown.
    """
    living = False
    folder, name = os.path.split(path)
    ours = re.compile(re.escape(name + _PARTIAL) + "-[0-9a-f]{8}")
    for partial in (os.path.join(folder, other) for other in names if ours.fullmatch(other)):
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


def is_same(path: str, other: str) -> bool:
    """Whether two paths are those of one file, perhaps by a link."""
    both = os.path.exists(path) and os.path.exists(other)  # on this machine
    return path == other or (both and os.path.samefile(path, other))


def is_disk_full(error: BaseException) -> bool:
    """Whether an error of Python or TensorFlow means that no space was left."""
    text = str(error).lower()
    return "no space left" in text or "disk quota exceeded" in text


def disk_full_error(path: str) -> InputError:
    """The error to raise if the disk is full while `path` is written."""
    return UnfinishedError(f"{path}: {DISK_FULL}")


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file, which appears in one piece."""
    with write_aside(path) as partial, gfile.GFile(partial, "w") as file:
        file.write(text)


def write_bytes(path: str, data: bytes, *, shared: bool = False) -> None:
    """Writes a file, which appears in one piece; several processes may write it if `shared`."""
    with write_aside(path, shared) as partial, gfile.GFile(partial, "wb") as file:
        file.write(data)


def check_regular(path: str) -> None:
    """Raises an InputError if a path is a folder, a pipe or a device, such as /dev/zero."""
    if "://" not in path and os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path}: is not a regular file; replace it with a copy of the file.")


def check_pointer(path: str, beginning: bytes) -> None:
    """Raises InputError if a file begins as one that Git LFS left in place of the real one."""
    if beginning.startswith(b"version https://git-lfs"):
        raise InputError(f"{path}: is a pointer of Git LFS; run `git lfs pull` in its folder.")


def read_whole(path: str, max_bytes: int = 1 << 28) -> bytes:
    """Reads a file that should be small, such as a vocabulary.

    Raises:
      InputError: The file is missing, larger than `max_bytes`, not a regular file, or a pointer.
    """
    check_regular(path)
    try:
        length = gfile.stat(path).length
        if length > max_bytes:
            raise InputError(
                f"{path}: has {length:,} bytes, and a file of this kind at most {max_bytes:,}; "
                "check what it is."
            )
        with gfile.GFile(path, "rb") as file:
            content = file.read(length)
    except tf.errors.NotFoundError as error:
        raise InputError(f"{path}: no such file.") from error
    check_pointer(path, content)
    return content


def sha256(path: str) -> str:
    """The SHA-256 checksum of a file, in hexadecimal.

    Raises:
      InputError: The file is missing, or not a regular file.
    """
    check_regular(path)
    digest = hashlib.sha256()
    with open_binary(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def is_whole(path: str, size: int) -> bool:
    """Whether a file exists and has the number of bytes that were written."""
    return gfile.exists(path) and gfile.stat(path).length == size


def open_binary(path: str, ahead: int = _BLOCK) -> BinaryIO:
    """Opens a file for reading bytes; raises an InputError if it is missing.

    Args:
      path: The file.
      ahead: Number of bytes that are read at a time on a file system of TensorFlow.
    """
    if not gfile.exists(path) or gfile.isdir(path):
        raise InputError(f"{path}: no such file.")
    if "://" not in path:
        return open(path, "rb")
    file = gfile.GFile(path, "rb")
    return file if remote_files.reaches(path) else io.BufferedReader(_RawGFile(file), ahead)


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


def remove_tree(path: str) -> None:
    """Removes a folder with its content, if it exists."""
    if gfile.exists(path):
        gfile.rmtree(path)
