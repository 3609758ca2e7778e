"""Requests of plain texts to sequences, without a graph."""

from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.serving.engines.base import Sequences
from bert_tf.tasks.signatures import Direct
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer


class DirectSignature:
    """A signature as long as its texts are plain.

    Args:
      direct: what it is.
      tokenizer: of its model.
    """

    def __init__(self, direct: Direct, tokenizer: Tokenizer):
        self._direct, self._tokenizer = direct, tokenizer

    def prepare(self, inputs: Mapping[str, np.ndarray]) -> Sequences | None:
        """The sequences of a request; None: the graph has to make them, or to say what is wrong.

        Args:
          inputs: as the signature takes them.
        """
        columns = [inputs[name] for name in self._direct.names]
        if not len(columns[0]) or len({len(column) for column in columns}) > 1:
            return None
        rows = [self._row(texts) for texts in zip(*columns, strict=True)]
        packed = [row for row in rows if row is not None]
        return self._padded(packed) if len(packed) == len(rows) else None

    def _row(self, texts: tuple[bytes, ...]) -> tuple[list[int], list[int]] | None:
        """Ids and types of a text or a pair."""
        segments = [self._ids(text) for text in texts]
        first, *others = segments
        if first is None or None in others:
            return None
        second = others[0] if others else None
        return packing.pack_ids(self._tokenizer, first, second, self._direct.max_length)

    def _ids(self, text: bytes) -> list[int] | None:
        if not text.isascii():
            return None
        plain = text.decode("ascii")
        if self._direct.taboo and self._direct.taboo in plain:
            return None
        return self._tokenizer.plain_ids(plain)

    def _padded(self, rows: Sequence[tuple[list[int], list[int]]]) -> Sequences:
        shape = (len(rows), max(len(ids) for ids, _ in rows))
        found = Sequences(
            np.full(shape, self._tokenizer.pad_id, np.int32),
            np.zeros(shape, np.int32),
            np.zeros(shape, np.int32),
        )
        for number, (ids, types) in enumerate(rows):
            found.ids[number, : len(ids)] = ids
            found.mask[number, : len(ids)] = 1
            found.types[number, : len(ids)] = types
        return found

    def finish(self, results: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs.

        Args:
          results: of the computation.
        """
        return self._direct.finish(results)
