"""Reads a file of vectors, some rows at a time."""

import contextlib
from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import tensorflow as tf

from bert_tf.vectors.embedding import description, formats
from bert_tf.vectors.embedding.formats import VectorFormat
from bert_tf.vectors.embedding.settings import EmbeddingSettings
from bert_tf.vectors.encoding.description import sizes
from pipelines.common import files
from pipelines.common.errors import InputError

# Of the vectors, rows and numbers that are in memory at the most.
_ROWS = 1 << 13
_NUMBERS = 1 << 22
_TEXTS = ("text", "text_a", "text_b")


class StoredText(NamedTuple):
    """The id of a row, and its text, or its two texts."""

    id: str
    texts: tuple[str, ...]


class _Line(msgspec.Struct):
    """A line of JSON."""

    id: str
    text: str | None = None
    text_a: str | None = None
    text_b: str | None = None

    def stored(self) -> StoredText:
        texts = (self.text, self.text_a, self.text_b)
        return StoredText(self.id, tuple(text for text in texts if text is not None))


class _Vector(msgspec.Struct):
    """What of a line of JSON is a vector."""

    vector: list[float]


class VectorFile:
    """A file of vectors that `bert-tf embed` has written.

    Args:
      path: the file.

    Attributes:
      rows, width: its shape.
      model: the checksums of the model.
      settings: those that the vectors were made with.

    Raises:
      InputError: it is missing, unfinished, or not as it was written.
    """

    def __init__(self, path: str):
        found = description.find(path)
        if found is None:
            raise InputError(
                f"{path}: has no {description.path_of(path)} beside it; name a file that bert-tf "
                "embed has written."
            )
        if not found["finished"]:
            raise InputError(f"{path}: is not finished; run the same bert-tf embed again first.")
        self._path = path
        self._kind = VectorFormat(found["format"])
        if sizes(formats.paths(self._kind, path)) != found["bytes"]:
            raise self._damaged()
        self.rows, self.width = found["rows"], found["width"]
        self.model = found["model"]
        try:
            self.settings = EmbeddingSettings.described(found["settings"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{description.path_of(path)}: its settings are damaged.") from error

    def _damaged(self) -> InputError:
        return InputError(
            f"{self._path}: is not as it was written: damaged, or changed since. Copy or make it "
            "again, with all files of its name."
        )

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields all vectors, float32 [some, width].

        Raises:
          InputError: the file is not as it was written.
        """
        size = max(min(_ROWS, _NUMBERS // self.width), 1)
        readers = {
            VectorFormat.NPY: self._array_blocks,
            VectorFormat.JSONL: self._line_blocks,
            VectorFormat.TFRECORD: self._record_blocks,
        }
        count = 0
        with self._told():
            for block in readers[self._kind](size):
                if block.shape[1] != self.width:
                    raise self._damaged()
                count += len(block)
                yield block
        if count != self.rows:
            raise self._damaged()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Tells of what cannot be read that the file is damaged."""
        try:
            yield
        except InputError:
            raise
        except (ValueError, msgspec.DecodeError, tf.errors.OpError) as error:
            raise self._damaged() from error

    def _array_blocks(self, size: int) -> Iterator[np.ndarray]:
        with files.open_binary(self._path) as file:
            np.lib.format.read_magic(file)
            shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
            if shape != (self.rows, self.width) or by_column or dtype != np.dtype("<f4"):
                raise self._damaged()
            row = self.width * dtype.itemsize
            while data := file.read(size * row):
                yield np.frombuffer(data, dtype).reshape(-1, self.width)

    def _line_blocks(self, size: int) -> Iterator[np.ndarray]:
        decoder = msgspec.json.Decoder(_Vector)
        with files.open_binary(self._path) as file:
            block = []
            for line in file:
                block.append(np.array(decoder.decode(line).vector, np.float32))
                if len(block) == size:
                    yield np.stack(block)
                    block = []
            if block:
                yield np.stack(block)

    def _record_blocks(self, size: int) -> Iterator[np.ndarray]:
        features = {"vector": tf.io.FixedLenFeature([self.width], tf.float32)}
        for records in tf.data.TFRecordDataset(self._path).batch(size):
            yield tf.io.parse_example(records, features)["vector"].numpy()

    def texts(self, rows: Collection[int]) -> dict[int, StoredText]:
        """The texts of some rows, by the numbers of the rows, from 0.

        Raises:
          InputError: the file is not as it was written.
        """
        wanted = set(rows)
        read = _record_text if self._kind is VectorFormat.TFRECORD else _line_text
        with self._told():
            found = {row: read(data) for row, data in enumerate(self._raw()) if row in wanted}
        if found.keys() != wanted:
            raise self._damaged()
        return found

    def _raw(self) -> Iterator[bytes]:
        """Yields what has the text of each row."""
        if self._kind is VectorFormat.TFRECORD:
            for records in tf.data.TFRecordDataset(self._path).batch(_ROWS).as_numpy_iterator():
                yield from records.tolist()
            return
        of_array = self._kind is VectorFormat.NPY
        path = formats.texts_of(self._path) if of_array else self._path
        with files.open_binary(path) as file:
            yield from file


def _record_text(data: bytes) -> StoredText:
    features = {"id": tf.io.FixedLenFeature([], tf.string)}
    features |= {name: tf.io.VarLenFeature(tf.string) for name in _TEXTS}
    found = tf.io.parse_single_example(data, features)
    texts = (text for name in _TEXTS for text in found[name].values.numpy().tolist())
    return StoredText(found["id"].numpy().decode(), tuple(text.decode() for text in texts))


def _line_text(data: bytes) -> StoredText:
    return msgspec.json.decode(data, type=_Line).stored()
