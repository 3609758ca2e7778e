"""Writes an output block by block, and resumes one that was begun."""

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, Self, TypedDict

import msgspec
import tensorflow as tf

from bert_tf.vectors.storage import Storage
from pipelines.common import files, json_files, manifest
from pipelines.common.errors import InputError

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
# Keys of a description whose values are too long to show when they differ.
_LONG = {"input_sha256": "input", "model": "model"}


class Counts(TypedDict):
    """Counts of unusual texts."""

    cut: Count  # texts that were longer than max_seq_length
    longest: Count  # tokens of the longest text
    empty: Count


NO_COUNTS: Counts = {"cut": 0, "longest": 0, "empty": 0}


class Description(TypedDict):
    """The JSON file of an output: what it was made of, and how much is done; it has more keys."""

    format: str
    rows: Count
    width: NotRequired[Count]  # of a vector
    shape: NotRequired[list[Count]]  # of the features of a unit
    model: dict[str, str]
    settings: dict[str, Any]
    done: Count  # rows
    bytes: list[Count]  # of each file
    counts: Counts
    finished: bool


@dataclasses.dataclass(frozen=True)
class OutputKind:
    """A kind of output: the command that writes it, and what it contains."""

    command: str
    what: str

    def begun(self, path: str, existing: Sequence[str]) -> Description | None:
        """The description in a file, as of `find`, of an output of which files exist.

        Raises:
          InputError: the files, or the description, are of something else.
        """
        found = self.find(path)
        if existing and not (found and found["done"] == found["rows"]):
            raise InputError(
                f"{existing[0]}: exists, and was not made by bert-tf {self.command}; name "
                "another file (--output, OUT=), or move this one away."
            )
        return found

    def find(self, path: str) -> Description | None:
        """The description in a file; None if there is no such file.

        Raises:
          InputError: the file belongs to something else, or is damaged.
        """
        if not files.gfile.exists(path):
            return None
        found = json_files.read(path, dict[str, Any])
        if found.get("made_by") != self.made_by:
            raise InputError(
                f"{path}: exists, and does not describe {self.what}; name another file (--output, "
                "OUT=)."
            )
        return json_files.check(found, Description, path)

    @property
    def made_by(self) -> str:
        """The mark of its descriptions."""
        return f"bert_tf.{self.command}"


VECTORS = OutputKind("embed", "vectors")
FEATURES = OutputKind("features", "features")
CHOICES = OutputKind("mine-negatives", "choices")


class BlockWriter(contextlib.AbstractContextManager):
    """An output of rows that grows block by block.

    Files get their final names when the output is complete. Until then its description, which is
    written to `path` after each block, has the number of rows on the disk; bytes that a killed run
    wrote after its last complete block are removed.

    Args:
      kind: the kind of output.
      storage: the files.
      path: the file of the description.
      identity: all that decides the output, as JSON values, with `rows`.

    Attributes:
      rows, done: number of rows of the complete output, and of those that are written.
      counts: counts of the rows that are written.
      finished: whether the output is complete.

    Raises:
      InputError: there is another file, or an output with another identity.
    """

    def __init__(self, kind: OutputKind, storage: Storage, path: str, identity: Mapping[str, Any]):
        self.kind = kind
        self.rows: int = identity["rows"]
        self._storage = storage
        self._path = path
        self._identity = {"made_by": kind.made_by, **identity}
        self.done = 0
        self.counts = NO_COUNTS
        self.finished = False
        found = kind.begun(path, storage.existing())
        self._check(found)
        if found and self._adopt(found):
            self.done, self.counts = found["done"], found["counts"]

    def _check(self, found: Description | None) -> None:
        """Raises InputError if there is an output with another identity."""
        if found is None:
            return
        long = (name for key, name in _LONG.items() if found.get(key) != self._identity[key])
        other = next(long, None) or manifest.difference(found, self._identity)
        if other:
            raise InputError(
                f"{self._storage.path}: was made with other {other}. Name another file (--output, "
                f"OUT=), or remove {' '.join([*self._storage.existing(), self._path])}"
            )

    def _adopt(self, found: Description) -> bool:
        """Adopts what was written, if it can be resumed; raises InputError if it was changed."""
        wanted = found["bytes"]
        finals = sizes(self._storage.finals(len(wanted)))
        if found["finished"] and None not in finals:
            if finals != wanted:
                made = " ".join([*self._storage.existing(), self._path])
                raise InputError(
                    f"{self._storage.path}: was changed since it was made. Remove {made} to make "
                    "it again."
                )
            self.finished = True
            return True
        complete = found["done"] == found["rows"]
        partials = sizes(self._storage.partials(len(wanted)))
        kept = self._storage.resumes and all(
            (partial or 0) >= size or (complete and final == size)
            for partial, final, size in zip(partials, finals, wanted, strict=False)
        )
        if kept:
            self._storage.sizes = list(wanted)
        return kept

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._storage.close()

    def write(self, blocks: Sequence[bytes], rows: int, counts: Counts) -> None:
        """Adds a block of so many rows, which is on the disk when this returns.

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
        except (OSError, tf.errors.OpError) as error:
            if files.is_disk_full(error):
                raise files.disk_full_error(self._storage.path) from error
            raise

    def _describe(self) -> None:
        """Writes the description, if a run can resume or the output is complete."""
        if not (self._storage.resumes or self.finished):
            return
        state = {
            "done": self.done,
            "bytes": self._storage.sizes,
            "counts": self.counts,
            "finished": self.finished,
        }
        json_files.write(self._path, self._identity | state)

    def description(self) -> Description:
        """The description as it is in the file."""
        found = self.kind.find(self._path)
        assert found is not None, self._path  # written with each block
        return found

    def finish(self) -> None:
        """Gives the files their final names, when all rows are written."""
        self._storage.close()
        count = len(self._storage.sizes)
        names = zip(self._storage.partials(count), self._storage.finals(count), strict=True)
        for partial, path in names:
            if files.gfile.exists(partial):
                files.gfile.rename(partial, path, overwrite=True)
        self.finished = True
        self._describe()


def sizes(paths: Iterable[str]) -> list[int | None]:
    """Bytes of files; None for files that do not exist."""
    return [files.gfile.stat(path).length if files.gfile.exists(path) else None for path in paths]
