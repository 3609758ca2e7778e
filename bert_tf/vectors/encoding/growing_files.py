"""Files that grow at their end, block by block, and have their names when they are whole."""

import contextlib
import os
from collections.abc import Sequence
from typing import BinaryIO

from pipelines.common import files


class GrowingFiles:
    """Files of which each block adds some bytes to each.

    On buckets nothing can be cut off: there a run begins anew.

    Args:
      path: what the user calls them all.
      paths: of all files.
      heads: what each begins with.

    Attributes:
      path: as given.
      sizes: bytes of each that are there to stay.
      resumes: whether a run can go on with what another left.
    """

    def __init__(self, path: str, paths: Sequence[str], heads: Sequence[bytes]):
        self.path = path
        self._paths = tuple(paths)
        self._heads = heads
        self._stack = contextlib.ExitStack()
        self._open: list[BinaryIO] = []
        self.sizes = [0] * len(paths)
        self.resumes = "://" not in path

    def there(self) -> list[str]:
        """The files that have their final name."""
        return [path for path in self._paths if files.gfile.exists(path)]

    def finals(self, count: int) -> tuple[str, ...]:
        """The final names of the files, of which there are `count`."""
        return self._paths

    def partials(self, count: int) -> list[str]:
        """What they are called until then."""
        return [files.partial_of(path) for path in self._paths]

    def write(self, blocks: Sequence[bytes]) -> None:
        """Adds a block to each file, behind the bytes that are there to stay."""
        if not self._open:
            self._begin()
        for index, block in enumerate(blocks):
            self._write(index, block)
        if self.resumes:
            for file in self._open:
                file.flush()
                os.fsync(file.fileno())

    def _begin(self) -> None:
        """Opens the files at the end of what is there to stay."""
        for partial, size in zip(self.partials(len(self.sizes)), self.sizes, strict=True):
            self._open.append(self._stack.enter_context(_open(partial, size)))
        if not any(self.sizes):
            for index, block in enumerate(self._heads):
                self._write(index, block)

    def _write(self, index: int, block: bytes) -> None:
        self._open[index].write(block)
        self.sizes[index] += len(block)

    def close(self) -> None:
        """Closes the files as they are."""
        self._stack.close()
        self._open.clear()


def _open(path: str, size: int) -> BinaryIO:
    """A file to append to, cut off behind its first bytes."""
    if "://" in path:
        return files.gfile.GFile(path, "wb")
    if os.path.exists(path):
        os.truncate(path, size)
    return open(path, "ab")
