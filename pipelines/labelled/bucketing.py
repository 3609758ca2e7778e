"""Batches of sequences of similar lengths, decided by seed and step alone."""

from collections.abc import Iterator

import numpy as np

LENGTH_STEP = 16  # padded lengths are multiples of this, so that few shapes are compiled
_POOL = 32  # batches per pool, in which rows are sorted by length


def steps_per_epoch(rows: int, batch_size: int) -> int:
    """Returns the number of batches of an epoch; the last one may be smaller."""
    return -(-rows // batch_size)


def training_order(
    lengths: np.ndarray, batch_size: int, seed: int, start: int = 0
) -> Iterator[np.ndarray]:
    """Yields the rows of each training batch, endlessly.

    In each epoch, rows are shuffled, sorted by length within pools of several batches, and cut into
    batches, which are shuffled. Each row occurs once per epoch, with rows of similar length.

    Args:
      lengths: int64 [rows].
      batch_size: number of rows in a batch.
      seed: seed of the order.
      start: number of the first batch; batch n does not depend on it.
    """
    steps = steps_per_epoch(len(lengths), batch_size)
    epoch, skip = divmod(start, steps)
    while True:
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch])))
        rows = rng.permutation(len(lengths))
        pools = [rows[i : i + _POOL * batch_size] for i in range(0, len(rows), _POOL * batch_size)]
        # The sort is stable: rows of equal length stay in random order.
        rows = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
        batches = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
        order = rng.permutation(steps)
        yield from (batches[index] for index in order[skip:])
        epoch, skip = epoch + 1, 0


def evaluation_order(lengths: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    """Yields all rows once, sorted by length, in batches; the last one may be smaller."""
    rows = np.argsort(lengths, kind="stable")
    for first in range(0, len(rows), batch_size):
        yield rows[first : first + batch_size]


def batches_by_tokens(lengths: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Yields all rows once, the longest first, in batches of at most `tokens` padded tokens.

    If memory does not suffice, the first batch fails. A longer row is a batch of its own.

    Args:
      lengths: int64 [rows], at least 1.
      tokens: maximum number of tokens in a batch, padding included.
    """
    rows = np.argsort(-lengths, kind="stable")
    first = 0
    while first < len(rows):
        count = max(1, tokens // int(lengths[rows[first]]))
        yield rows[first : first + count]
        first += count


def padded_length(longest: int, limit: int) -> int:
    """Returns the next multiple of LENGTH_STEP, or the limit."""
    return min(-(-longest // LENGTH_STEP) * LENGTH_STEP, limit)
