"""Reads a file of vectors in chunks."""

import contextlib
import itertools
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import tensorflow as tf

from bert_tf.vectors import formats
from bert_tf.vectors.block_writer import VECTORS, sizes
from bert_tf.vectors.extractor import MIN_NORM
from bert_tf.vectors.settings import EmbeddingSettings, VectorFormat
from pipelines.common import files
from pipelines.common.errors import InputError

# Maximum number of rows, and of values, in memory.
_ROWS = 1 << 13
_VALUES = 1 << 22


class StoredText(NamedTuple):
    """The id of a row, and its text or two texts."""

    id: str
    texts: tuple[str, ...]


class _Texts(msgspec.Struct):
    """The id and the text, or the two texts, of a row."""

    id: str
    text: str | None = None
    text_a: str | None = None
    text_b: str | None = None

    def stored(self) -> StoredText:
        texts = (self.text, self.text_a, self.text_b)
        return StoredText(self.id, tuple(text for text in texts if text is not None))


class _Vector(msgspec.Struct):
    """The vector of a JSON line."""

    vector: list[float]


class VectorFile:
    """A file of vectors that `bert-tf embed` has written.

    Args:
      path: the file.

    Attributes:
      path: the file.
      rows, width: shape of the vectors.
      model: checksums of the model.
      settings: the settings that the vectors were made with.

    Raises:
      InputError: the file is missing or incomplete, or was changed.
    """

    def __init__(self, path: str):
        description = f"{path}.json"
        found = VECTORS.find(description)
        if found is None:
            raise InputError(
                f"{description}: no such file, which belongs to the vectors; name a file that "
                "bert-tf embed has written."
            )
        if not found["finished"]:
            raise InputError(f"{path}: is incomplete; run the same bert-tf embed again first.")
        self.path = path
        try:
            self._kind = VectorFormat(found["format"])
            self.width = found["width"]
            self.settings = EmbeddingSettings.described(found["settings"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{description}: its settings are damaged.") from error
        self.rows, self.model = found["rows"], found["model"]
        values = self.rows * self.width  # each takes a byte, at least
        whole = sizes(formats.vector_paths(self._kind, path)) == found["bytes"]
        if not whole or self.width < 1 or values > sum(found["bytes"]):
            raise self._damaged()

    def _damaged(self) -> InputError:
        return InputError(
            f"{self.path}: is damaged, or was changed since it was written. Copy or make it "
            "again, with all files of its name."
        )

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        """Reports errors of reading as damage of the file."""
        try:
            yield
        except InputError:
            raise
        except (TypeError, ValueError, msgspec.DecodeError, tf.errors.OpError) as error:
            raise self._damaged() from error

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields all vectors in order, float32 [rows, width] at a time.

        Raises:
          InputError: the file is damaged.
        """
        if not self.rows:
            return
        size = max(min(_ROWS, _VALUES // self.width), 1)
        is_array = self._kind is VectorFormat.NPY
        count = 0
        with self._checked():
            for block in self._array_blocks(size) if is_array else self._parsed_blocks(size):
                if block.shape[1] != self.width:
                    raise self._damaged()
                count += len(block)
                yield block
        if count != self.rows:
            raise self._damaged()

    def _array_blocks(self, size: int) -> Iterator[np.ndarray]:
        with files.open_binary(self.path) as file:
            head, _ = formats.vector_heads(self._kind, self.rows, self.width)
            if file.read(len(head)) != head:
                raise self._damaged()
            while data := file.read(size * self.width * 4):
                yield np.frombuffer(data, "<f4").reshape(-1, self.width)

    def _parsed_blocks(self, size: int) -> Iterator[np.ndarray]:
        decoder = msgspec.json.Decoder(_Vector)
        features = {"vector": tf.io.FixedLenFeature([self.width], tf.float32)}
        rows = self._raw()
        while block := list(itertools.islice(rows, size)):
            if self._kind is VectorFormat.TFRECORD:
                yield tf.io.parse_example(block, features)["vector"].numpy()
            else:
                yield np.array([decoder.decode(line).vector for line in block], np.float32)

    def texts(self, rows: Collection[int]) -> dict[int, StoredText]:
        """The texts of some rows, by the numbers of the rows, from 0.

        Raises:
          InputError: the file is damaged.
        """
        wanted = set(rows)
        read = _record_text if self._kind is VectorFormat.TFRECORD else _line_text
        with self._checked():
            rows_to_last = enumerate(itertools.islice(self._raw(), max(wanted, default=-1) + 1))
            found = {row: read(data) for row, data in rows_to_last if row in wanted}
        if found.keys() != wanted:
            raise self._damaged()
        return found

    def _raw(self) -> Iterator[bytes]:
        """Yields the record or the line of each row; for an array, the line with its text."""
        if self._kind is VectorFormat.TFRECORD:
            for records in tf.data.TFRecordDataset(self.path).batch(_ROWS).as_numpy_iterator():
                yield from records.tolist()
            return
        with files.open_binary(formats.vector_paths(self._kind, self.path)[-1]) as file:
            yield from file


def _line_text(data: bytes) -> StoredText:
    return msgspec.json.decode(data, type=_Texts).stored()


def _record_text(data: bytes) -> StoredText:
    features = {name: tf.io.VarLenFeature(tf.string) for name in _Texts.__struct_fields__}
    found = {
        name: feature.values.numpy()[0].decode()
        for name, feature in tf.io.parse_single_example(data, features).items()
        if len(feature.values)
    }
    return _Texts(**found).stored()


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors divided by their lengths, float32 [rows, width]."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), MIN_NORM)
