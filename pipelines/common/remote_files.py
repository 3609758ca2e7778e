"""What is used of tf.io.gfile, for file systems that TensorFlow does not reach: through fsspec.

Such as HDFS by its web interface, `webhdfs://user@namenode:9870/folder/file`. Which there are, what
packages they want, and what environment variables say of them, is fsspec's.
"""

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import fsspec
import tensorflow as tf

_BLOCK = 1 << 22  # bytes that are asked for at a time
_FOLDER = "directory"


class Stat(NamedTuple):
    """Of a file, as tf.io.gfile tells it.

    Attributes:
      length: bytes.
    """

    length: int


def reaches(path: str) -> bool:
    """Whether a path is of a file system of fsspec's, and of none of TensorFlow's."""
    scheme, mark, _ = path.partition("://")
    known = scheme in fsspec.available_protocols() or scheme in fsspec.registry
    return bool(mark) and known and scheme not in _schemes_of_tensorflow()


@functools.cache
def _schemes_of_tensorflow() -> frozenset[str]:
    return frozenset(tf.io.gfile.get_registered_schemes())


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
            self.system, root = fsspec.core.url_to_fs(
                f"{scheme}{mark}{host}/", use_listings_cache=False
            )
        self.name = root.rstrip("/") + slash + inner

    def info(self) -> dict[str, Any] | None:
        """What is known of it; None: it is not there."""
        try:
            with _told(self.path):
                return self.system.info(self.name)
        except tf.errors.NotFoundError:
            return None

    def named(self, name: str) -> str:
        """The path of what the file system calls so."""
        return self.path.removesuffix(self.name) + name


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Errors of any kind become those of tf.io.gfile, and name the path."""
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
        message = f"{path}: cannot be reached ({reason})."
        raise tf.errors.UnavailableError(None, None, message) from error


def _missing(path: str) -> tf.errors.NotFoundError:
    return tf.errors.NotFoundError(None, None, f"{path}: no such file.")


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
    place = _Place(path)
    with _told(path):
        return Stat(place.system.info(place.name)["size"])


def listdir(path: str) -> list[str]:
    """The names of what is in a folder.

    Raises:
      tf.errors.NotFoundError: it is not there.
    """
    place = _Place(path)
    with _told(path):
        return [os.path.basename(name) for name in place.system.ls(place.name, detail=False)]


def glob(pattern: str) -> list[str]:
    """The paths that a pattern matches."""
    place = _Place(pattern)
    with _told(pattern):
        return [place.named(name) for name in place.system.glob(place.name)]


def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Folders from the top, each with the names of the folders and files in it."""
    place = _Place(path)
    with _told(path):
        for folder, folders, names in place.system.walk(place.name):
            yield place.named(folder.rstrip("/")), list(folders), list(names)


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
    with _told(path):
        place.system.rm(place.name, recursive=True)


def rename(source: str, target: str, overwrite: bool = False) -> None:
    """Gives a file or a folder another name.

    Args:
      source: its path.
      target: the other path, in the same file system.
      overwrite: whether a file that has it is replaced.

    Raises:
      tf.errors.AlreadyExistsError: something has it.
    """
    old, new = _Place(source), _Place(target)
    if new.info() is not None:
        if not overwrite:
            raise tf.errors.AlreadyExistsError(None, None, f"{target}: is there already.")
        remove(target)
    with _told(source):
        _move(old.system, old.name, new.name)
    if new.info() is None:  # some file systems say nothing
        raise tf.errors.UnknownError(None, None, f"{target}: cannot be written.")


def _move(system: fsspec.AbstractFileSystem, old: str, new: str) -> None:
    copies = type(system).mv is fsspec.AbstractFileSystem.mv
    if copies and system.isfile(old):  # else brackets in the name would be a pattern
        system.cp_file(old, new)
        system.rm_file(old)
    else:
        system.mv(old, new, recursive=system.isdir(old))


def open_file(path: str, mode: str = "r") -> IO[Any]:
    """Opens a file.

    Args:
      path: of it.
      mode: as for `open`; text is UTF-8.

    Raises:
      tf.errors.NotFoundError: it is not there.
    """
    place = _Place(path)
    encoding = {} if "b" in mode else {"encoding": "utf-8"}
    with _told(path):
        return place.system.open(place.name, mode, block_size=_BLOCK, **encoding)


GFile = open_file  # TensorFlow's name of it
