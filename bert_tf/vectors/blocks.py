"""Outputs that are made block by block: vectors and features of texts, choices, frozen encoders.

A block is a `.npy` file, a `.jsonl` file, or both, in a folder: 00000.npy, 00000.jsonl. It depends
on its number and on the identity of the output alone, and its files appear in one piece, the array
last. A run that was killed resumes by making the blocks that are missing. The manifest is written
last; it has the identity, and the rows and checksums of all blocks.
"""

import contextlib
import dataclasses
import hashlib
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import numpy as np

from pipelines.common import files, json_files, locks, manifest, outputs
from pipelines.common.errors import InputError

MAX_VALUES = 1 << 26  # of the array of a block, unless it is of one text
EMBED, FEATURES = "embed", "features"  # commands
IDENTITY = "identity.json"  # with the blocks
MANIFEST = "manifest.json"
_PIECE = 1 << 22  # bytes

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Ending = Literal[".npy", ".jsonl"]
ARRAY: Ending = ".npy"
LINES: Ending = ".jsonl"


class BlockEntry(TypedDict):
    """What the manifest has of a block."""

    rows: Count
    shape: list[Count]  # of its array
    sha256: dict[Ending, str]  # of its files


class BlockManifest(TypedDict):
    """The manifest; it has the identity and a checksum of its own, too."""

    made_by: str
    blocks: list[BlockEntry]


@dataclasses.dataclass(frozen=True)
class BlockOutput:
    """The places of an output, and of its blocks until it is complete.

    | path | blocks | the complete output |
    |---|---|---|
    | folder | folder/00000.npy, folder/00000.jsonl, ... | the same, and folder/manifest.json |
    | x.npy | x.npy.partial/00000.npy, ... | x.npy, x.npy.texts.jsonl, x.npy.json |
    | x.jsonl | x.jsonl.partial/00000.npy, ... | x.jsonl, x.jsonl.json |

    The identity is next to the blocks.

    Attributes:
      path: the path that the user named.
      command: the command that makes it.
    """

    path: str
    command: str

    @property
    def ending(self) -> str:
        """The ending of a file; empty for a folder."""
        return os.path.splitext(self.path)[1]

    @property
    def folder(self) -> str:
        """The folder of the blocks."""
        return files.partial_of(self.path) if self.ending else self.path

    @property
    def manifest(self) -> str:
        """The path of the manifest."""
        return f"{self.path}.json" if self.ending else f"{self.path}/{MANIFEST}"

    def block(self, number: int, ending: str) -> str:
        """The path of a file of a block."""
        return f"{self.folder}/{number:05d}{ending}"

    def complete(self, number: int, ending: str) -> str:
        """The path of a file of a block of the complete output; a file is one block."""
        if not self.ending:
            return self.block(number, ending)
        return self.path if ending == self.ending else f"{self.path}.texts.jsonl"

    def read(self) -> dict[str, Any] | None:
        """The manifest of the complete output; None if there is none.

        Raises:
          InputError: the manifest is damaged, or of something else.
        """
        if not files.gfile.exists(self.manifest):
            return None
        found = manifest.read_sealed(self.manifest, dict[str, Any])
        if "blocks" not in found:
            raise InputError(
                f"{self.manifest}: is not of bert-tf {self.command}; name another file."
            )
        json_files.check(found, BlockManifest, self.manifest)
        return found

    def find(self, identity: Mapping[str, Any]) -> dict[str, Any] | None:
        """The manifest of the complete output, whose files are compared; None if there is none.

        Raises:
          InputError: it has another identity, or a file is missing or was changed.
        """
        found = self.read()
        if found is None:
            return None
        other = manifest.difference(found, identity)
        if other:
            made = " ".join([*self.files(), self.manifest]) if self.ending else "this folder"
            raise InputError(
                f"{self.path}: was made with other {other}. Name another file (--output, OUT=), or "
                f"remove {made}."
            )
        for number, entry in enumerate(found["blocks"]):
            for ending in entry["sha256"]:
                self.verify(found, number, ending)
        self.clear()  # a kill may have left the blocks
        return found

    def verify(self, found: Mapping[str, Any], number: int, ending: Ending) -> None:
        """Raises InputError if a file of the complete output is not as the manifest says."""
        path = self.complete(number, ending)
        wanted = found["blocks"][number]["sha256"].get(ending)
        if not files.gfile.exists(path) or files.sha256(path) != wanted:
            made = [*(self.files() if self.ending else [path]), self.manifest]
            raise InputError(
                f"{path}: is missing, damaged, or was changed since it was written. Copy it again; "
                f"to make it again, remove {' '.join(made)} and run bert-tf {found['made_by']} "
                "again."
            )

    def files(self) -> list[str]:
        """The paths of an output that is a file, without its manifest."""
        return list(dict.fromkeys([self.path, self.complete(0, LINES)]))

    @contextlib.contextmanager
    def begun(self, identity: Mapping[str, Any]) -> Iterator[None]:
        """Locks the folder of blocks for the duration of the block, and notes the identity.

        Raises:
          InputError: something else is where the output would be, blocks of another identity are
            there, or another process writes them.
        """
        if self.ending and not files.gfile.exists(f"{self.folder}/{IDENTITY}"):
            files.remove_tree(self._nameless)
        self.check_absent()
        with locks.held(self.folder):
            self.begin(identity)
            yield

    def check_absent(self) -> None:
        """Raises InputError if something else has the name of the output, or it is complete.

        A folder of ours may be complete; so may a file whose blocks a kill has left.
        """
        if not self.ending:
            what = f"what bert-tf {self.command} writes"
            outputs.check_folder(self.path, what, [MANIFEST, IDENTITY], anywhere=True)
            return
        if files.gfile.exists(f"{self.folder}/{IDENTITY}"):
            return
        for path in self.files():
            if files.gfile.exists(path):
                raise InputError(
                    f"{path}: exists; name another file (--output, OUT=), or move this one away."
                )

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Notes the identity; raises InputError if blocks of another one are there."""
        other = manifest.begin(f"{self.folder}/{IDENTITY}", identity)
        if other:
            raise InputError(
                f"{self.folder}: was begun with other {other}. Name another file (--output, OUT=), "
                "or remove this folder."
            )

    def has(self, number: int, endings: Iterable[Ending]) -> bool:
        """Whether the files of a block are there."""
        return all(files.gfile.exists(self.block(number, ending)) for ending in endings)

    def write(
        self, number: int, lines: Iterable[Any] | None = None, values: np.ndarray | None = None
    ) -> None:
        """Writes a block: its lines of JSON, and its array; raises InputError if the disk is full.

        Several processes may write the same block.
        """
        if lines is not None:
            with _written(self.block(number, LINES)) as file:
                file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        if values is not None:
            with _written(self.block(number, ARRAY)) as file:
                file.write(header(values.shape))
                file.write(values.astype("<f4").tobytes())

    def entry(
        self, number: int, rows: int, shape: Sequence[int], endings: Iterable[Ending]
    ) -> BlockEntry:
        """What the manifest has of a block; raises InputError if its array is not of this shape."""
        path, head = self.block(number, ARRAY), header(shape)
        with files.open_binary(path) as file:
            whole = file.read(len(head)) == head
        if not (whole and files.is_whole(path, len(head) + 4 * math.prod(shape))):
            raise self.damaged(path)
        checksums = {ending: files.sha256(self.block(number, ending)) for ending in endings}
        return {"rows": rows, "shape": list(shape), "sha256": checksums}

    def damaged(self, path: str) -> InputError:
        """The error for a damaged file of a block that the manifest does not have yet."""
        return InputError(f"{path}: is damaged; remove it, and run bert-tf {self.command} again.")

    def publish(self, ending: Ending, parts: Iterable[bytes]) -> str:
        """Writes a file of the complete output, and returns its SHA-256.

        Raises:
          InputError: another file is there by now, or the disk is full.
        """
        path, digest = self.complete(0, ending), hashlib.sha256()
        with _written(path) as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            if files.gfile.exists(path) and files.sha256(path) != digest.hexdigest():
                raise InputError(
                    f"{path}: exists, and is not what this run made; move it away, and run the "
                    "same command again."
                )
        return digest.hexdigest()

    def finish(self, described: Mapping[str, Any], blocks: Sequence[BlockEntry]) -> dict[str, Any]:
        """Writes the manifest, and returns it."""
        found = {**described, "blocks": blocks}
        manifest.write_sealed(self.manifest, found)
        self.clear()
        return found

    def clear(self) -> None:
        """Removes the blocks of an output that is a file, if they are still there.

        They lose their name first: a kill leaves all of them or none under it.
        """
        if self.ending:
            files.remove_tree(self._nameless)
            if "://" not in self.folder and os.path.exists(self.folder):
                files.gfile.rename(self.folder, self._nameless)
                files.remove_tree(self._nameless)
            files.remove_tree(self.folder)

    @property
    def _nameless(self) -> str:
        """The folder of blocks that are being removed; one of `files.LEFT_BEHIND`."""
        return f"{self.folder}-{0:08x}"


@contextlib.contextmanager
def _written(path: str) -> Iterator[Any]:
    """Yields a file to write, which appears in one piece."""
    with files.write_aside(path, shared=True) as partial, files.gfile.GFile(partial, "wb") as file:
        yield file


def header(shape: Sequence[int]) -> bytes:
    """The bytes before the values of a float32 array in NumPy's format."""
    file = io.BytesIO()
    fields = {"descr": "<f4", "fortran_order": False, "shape": tuple(shape)}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def pieces(path: str, start: int = 0) -> Iterator[bytes]:
    """Yields the bytes of a file from a position on."""
    with files.open_binary(path) as file:
        file.seek(start)
        while piece := file.read(_PIECE):
            yield piece


def load(path: str) -> np.ndarray:
    """The array of a file, which is mapped into memory if it is on this machine."""
    if "://" not in path:
        return np.load(path, mmap_mode="r")
    return np.load(io.BytesIO(b"".join(pieces(path))))
