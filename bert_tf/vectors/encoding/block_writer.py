"""Writes an output block by block, and goes on with one that was begun."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from bert_tf.vectors.encoding import description
from bert_tf.vectors.encoding.description import Counts, OutputKind
from pipelines.common import files, json_files
from pipelines.common.errors import InputError


class Storage(Protocol):
    """Where blocks go; see `GrowingFiles` and `ShardFiles`."""

    path: str
    sizes: list[int]
    resumes: bool

    def there(self) -> list[str]:
        """The files that have their final name."""

    def finals(self, count: int) -> Sequence[str]:
        """The final names of the files, of which there are `count`."""

    def partials(self, count: int) -> Sequence[str]:
        """What they are called until then."""

    def write(self, blocks: Sequence[bytes]) -> None:
        """Adds a block, which is on the disk when this returns."""

    def close(self) -> None:
        """Closes what is open."""


class BlockWriter(contextlib.AbstractContextManager):
    """An output of rows that grows block by block.

    Files have their final names when all is there. Until then the description says after each
    block how many rows are there to stay; what a killed run wrote behind them is cut off.

    Args:
      storage: where blocks go.
      place: the file of the description.
      kind: of output.
      identity: JSON values; all that decides it, with `rows`.

    Attributes:
      done: rows that are written.
      counts: of these rows.
      finished: whether all is there.

    Raises:
      InputError: something else is there, or an output of something else.
    """

    def __init__(self, storage: Storage, place: str, kind: OutputKind, identity: Mapping[str, Any]):
        self._storage = storage
        self._place = place
        self._kind = kind
        self._identity = {"made_by": kind.made_by, **identity}
        self.done = 0
        self.counts: Counts = {"cut": 0, "longest": 0, "empty": 0}
        self.finished = False
        self._find()

    def _find(self) -> None:
        """Finds what is there already."""
        found = description.find(self._place, self._kind)
        there = self._storage.there()
        if there and not (found and found["done"] == found["rows"]):
            raise InputError(
                f"{there[0]}: is there, and was not made by {self._kind.command}; name another "
                "file (OUT=), or move this one away."
            )
        if found is None:
            return
        other = description.difference(found, self._identity)
        if other:
            made = " ".join([*there, self._place])
            raise InputError(
                f"{self._storage.path}: was made with other {other}. Name another file (OUT=), or "
                f"remove what is there: {made}"
            )
        sizes = description.sizes(self._storage.finals(len(found["bytes"])))
        if found["finished"] and None not in sizes:
            if sizes != found["bytes"]:
                raise InputError(
                    f"{self._storage.path}: was changed since it was made. Move it away to make it "
                    "anew."
                )
            self.finished = True
        elif self._is_kept(found, sizes):
            self._storage.sizes = list(found["bytes"])
        else:
            return
        self.done, self.counts = found["done"], found["counts"]

    def _is_kept(self, found: description.State, sizes: Sequence[int | None]) -> bool:
        """Whether what was begun is still there: each file under its final name, or before it."""
        before = description.sizes(self._storage.partials(len(found["bytes"])))
        whole = found["done"] == found["rows"]
        return self._storage.resumes and all(
            (size or 0) >= wanted or (whole and final == wanted)
            for size, final, wanted in zip(before, sizes, found["bytes"], strict=False)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._storage.close()

    def write(self, blocks: Sequence[bytes], rows: int, counts: Counts) -> None:
        """Adds a block of rows, which is there to stay when this returns.

        Args:
          blocks: as the storage takes them.
          rows: how many there are in it.
          counts: of these rows.

        Raises:
          InputError: the disk is full.
        """
        try:
            self._storage.write(blocks)
            self.done += rows
            self.counts = {
                "cut": self.counts["cut"] + counts["cut"],
                "longest": max(self.counts["longest"], counts["longest"]),
                "empty": self.counts["empty"] + counts["empty"],
            }
            self._describe()
        except OSError as error:
            if files.is_disk_full(error):
                raise files.disk_full_error(self._storage.path) from error
            raise

    def _describe(self) -> None:
        """Says how many rows are there, when they are."""
        if not (self._storage.resumes or self.finished):
            return
        state = {
            "done": self.done,
            "bytes": self._storage.sizes,
            "counts": self.counts,
            "finished": self.finished,
        }
        json_files.write(self._place, self._identity | state)

    def finish(self) -> None:
        """Gives the files their final names, when all rows are there."""
        self._storage.close()
        count = len(self._storage.sizes)
        for partial, path in zip(
            self._storage.partials(count), self._storage.finals(count), strict=True
        ):
            if files.gfile.exists(partial):
                files.gfile.rename(partial, path, overwrite=True)
        self.finished = True
        self._describe()
