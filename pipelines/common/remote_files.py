"""What is used of tf.io.gfile, for file systems that TensorFlow does not reach: through fsspec.

Such as HDFS by its web interface, `webhdfs://user@namenode:9870/folder/file`. Which there are, what
packages they want, and what environment variables say of them, is fsspec's.
"""

import contextlib
import fnmatch
import functools
import io
import os
from collections.abc import Callable, Iterator
from typing import IO, Any, BinaryIO, NamedTuple, cast

import fsspec
import tensorflow as tf

_BLOCK = 1 << 22  # bytes that are read at a time
_FOLDER = "directory"
_ATTEMPTS = 5  # to take a name that others take at the same time


class Stat(NamedTuple):
    """Of a file, as tf.io.gfile tells it.

    Attributes:
      length: bytes.
    """

    length: int


def reaches(path: str) -> bool:
    """Whether a path is of a file system of fsspec's, and of none of TensorFlow's."""
    scheme, mark, _ = path.partition("://")
    return bool(mark) and scheme in _schemes()


@functools.cache
def _schemes() -> frozenset[str]:
    known = {*fsspec.available_protocols(), *fsspec.registry}
    return frozenset(known - set(tf.io.gfile.get_registered_schemes()))


class _Place:
    """A path, as its file system has it.

    Args:
      path: as it is named.

    Raises:
      tf.errors.UnavailableError: the file system cannot be had.
    """

    def __init__(self, path: str):
        self.path = path.rstrip("/")
        scheme, mark, rest = self.path.partition("://")
        host, slash, inner = rest.partition("/")
        with _told(path):  # of the root only: what follows may have characters with a sense in URLs
            self.system, root = fsspec.core.url_to_fs(f"{scheme}{mark}{host}/")
            self.system.invalidate_cache()  # others write there, too
        self.name = root.rstrip("/") + slash + inner

    def info(self) -> dict[str, Any] | None:
        """What is known of it; None: it is not there."""
        try:
            with _told(self.path):
                return self.system.info(self.name)
        except tf.errors.NotFoundError:
            return None

    def entries(self) -> dict[str, bool]:
        """The names of what is in a folder, and whether each is a folder."""
        with _told(self.path):
            found = self.system.ls(self.name, detail=True)
        named = {os.path.basename(each["name"].rstrip("/")): each for each in found}
        return {name: each["type"] == _FOLDER for name, each in named.items()}


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Errors of a file system become those of tf.io.gfile, and name the path."""
    try:
        yield
    except tf.errors.OpError:
        raise
    except FileNotFoundError as error:
        raise _missing(path) from error
    except PermissionError as error:
        message = f"{path}: may not be used ({error})."
        raise tf.errors.PermissionDeniedError(None, None, message) from error
    except Exception as error:  # each file system has its own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise _unavailable(path, reason) from error


def _missing(path: str) -> tf.errors.NotFoundError:
    return tf.errors.NotFoundError(None, None, f"{path}: no such file.")


def _unavailable(path: str, reason: str) -> tf.errors.UnavailableError:
    return tf.errors.UnavailableError(None, None, f"{path}: cannot be reached ({reason}).")


def exists(path: str) -> bool:
    """Whether there is a file or a folder."""
    return _Place(path).info() is not None


def isdir(path: str) -> bool:
    """Whether there is a folder."""
    return (_Place(path).info() or {}).get("type") == _FOLDER


def stat(path: str) -> Stat:
    """What is known of a file.

    Raises:
      tf.errors.NotFoundError: it is not there.
    """
    found = _Place(path).info()
    if found is None:
        raise _missing(path)
    return Stat(found["size"])


def listdir(path: str) -> list[str]:
    """The names of what is in a folder.

    Raises:
      tf.errors.NotFoundError: it is not there.
    """
    return list(_Place(path).entries())


def glob(pattern: str) -> list[str]:
    """The paths that a pattern matches; no part of it stands for several folders."""
    scheme, mark, rest = pattern.partition("://")
    host, _, inner = rest.partition("/")
    found = [f"{scheme}{mark}{host}"]
    for part in inner.rstrip("/").split("/"):
        found = [path for folder in found for path in _matching(folder, part)]
    return found


def _matching(folder: str, part: str) -> list[str]:
    """The paths in a folder whose names a part of a pattern matches; none in what is no folder."""
    if not isdir(folder):
        return []
    names = sorted(_Place(folder).entries())
    return [f"{folder}/{name}" for name in names if fnmatch.fnmatchcase(name, part)]


def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Folders from the top, each with the names of the folders and files in it."""
    entries = _Place(path).entries()
    folders = [name for name, is_folder in entries.items() if is_folder]
    yield path, folders, [name for name, is_folder in entries.items() if not is_folder]
    for name in folders:
        yield from walk(f"{path.rstrip('/')}/{name}")


def makedirs(path: str) -> None:
    """Makes a folder and those above it, as far as they are not there."""
    place = _Place(path)
    with _told(path):
        place.system.makedirs(place.name, exist_ok=True)


def remove(path: str) -> None:
    """Removes a file.

    Raises:
      tf.errors.NotFoundError: it is not there.
    """
    place = _Place(path)
    if place.info() is None:  # some file systems say nothing
        raise _missing(path)
    with _told(path):
        place.system.rm_file(place.name)


def rmtree(path: str) -> None:
    """Removes a folder and all it holds.

    Raises:
      tf.errors.NotFoundError: it is not there.
    """
    place = _Place(path)
    if place.info() is None:
        raise _missing(path)
    if not fsspec.core.has_magic(place.name):
        with _told(path):
            place.system.rm(place.name, recursive=True)
        return
    for folder, _, names in reversed(list(walk(path))):  # else the name would be a pattern
        for name in names:
            remove(f"{folder}/{name}")
        inner = _Place(folder)
        with _told(folder):
            inner.system.rmdir(inner.name)
            if inner.info() is not None:  # HDFS removes empty folders as it removes files
                inner.system.rm_file(inner.name)


def rename(source: str, target: str, overwrite: bool = False) -> None:
    """Gives a file or a folder another name.

    Most of these file systems replace nothing: for a moment neither is there, and of several who
    rename to one name at once, each tries again until its own is gone. So a file that is replaced
    by an equal one stays.

    Args:
      source: its path.
      target: the other path, in the same file system.
      overwrite: whether a file that has it is replaced.

    Raises:
      tf.errors.NotFoundError: it is not there.
      tf.errors.AlreadyExistsError: something has the other name.
    """
    old, new = _Place(source), _Place(target)
    if old.info() is None:
        raise _missing(source)
    if overwrite and _are_equal(source, target):
        remove(source)
        return
    for _ in range(_ATTEMPTS):
        if new.info() is not None:
            if not overwrite:
                raise tf.errors.AlreadyExistsError(None, None, f"{target}: is there already.")
            with contextlib.suppress(tf.errors.NotFoundError):
                remove(target)
        with _told(source):
            _move(old.system, old.name, new.name)
        if old.info() is None:  # some file systems say nothing where they did nothing
            return
    raise tf.errors.UnknownError(None, None, f"{target}: cannot be written.")


def _are_equal(one: str, other: str) -> bool:
    """Whether two files are there and hold the same."""
    try:
        if isdir(one) or isdir(other) or stat(one).length != stat(other).length:
            return False
        with open_file(one, "rb") as first, open_file(other, "rb") as second:
            while content := first.read(_BLOCK):
                if content != second.read(_BLOCK):
                    return False
        return True
    except tf.errors.NotFoundError:
        return False


def _move(system: fsspec.AbstractFileSystem, old: str, new: str) -> None:
    copies = type(system).mv is fsspec.AbstractFileSystem.mv
    if copies and system.isfile(old):  # by mv, brackets in the name would be a pattern
        system.cp_file(old, new)
        system.rm_file(old)
    elif copies and fsspec.core.has_magic(old + new):
        raise ValueError("folders with * ? [ in their names cannot be renamed there")
    else:
        system.mv(old, new, recursive=system.isdir(old))


class RawReader(io.RawIOBase):
    """The bytes of a file that is far away.

    Args:
      fetch: the bytes from a position, so many of them.
      length: of the file.
      close: what is to be done at the end.
    """

    def __init__(
        self, fetch: Callable[[int, int], bytes], length: int, close: Callable[[], object]
    ):
        self._fetch, self._length, self._close = fetch, length, close
        self._position = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of all files."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Reads as much as there is room for, and left."""
        count = max(0, min(len(buffer), self._length - self._position))
        buffer[:count] = self._fetch(self._position, count) if count else b""
        self._position += count
        return count

    def close(self) -> None:
        """As of all files."""
        if not self.closed:
            self._close()
        super().close()


class _RawWriter(io.RawIOBase):
    """A file that is written from the beginning to the end.

    Args:
      path: of it.
      file: as its file system opens it.
    """

    def __init__(self, path: str, file: Any):
        self._path, self._file = path, file

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:
        """Writes all of it."""
        with _told(self._path):
            self._file.write(bytes(data))
        return len(data)

    def close(self) -> None:
        """Writes what is left."""
        if not self.closed:
            try:
                with _told(self._path):
                    self._file.close()
            finally:
                super().close()


def _reader(path: str) -> io.BufferedReader:
    place, length = _Place(path), stat(path).length
    with _told(path):
        file = place.system.open(place.name, "rb", block_size=_BLOCK)

    def fetch(start: int, count: int) -> bytes:
        with _told(path):
            file.seek(start)
            found = file.read(count)
        if len(found) != count:  # or a page that tells of an error
            raise _unavailable(path, f"{len(found)} bytes came instead of {count}")
        return found

    return io.BufferedReader(RawReader(fetch, length, file.close), _BLOCK)


def _writer(path: str) -> io.BufferedWriter:
    place = _Place(path)
    with _told(path):
        file = place.system.open(place.name, "wb")
    return io.BufferedWriter(_RawWriter(path, file), _BLOCK)


def open_file(path: str, mode: str = "r") -> IO[Any]:
    """Opens a file.

    Args:
      path: of it.
      mode: r, rb, w or wb; text is UTF-8, its ends of lines as they are.

    Raises:
      tf.errors.NotFoundError: it is not there.
      tf.errors.UnimplementedError: another mode.
    """
    if mode not in ("r", "rb", "w", "wb"):
        message = f"{path}: cannot be opened there to add to it."
        raise tf.errors.UnimplementedError(None, None, message)
    file = cast(BinaryIO, _reader(path) if mode.startswith("r") else _writer(path))
    return file if "b" in mode else io.TextIOWrapper(file, "utf-8", newline="\n")


GFile = open_file  # TensorFlow's name of it
