"""Locks on files and folders, so that one process writes at a time.

A lock ends with its process. Locks work on local disks, not on buckets.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import NamedTuple

from pipelines.common.errors import InputError


@contextlib.contextmanager
def held(folder: str, write: bool = True) -> Iterator[None]:
    """Locks a folder, which is created if it is missing, for the duration of the block.

    Args:
      folder: The folder.
      write: Whether this process writes there; else nothing is done.

    Raises:
      InputError: The folder is a file, or another process writes there.
    """
    if not write or "://" in folder:
        yield
        return
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise InputError(f"{folder}: is a file; name a folder to write to (--output, OUT=).")
    os.makedirs(target(folder), exist_ok=True)
    lock = take(folder)
    if lock is None:
        raise busy(folder)
    try:
        yield
    finally:
        os.close(lock.descriptor)


def target(path: str) -> str:
    """What a link leads to, which may be missing; other paths as they are."""
    return os.path.realpath(path) if os.path.islink(path) else path


@contextlib.contextmanager
def held_file(partial: str, path: str) -> Iterator[None]:
    """Locks a file by its temporary name, for the duration of the block.

    Args:
      partial: The temporary name. The file is created, and removed at the end if it still exists.
      path: The final name, for errors.

    Raises:
      InputError: Another process writes the file.
    """
    if "://" in path:
        yield
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    lock = take(partial, os.O_RDWR | os.O_CREAT)
    if lock is None:
        raise busy(path)
    try:
        yield
    finally:
        if _names(partial, lock.descriptor):
            os.remove(partial)
        os.close(lock.descriptor)


class Lock(NamedTuple):
    """A file or folder that was opened to lock it.

    Attributes:
      descriptor: Descriptor of the open file; the lock ends when it is closed.
      certain: Whether it is locked; False if the file system has no locks.
    """

    descriptor: int
    certain: bool


def take(path: str, flags: int = os.O_RDONLY) -> Lock | None:
    """Locks a local file or folder, which is opened with `flags`; None if another process has it.

    Raises:
      FileNotFoundError: It does not exist.
    """
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:  # a file system without locks
            return Lock(descriptor, certain=False)
        if _names(path, descriptor):
            return Lock(descriptor, certain=True)
        os.close(descriptor)  # renamed or removed since it was opened


def _names(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def busy(path: str) -> InputError:
    """The error to raise if another process writes to a path."""
    return InputError(
        f"{path}: another process is writing there; wait for it, or name another place (--output, "
        "OUT=)."
    )
