"""The functions of tf.io.gfile for file systems that TensorFlow does not reach, through fsspec.

An example is HDFS by its web interface, `webhdfs://user@namenode:9870/folder/file`. The available
file systems, the packages they need, and their environment variables are those of fsspec.
"""

import contextlib
import functools
import io
import os
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import fsspec
import tensorflow as tf

_BLOCK = 1 << 22  # bytes
_ATTEMPTS = 5  # to take a name that others take at the same time


class Stat(NamedTuple):
    """What tf.io.gfile.stat returns: the length of a file in bytes, and when it was modified."""

    length: int
    mtime_nsec: int = 0  # each of the file systems has another name for it, and some have none


def reaches(path: str) -> bool:
    """Whether a path belongs to a file system of fsspec, and not to one of TensorFlow."""
    scheme, mark, _ = path.partition("://")
    return bool(mark) and scheme in _schemes()


@functools.cache
def _schemes() -> frozenset[str]:
    known = {*fsspec.available_protocols(), *fsspec.registry}
    return frozenset(known - set(tf.io.gfile.get_registered_schemes()))


class _Translated:
    """An object of fsspec whose methods raise the errors of tf.io.gfile, with the path."""

    def __init__(self, wrapped: Any, path: str):
        self.wrapped, self._path = wrapped, path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)

        def call(*arguments: Any, **options: Any) -> Any:
            with _translated(self._path):
                return found(*arguments, **options)

        return call if callable(found) else found


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError:
        raise
    except FileNotFoundError as error:
        raise _missing(path) from error
    except PermissionError as error:
        message = f"{path}: permission denied ({error})."
        raise tf.errors.PermissionDeniedError(None, None, message) from error
    except Exception as error:  # each file system has its own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        message = f"{path}: cannot be reached ({reason})."
        raise tf.errors.UnavailableError(None, None, message) from error


def _missing(path: str) -> tf.errors.NotFoundError:
    return tf.errors.NotFoundError(None, None, f"{path}: no such file.")


def _locate(path: str) -> tuple[Any, str]:
    """The file system of a path, and the path as this file system has it.

    Raises:
      tf.errors.UnavailableError: The file system is not available.
    """
    scheme, _, rest = path.rstrip("/").partition("://")
    host, slash, inner = rest.partition("/")
    with _translated(
        path
    ):  # only the root is a URL: names may have characters with a meaning there
        system, root = fsspec.core.url_to_fs(f"{scheme}://{host}/")
        system.invalidate_cache()  # others write there, too
    return _Translated(system, path), root.rstrip("/") + slash + inner


def _info(path: str) -> dict[str, Any] | None:
    system, name = _locate(path)
    try:
        return system.info(name)
    except tf.errors.NotFoundError:
        return None


def _entries(path: str) -> dict[str, bool]:
    """The names in a folder, and whether each is a folder."""
    system, name = _locate(path)
    found = system.ls(name, detail=True)
    return {os.path.basename(e["name"].rstrip("/")): e["type"] == "directory" for e in found}


def exists(path: str) -> bool:
    """See tf.io.gfile.exists."""
    return _info(path) is not None


def isdir(path: str) -> bool:
    """See tf.io.gfile.isdir."""
    return (_info(path) or {}).get("type") == "directory"


def stat(path: str) -> Stat:
    """See tf.io.gfile.stat."""
    found = _info(path)
    if found is None:
        raise _missing(path)
    if found["size"] is None and found["type"] != "directory":
        raise tf.errors.UnavailableError(None, None, f"{path}: its size is unknown; copy it here.")
    return Stat(found["size"])


def listdir(path: str) -> list[str]:
    """See tf.io.gfile.listdir."""
    return list(_entries(path))


def glob(pattern: str) -> list[str]:
    """See tf.io.gfile.glob."""
    system, name = _locate(pattern)
    return [f"{pattern.rstrip('/').removesuffix(name)}{found}" for found in system.glob(name)]


def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """See tf.io.gfile.walk."""
    entries = _entries(path)
    folders = [name for name, is_folder in entries.items() if is_folder]
    yield path, folders, [name for name, is_folder in entries.items() if not is_folder]
    for name in folders:
        yield from walk(f"{path.rstrip('/')}/{name}")


def makedirs(path: str) -> None:
    """See tf.io.gfile.makedirs."""
    system, name = _locate(path)
    system.makedirs(name, exist_ok=True)


def remove(path: str) -> None:
    """See tf.io.gfile.remove."""
    stat(path)  # some file systems do not report that it is missing
    system, name = _locate(path)
    system.rm_file(name)


def rmtree(path: str) -> None:
    """See tf.io.gfile.rmtree."""
    stat(path)
    system, name = _locate(path)
    if not fsspec.core.has_magic(name):
        system.rm(name, recursive=True)
        return
    for folder, _, names in reversed(list(walk(path))):  # rm would take the name for a pattern
        for file in names:
            remove(f"{folder}/{file}")
        system, name = _locate(folder)
        system.rmdir(name)
        if exists(folder):  # HDFS removes empty folders as it removes files
            system.rm_file(name)


def rename(source: str, target: str, overwrite: bool = False) -> None:
    """See tf.io.gfile.rename.

    Most of these file systems do not replace files: for a moment the target is missing, and of
    several processes that rename to one target, each tries again until its source is gone. So a
    target with the same content stays.
    """
    stat(source)
    if overwrite and _are_equal(source, target):
        remove(source)
        return
    for _ in range(_ATTEMPTS):
        if exists(target):
            if not overwrite:
                raise tf.errors.AlreadyExistsError(None, None, f"{target}: exists already.")
            with contextlib.suppress(tf.errors.NotFoundError):
                remove(target)
        _move(source, target)
        if not exists(source):  # some file systems do not report a failure
            return
    raise tf.errors.UnknownError(None, None, f"{target}: cannot be written.")


def _are_equal(one: str, other: str) -> bool:
    """Whether two files exist and have the same content."""
    try:
        if isdir(one) or isdir(other) or stat(one) != stat(other):
            return False
        with open_file(one, "rb") as first, open_file(other, "rb") as second:
            while content := first.read(_BLOCK):
                if content != second.read(_BLOCK):
                    return False
        return True
    except tf.errors.NotFoundError:
        return False


def _move(source: str, target: str) -> None:
    system, old = _locate(source)
    _, new = _locate(target)
    copies = type(system.wrapped).mv is fsspec.AbstractFileSystem.mv
    if not copies or not fsspec.core.has_magic(old + new):
        system.mv(old, new, recursive=isdir(source))
    elif isdir(source):
        message = f"{source}: folders with * ? [ in their paths cannot be renamed there."
        raise tf.errors.UnimplementedError(None, None, message)
    else:  # mv would take the name for a pattern
        system.cp_file(old, new)
        system.rm_file(old)


def open_file(path: str, mode: str = "r") -> IO[Any]:
    """Opens a file as tf.io.gfile.GFile does; text is UTF-8, with its line ends as they are.

    Args:
      path: Path of the file.
      mode: r, rb, w or wb.
    """
    if mode not in ("r", "rb", "w", "wb"):
        message = f"{path}: cannot be opened there to add to it."
        raise tf.errors.UnimplementedError(None, None, message)
    system, name = _locate(path)
    opened = system.open(name, f"{mode[0]}b", block_size=_BLOCK)
    if mode.startswith("w"):
        file: Any = io.BufferedWriter(_Translated(opened, path), _BLOCK)
    else:
        if hasattr(opened, "cache"):
            opened.cache.fetcher = functools.partial(_fetch, opened.cache.fetcher, opened.size)
        file = io.BufferedReader(_Translated(opened, path), _BLOCK)
    return file if "b" in mode else io.TextIOWrapper(file, "utf-8", newline="\n")


def _fetch(fetcher: Callable[[int, int], bytes], size: int, start: int, end: int) -> bytes:
    """The bytes of a range; some file systems return the page of an error instead."""
    found, expected = fetcher(start, end), min(end, size) - start
    if len(found) != expected:
        raise OSError(f"{len(found)} bytes came instead of {expected}")
    return found


GFile = open_file  # the name in tf.io.gfile
