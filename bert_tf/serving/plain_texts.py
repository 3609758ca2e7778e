"""Plain texts to sequences without TensorFlow, by the same rules as the graph."""

from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.serving.engines.base import Batch
from bert_tf.tasks.signatures import PlainTexts
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

_Row = tuple[list[int], list[int]]  # ids and types of a sequence


def pack(plain: PlainTexts, tokenizer: Tokenizer, inputs: Mapping[str, np.ndarray]) -> Batch | None:
    """The sequences of a request; None if the graph has to make them, or to report an error.

    Args:
      plain: how the texts become sequences.
      tokenizer: of the model.
      inputs: object [batch] of bytes, by name.
    """
    columns = [inputs[name] for name in plain.names]
    if not len(columns[0]) or len({len(column) for column in columns}) > 1:
        return None
    rows: list[_Row] = []
    for texts in zip(*columns, strict=True):
        segments = [_ids(plain, tokenizer, text) for text in texts]
        known = [segment for segment in segments if segment is not None]
        if len(known) < len(segments):
            return None
        first, second = (*known, None)[:2]
        assert first is not None
        rows.append(packing.pack_ids(tokenizer, first, second, plain.max_length))
    return _padded(rows, tokenizer.pad_id)


def _ids(plain: PlainTexts, tokenizer: Tokenizer, text: bytes) -> list[int] | None:
    if not text.isascii():
        return None
    decoded = text.decode("ascii")
    if plain.excluded and plain.excluded in decoded:
        return None
    return tokenizer.plain_ids(decoded)


def _padded(rows: Sequence[_Row], pad_id: int) -> Batch:
    shape = (len(rows), max(len(ids) for ids, _ in rows))
    found = Batch(
        np.full(shape, pad_id, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    )
    for number, (ids, types) in enumerate(rows):
        found.ids[number, : len(ids)] = ids
        found.mask[number, : len(ids)] = 1
        found.types[number, : len(ids)] = types
    return found
