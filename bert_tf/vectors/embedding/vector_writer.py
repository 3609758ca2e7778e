"""Writes a file of vectors, block by block, and goes on with one that was begun."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.vectors.embedding import description, formats
from bert_tf.vectors.encoding.block_writer import BlockWriter
from bert_tf.vectors.encoding.description import Counts
from bert_tf.vectors.encoding.growing_files import GrowingFiles
from pipelines.labelled.schema import TextExample


class VectorWriter(BlockWriter):
    """A file of vectors that grows at its end.

    Args:
      path: the file.
      kind: its format.
      identity: JSON values; all that decides it, with `rows` and `width`.

    Raises:
      InputError: another file is there, or one of other vectors.
    """

    def __init__(self, path: str, kind: formats.VectorFormat, identity: Mapping[str, Any]):
        self._format = kind
        heads = formats.head(kind, identity["rows"], identity["width"])
        super().__init__(
            GrowingFiles(path, formats.paths(kind, path), heads),
            description.path_of(path),
            description.KIND,
            {"format": kind.value, **identity},
        )

    def append(self, examples: Sequence[TextExample], vectors: np.ndarray, counts: Counts) -> None:
        """Adds a block of rows, which is there to stay when this returns.

        Args:
          examples: their texts.
          vectors: float32 [examples, width].
          counts: of these texts.

        Raises:
          InputError: the disk is full.
        """
        self.write(formats.encode(self._format, examples, vectors), len(examples), counts)
