"""Questions about all sections of a token store, each answered by reading its indices once.

Workers read a file each and answer with arrays of bounded size, so that the coordinator never holds
an index.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipelines.common.runners import Workers
from pipelines.pretraining.section_files import ROW, SectionFile, TokenStore, interval

_KEY_BITS = 64
_TOP_BITS = 16  # of keys; sections are counted by them
_LARGEST = np.iinfo(np.uint64).max


class Survey:
    """Questions about a token store."""

    def __init__(self, store: TokenStore, workers: Workers):
        self._store, self._workers = store, workers

    def smallest_keys(self, count: int) -> tuple[int, np.ndarray]:
        """Returns the end of the smallest keys of `count` documents.

        Also returns the numbers of sections and of tokens of these documents.
        """
        if not count:
            return 0, np.zeros(2, np.int64)
        totals = np.sum(self._answers(np.dtype(np.int64), _totals_by_key), axis=0).reshape(3, -1)
        top = int(np.searchsorted(totals[0].cumsum(), count))
        documents, sections, tokens = totals[:, :top].sum(axis=1).tolist()
        rows = np.concatenate(self._answers(ROW, _rows_with, top))
        end = int(np.sort(rows["key"][rows["first"]])[count - documents - 1]) + 1
        rows = rows[rows["key"] < end]
        return end, np.array([sections + len(rows), tokens + rows["tokens"].sum(dtype=np.int64)])

    def lack_documents(self, counts: Sequence[int], key_end: int, least: int) -> list[bool]:
        """Returns whether one of equal intervals of hashes has sections of too few documents.

        Args:
          counts: two numbers of intervals, for documents with keys from `key_end` on, and for those
            with smaller ones. A single interval lacks nothing.
          key_end: see above.
          least: the least number of documents of an interval, 1 or 2.
        """
        if max(counts) <= 1:
            return [False, False]
        answers = self._answers(np.dtype(np.uint64), _extreme_keys, counts, key_end)
        smallest, largest = np.stack(answers).reshape(len(answers), 2, -1).transpose(1, 0, 2)
        low, high = smallest.min(axis=0), largest.max(axis=0)
        few = low >= high if least > 1 else low > high  # equal keys are of one document
        parts = np.split(few, [counts[0]])
        return [n > 1 and bool(part.any()) for n, part in zip(counts, parts, strict=True)]

    def _answers(
        self, kind: np.dtype, function: Callable[..., bytes], *question: Any
    ) -> list[np.ndarray]:
        ask = functools.partial(function, self._store, *question)
        answers = {file["name"]: found for file, found in self._workers.map(ask, self._store.files)}
        return [np.frombuffer(answer, kind) for answer in answers.values()]


def _top(rows: np.ndarray) -> np.ndarray:
    return (rows["key"] >> np.uint64(_KEY_BITS - _TOP_BITS)).astype(np.int64)


def _totals_by_key(store: TokenStore, file: SectionFile) -> bytes:
    """The numbers of documents, sections and tokens, int64 [3, buckets of keys]."""
    totals = np.zeros((3, 1 << _TOP_BITS), np.int64)
    for rows in store.rows(file):
        top = _top(rows)
        np.add.at(totals[0], top, rows["first"])
        np.add.at(totals[1], top, 1)
        np.add.at(totals[2], top, rows["tokens"])
    return totals.tobytes()


def _rows_with(store: TokenStore, top: int, file: SectionFile) -> bytes:
    return b"".join(rows[_top(rows) == top].tobytes() for rows in store.rows(file))


def _extreme_keys(
    store: TokenStore, counts: Sequence[int], key_end: int, file: SectionFile
) -> bytes:
    """The smallest keys in all intervals, and the largest ones."""
    smallest, largest = np.full(sum(counts), _LARGEST), np.zeros(sum(counts), np.uint64)
    lows = [np.array([interval(i, n)[0] for i in range(n)], np.uint64) for n in counts]
    for rows in store.rows(file):
        below = rows["key"] < key_end
        for part, base in enumerate((0, counts[0])):
            wanted = rows[below == part]
            place = base + np.searchsorted(lows[part], wanted["hash"], side="right") - 1
            np.minimum.at(smallest, place, wanted["key"])
            np.maximum.at(largest, place, wanted["key"])
    return smallest.tobytes() + largest.tobytes()
