"""A folder of shards, one a block, which have their names when all of them are there."""

import os
from collections.abc import Sequence

from pipelines.common import files


class ShardFiles:
    """Files of a folder, of which each block is one: <stem>-00000-of-00007<ending>, ...

    Args:
      path: the folder.
      stem: what their names begin with.
      ending: what they end with.

    Attributes:
      path: as given.
      sizes: bytes of each that is there to stay.
      resumes: whether a run can go on with what another left.
    """

    resumes = True

    def __init__(self, path: str, stem: str, ending: str):
        self.path = path
        self._stem = stem
        self._ending = ending
        self.sizes: list[int] = []

    def there(self) -> list[str]:
        """The files that have their final name."""
        return files.matching(self.path, f"{self._stem}-*-of-*{self._ending}")

    def finals(self, count: int) -> list[str]:
        """The final names of so many shards."""
        return [f"{name}-of-{count:05d}{self._ending}" for name in self._names(count)]

    def partials(self, count: int) -> list[str]:
        """What they are called until then."""
        return [files.partial_of(f"{name}{self._ending}") for name in self._names(count)]

    def _names(self, count: int) -> list[str]:
        return [f"{self.path}/{self._stem}-{index:05d}" for index in range(count)]

    def write(self, blocks: Sequence[bytes]) -> None:
        """Adds a shard."""
        (block,) = blocks
        files.gfile.makedirs(self.path)
        path = self.partials(len(self.sizes) + 1)[-1]
        with files.gfile.GFile(path, "wb") as file:
            file.write(block)
        if "://" not in path:
            _sync(path)
        self.sizes.append(len(block))

    def close(self) -> None:
        """Nothing is open between blocks."""


def _sync(path: str) -> None:
    """Sees to it that a local file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
