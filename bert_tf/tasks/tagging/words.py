"""Words to sequences, for training and serving; and the context that a document gives them."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer
from pipelines.tokenizers.packing import Runs


def cut(
    tokenizer: Tokenizer,
    words: tf.Tensor | Sequence[str],
    text: tf.Tensor | np.ndarray,
    texts: tf.Tensor | int,
    max_length: int,
) -> Runs:
    """Cuts texts, given by their words, into sequences of whole words.

    A word that normalization makes empty is an unknown token: it gets its tag, too.

    Args:
      tokenizer: for the words.
      words: string [words], those of all texts one after the other.
      text: int64 [words], the text of each, ascending.
      texts: how many there are.
      max_length: tokens of a sequence, special ones included.
    """
    pieces = tokenizer.tokenize_words(words)
    lost = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.fill([tf.reduce_sum(lost)], tokenizer.unknown_id)
    pieces = tf.concat([pieces, tf.RaggedTensor.from_row_lengths(unknown, lost)], 1)
    by_text = tf.RaggedTensor.from_value_rowids(
        pieces.flat_values, tf.gather(text, pieces.value_rowids()), nrows=tf.cast(texts, tf.int64)
    )
    first = pieces.row_starts()
    total = tf.size(pieces.flat_values, tf.int64)
    is_first = tf.scatter_nd(first[:, tf.newaxis], tf.ones_like(first), [total]) > 0
    return packing.cut_words(tokenizer, by_text, is_first, max_length)


def add_context(
    rows: Sequence[np.ndarray], documents: Sequence[int], limit: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Fills each sequence with what stands before and after it in its document.

    Args:
      rows: tokens of each, without special ones.
      documents: that of each.
      limit: tokens of a row.

    Returns:
      The wider rows, and int64 [rows], the tokens that each got in front.
    """
    wider, shifts = [], []
    for index, row in enumerate(rows):
        room = limit - len(row)
        before = _neighbours(rows, documents, index, -1, room)
        after = _neighbours(rows, documents, index, 1, room)
        take = min(len(before), max(room // 2, room - len(after)))
        wider.append(np.concatenate([before[len(before) - take :], row, after[: room - take]]))
        shifts.append(take)
    return wider, np.array(shifts, np.int64)


def _neighbours(
    rows: Sequence[np.ndarray], documents: Sequence[int], index: int, step: int, wanted: int
) -> np.ndarray:
    """Tokens of the rows before (step -1) or after a row in its document, enough if it can."""
    found: list[np.ndarray] = []
    other = index + step
    while (
        sum(map(len, found)) < wanted
        and 0 <= other < len(rows)
        and documents[other] == documents[index]
    ):
        found.append(rows[other])
        other += step
    return np.concatenate([rows[index][:0], *found[::step]])
