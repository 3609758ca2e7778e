"""Writes a file of vectors, block by block, and goes on with one that was begun."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Self

import numpy as np

from bert_tf.serving.embedding import description, formats
from bert_tf.serving.embedding.description import Counts
from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample


class VectorWriter(contextlib.AbstractContextManager):
    """A file of vectors that grows at its end.

    It has its final name when it is whole. Until then its description says after each block how
    many rows are there to stay; what a killed run wrote behind them is cut off. On buckets nothing
    can be cut off: there a run begins anew.

    Args:
      path: the file.
      kind: its format.
      identity: JSON values; all that decides it, with `rows` and `width`.

    Attributes:
      done: rows that are written.
      counts: of these rows.
      finished: whether all is there.

    Raises:
      InputError: another file is there, or one of other vectors.
    """

    def __init__(self, path: str, kind: formats.VectorFormat, identity: Mapping[str, Any]):
        self._path = path
        self._kind = kind
        self._identity = {"made_by": description.MADE_BY, "format": kind.value, **identity}
        self._paths = formats.paths(kind, path)
        self._stack = contextlib.ExitStack()
        self._open: list[BinaryIO] = []
        self._head = formats.head(kind, identity["rows"], identity["width"])
        self._bytes = [0] * len(self._paths)
        self.done = 0
        self.counts: Counts = {"cut": 0, "longest": 0, "empty": 0}
        self.finished = False
        self._find()

    def _find(self) -> None:
        """Finds what is there already."""
        found = description.find(self._path)
        there = [path for path in self._paths if files.gfile.exists(path)]
        if there and not (found and found["done"] == found["rows"]):
            raise InputError(
                f"{there[0]}: is there, and was not made by bert-tf embed; name another file "
                "(OUT=), or move this one away."
            )
        if found is None:
            return
        other = description.difference(found, self._identity)
        if other:
            made = " ".join([*there, description.path_of(self._path)])
            raise InputError(
                f"{self._path}: was made with other {other}. Name another file (OUT=), or remove "
                f"what is there: {made}"
            )
        sizes = description.sizes(self._paths)
        if found["finished"] and None not in sizes:
            if sizes != found["bytes"]:
                raise InputError(
                    f"{self._path}: was changed since it was made. Move it away to make it anew."
                )
            self.finished = True
        elif self._is_kept(found, sizes):
            self._bytes = list(found["bytes"])
        else:
            return
        self.done, self.counts = found["done"], found["counts"]

    def _is_kept(self, found: description.Description, sizes: Sequence[int | None]) -> bool:
        """Whether what was begun is still there: each file under its final name, or before it."""
        before = description.sizes(map(files.partial_of, self._paths))
        whole = found["done"] == found["rows"]
        return "://" not in self._path and all(
            (size or 0) >= wanted or (whole and final == wanted)
            for size, final, wanted in zip(before, sizes, found["bytes"], strict=False)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def append(self, examples: Sequence[TextExample], vectors: np.ndarray, counts: Counts) -> None:
        """Adds a block of rows, which is there to stay when this returns.

        Args:
          examples: their texts.
          vectors: float32 [examples, width].
          counts: of these texts.

        Raises:
          InputError: the disk is full.
        """
        try:
            if not self._open:
                self._begin()
            blocks = formats.encode(self._kind, examples, vectors)
            for index, block in enumerate(blocks):
                self._write(index, block)
            self.done += len(examples)
            self.counts = {
                "cut": self.counts["cut"] + counts["cut"],
                "longest": max(self.counts["longest"], counts["longest"]),
                "empty": self.counts["empty"] + counts["empty"],
            }
            self._describe()
        except OSError as error:
            if files.is_disk_full(error):
                raise files.disk_full_error(self._path) from error
            raise

    def _begin(self) -> None:
        """Opens the files at the end of what is there to stay."""
        for path, size in zip(self._paths, self._bytes, strict=True):
            file = _open(files.partial_of(path), size)
            self._open.append(self._stack.enter_context(file))
        if not self.done:
            for index, block in enumerate(self._head):
                self._write(index, block)

    def _write(self, index: int, block: bytes) -> None:
        self._open[index].write(block)
        self._bytes[index] += len(block)

    def _describe(self) -> None:
        """Says how many rows are there, when they are."""
        if "://" in self._path and not self.finished:
            return
        for file in self._open:
            file.flush()
            os.fsync(file.fileno())
        state = {
            "done": self.done,
            "bytes": self._bytes,
            "counts": self.counts,
            "finished": self.finished,
        }
        json_files.write(description.path_of(self._path), self._identity | state)

    def finish(self) -> None:
        """Gives the files their final names, when all rows are there."""
        self._stack.close()
        self._open.clear()
        for path in self._paths:
            if files.gfile.exists(files.partial_of(path)):
                files.gfile.rename(files.partial_of(path), path, overwrite=True)
        self.finished = True
        self._describe()


def _open(path: str, size: int) -> BinaryIO:
    """A file to append to, cut off behind its first bytes."""
    if "://" in path:
        return files.gfile.GFile(path, "wb")
    if os.path.exists(path):
        os.truncate(path, size)
    return open(path, "ab")
