"""Files through tf.io.gfile, so that local paths and gs:// paths work alike."""

import contextlib
import gzip
import hashlib
import json
import os
import re
import uuid
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import tensorflow as tf

from pipelines.errors import InputError

gfile = tf.io.gfile
_BLOCK = 1 << 22
_PARTIAL = ".partial"
GZIP = ".gz"


def expand_globs(patterns: str) -> list[str]:
    """Returns the sorted files that comma- or space-separated glob patterns name.

    A path that holds a space or a comma itself is taken whole if it matches.

    Raises:
      InputError: a pattern matches no file.
    """
    paths: set[str] = set()
    whole = patterns.strip()
    for pattern in [whole] if whole and gfile.glob(whole) else re.split(r"[,\s]+", whole):
        if not pattern:
            continue
        found = [path for path in gfile.glob(pattern) if not gfile.isdir(path)]
        if not found:
            raise InputError(f"{pattern}: no such file; check the path or the glob pattern.")
        paths.update(found)
    if not paths:
        raise InputError("no input was named; give one or more files or glob patterns.")
    return sorted(paths)


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
    partial = _partial_of_its_own(path) if shared else f"{path}{_PARTIAL}"
    gfile.makedirs(os.path.dirname(path) or ".")
    try:
        yield partial
        gfile.rename(partial, path, overwrite=True)
    except BaseException as error:
        with contextlib.suppress(tf.errors.OpError, OSError):
            gfile.remove(partial)
        if is_disk_full(error):
            raise disk_full_error(path) from error
        raise


@contextlib.contextmanager
def folder_aside(path: str, replace: bool = False) -> Iterator[str]:
    """Yields a new folder to fill; renames it to `path` when the block ends well.

    The folder has a name of its own, so that two writers do not meet. After an
    error it is removed.

    Args:
      path: the final name.
      replace: whether a folder of that name makes room.

    Raises:
      InputError: `path` is there already, or the disk is full.
    """
    partial = _partial_of_its_own(path)
    gfile.makedirs(partial)
    try:
        yield partial
        if replace:
            remove_tree(path)
        if gfile.exists(path):
            raise InputError(f"{path}: is there already; name another folder, or remove it.")
        gfile.rename(partial, path)
    except BaseException as error:
        with contextlib.suppress(tf.errors.OpError, OSError):
            remove_tree(partial)
        if is_disk_full(error):
            raise disk_full_error(path) from error
        raise


def _partial_of_its_own(path: str) -> str:
    return f"{path}{_PARTIAL}-{uuid.uuid4().hex[:8]}"


def is_disk_full(error: BaseException) -> bool:
    """Whether an error of Python or TensorFlow says that no space was left."""
    text = str(error).lower()
    return "no space left" in text or "disk quota exceeded" in text


def disk_full_error(path: str) -> InputError:
    """The error to show when the disk is full while `path` is written."""
    return InputError(
        f"{path}: no space left on the device. What was finished is kept: "
        "free some space and run the same command again."
    )


def write_json(path: str, value: Any, shared: bool = False) -> None:
    """Writes `value` as JSON, indented, in one piece; `shared` as for `write_aside`."""
    with write_aside(path, shared) as partial, gfile.GFile(partial, "w") as file:
        file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: str) -> Any:
    """Reads a JSON file.

    Raises:
      InputError: the file is missing or is not JSON.
    """
    try:
        with gfile.GFile(path, "r") as file:
            return json.loads(file.read())
    except tf.errors.NotFoundError as error:
        raise InputError(f"{path}: no such file.") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a JSON file ({error}).") from error


def read_json_object(path: str) -> dict[str, Any]:
    """Reads a JSON file that holds an object.

    Raises:
      InputError: the file is missing, is not JSON, or holds something else.
    """
    values = read_json(path)
    if not isinstance(values, dict):
        raise InputError(f"{path}: not a JSON object.")
    return values


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file in one piece."""
    with write_aside(path) as partial, gfile.GFile(partial, "w") as file:
        file.write(text)


def sha256(path: str) -> str:
    """Returns the SHA-256 checksum of a file's bytes, in hexadecimal."""
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
    if "://" in path:
        return gfile.GFile(path, "rb")
    return open(path, "rb")


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
                yield unpacked
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(
                f"{path}: the gzip data is cut off or damaged ({error}); fetch the file again."
            ) from error


def remove_tree(path: str) -> None:
    """Removes a folder and all it holds, if it is there."""
    if gfile.exists(path):
        gfile.rmtree(path)
