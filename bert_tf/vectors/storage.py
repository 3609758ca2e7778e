"""Files that grow block by block, and have their final names when they are complete."""

import contextlib
import os
from collections.abc import Sequence
from typing import BinaryIO

from pipelines.common import files


class GrowingFiles:
    """Files that each block adds some bytes to, after `heads`.

    Attributes:
      path: the path that the user named.
      sizes: complete bytes of each file, without those of a block that was not completed.
      resumes: whether a run can resume what another left, which it cannot append to on buckets.
    """

    def __init__(self, path: str, paths: Sequence[str], heads: Sequence[bytes]):
        self.path = path
        self.resumes = "://" not in path
        self._paths = list(paths)
        self._heads = heads
        self._stack = contextlib.ExitStack()
        self._open: list[BinaryIO] = []
        self.sizes = [0] * len(paths)

    def existing(self) -> list[str]:
        """The files that are there under their final names."""
        return [path for path in self._paths if files.gfile.exists(path)]

    def finals(self, count: int) -> list[str]:
        """The final names."""
        return self._paths

    def partials(self, count: int) -> list[str]:
        """Their names until then."""
        return [files.partial_of(path) for path in self._paths]

    def write(self, blocks: Sequence[bytes]) -> None:
        """Adds a block to each file."""
        if not self._open:
            self._begin()
        for index, block in enumerate(blocks):
            self._write(index, block)
        if self.resumes:
            for file in self._open:
                file.flush()
                os.fsync(file.fileno())

    def _begin(self) -> None:
        """Opens the files, and removes what a killed run wrote after its last whole block."""
        for path, size in zip(self.partials(0), self.sizes, strict=True):
            self._open.append(self._stack.enter_context(_open(path, size)))
        if not any(self.sizes):
            for index, block in enumerate(self._heads):
                self._write(index, block)

    def _write(self, index: int, block: bytes) -> None:
        self._open[index].write(block)
        self.sizes[index] += len(block)

    def close(self) -> None:
        """Closes all open files."""
        self._stack.close()
        self._open.clear()


class ShardFiles:
    """A folder with a file for each block: <stem>-00000-of-00007<ending>, ...

    It has the attributes and methods of `GrowingFiles`.
    """

    resumes = True

    def __init__(self, path: str, stem: str, ending: str):
        self.path = path
        self.sizes: list[int] = []
        self._stem = stem
        self._ending = ending

    def existing(self) -> list[str]:
        return files.matching(self.path, f"{self._stem}-*-of-*{self._ending}")

    def finals(self, count: int) -> list[str]:
        return [f"{name}-of-{count:05d}{self._ending}" for name in self._names(count)]

    def partials(self, count: int) -> list[str]:
        return [files.partial_of(f"{name}{self._ending}") for name in self._names(count)]

    def _names(self, count: int) -> list[str]:
        return [f"{self.path}/{self._stem}-{index:05d}" for index in range(count)]

    def write(self, blocks: Sequence[bytes]) -> None:
        (block,) = blocks
        files.gfile.makedirs(self.path)
        path = self.partials(len(self.sizes) + 1)[-1]
        with files.gfile.GFile(path, "wb") as file:
            file.write(block)
        if "://" not in path:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self.sizes.append(len(block))

    def close(self) -> None:
        pass  # no file is open between blocks


Storage = GrowingFiles | ShardFiles


def _open(path: str, size: int) -> BinaryIO:
    """Opens a file to append to its first bytes, and removes the others."""
    if "://" in path:
        return files.gfile.GFile(path, "wb")
    if os.path.exists(path):
        os.truncate(path, size)
    return open(path, "ab")
