"""Reads vectors in chunks."""

from collections.abc import Collection, Iterator

import msgspec
import numpy as np

from bert_tf.vectors import blocks
from bert_tf.vectors.blocks import ARRAY, EMBED, LINES, BlockOutput, Ending
from bert_tf.vectors.extractor import MIN_NORM
from bert_tf.vectors.settings import FeatureSettings, Unit
from bert_tf.vectors.text_rows import StoredText
from pipelines.common import files
from pipelines.common.errors import InputError

# Maximum number of rows, and of values, in memory.
_ROWS = 1 << 13
_VALUES = 1 << 22


class VectorFile:
    """One vector for each text, as `bert-tf embed` has written them: a file, or a folder of blocks.

    A file of them is compared with its checksum before it is first read.

    Args:
      path: the file or folder.

    Attributes:
      path: the file or folder.
      manifest: the path of its manifest.
      rows, width: shape of the vectors.
      model: checksums of the model.
      settings: the settings that the vectors were made with.

    Raises:
      InputError: there are no vectors, or they are incomplete, damaged, or in a format that is not
        read.
    """

    def __init__(self, path: str):
        self._place = BlockOutput(path, EMBED)
        self.path, self.manifest = path, self._place.manifest
        found = self._place.read()
        if found is None:
            remedy = "name a file or folder that bert-tf embed has written"
            if files.gfile.exists(f"{self._place.folder}/{blocks.IDENTITY}"):
                remedy = "they are incomplete: run the same bert-tf embed again first"
            raise InputError(
                f"{self.manifest}: no such file, which belongs to the vectors; {remedy}."
            )
        if self._place.ending == LINES:
            raise InputError(f"{path}: is for other programs; name vectors in a {ARRAY} file.")
        self._found = found
        self._verified: set[tuple[int, Ending]] = set()
        self.rows: int = sum(entry["rows"] for entry in found["blocks"])
        try:
            self.model, (self.width,) = found["model"], found["shape"]
            self.settings = FeatureSettings.described(found["settings"])
            if self.settings.unit != Unit.TEXT:
                raise ValueError(self.settings.unit)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{self.manifest}: does not describe one vector for each text; make them with "
                "bert-tf embed."
            ) from error

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[np.ndarray]:
        """Yields the vectors of a range of rows in order, float32 [rows, width] at a time.

        Raises:
          InputError: the vectors are damaged.
        """
        for number, rows in self._blocks():
            part = range(max(start, rows.start), min(self.rows if end is None else end, rows.stop))
            if not part:
                continue
            path, head = self._checked(number, ARRAY), blocks.header((len(rows), self.width))
            with files.open_binary(path) as file:
                if file.read(len(head)) != head or not self.width:
                    raise InputError(f"{path}: is not the array that {self.manifest} describes.")
                file.seek(len(head) + 4 * self.width * (part.start - rows.start))
                size = max(min(_ROWS, _VALUES // self.width), 1)
                for first in range(part.start, part.stop, size):
                    data = file.read(4 * self.width * min(size, part.stop - first))
                    yield np.frombuffer(data, "<f4").reshape(-1, self.width)

    def texts(self, rows: Collection[int]) -> dict[int, StoredText]:
        """The texts of some rows, by the numbers of the rows, from 0.

        Raises:
          InputError: the texts are damaged.
        """
        found = {}
        for number, part in self._blocks():
            wanted = {row for row in rows if row in part}
            if not wanted:
                continue
            with files.open_binary(self._checked(number, LINES)) as file:
                for row, line in zip(range(part.start, max(wanted) + 1), file, strict=False):
                    if row in wanted:
                        found[row] = msgspec.json.decode(line, type=StoredText)
        return found

    def _blocks(self) -> Iterator[tuple[int, range]]:
        """Yields the number of each block, and its rows."""
        first = 0
        for number, entry in enumerate(self._found["blocks"]):
            yield number, range(first, first + entry["rows"])
            first += entry["rows"]

    def _checked(self, number: int, ending: Ending) -> str:
        """The path of a file of a block; raises InputError if it was changed."""
        if (number, ending) not in self._verified:
            self._place.verify(self._found, number, ending)
            self._verified.add((number, ending))
        return self._place.complete(number, ending)


def compared(vectors: np.ndarray, similarity: str) -> np.ndarray:
    """Vectors whose dot products are their similarities, "cosine" or "dot"; [rows, width]."""
    if similarity == "dot":
        return vectors
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), MIN_NORM)
