"""Files of tokenized sections, sorted by hash: written, merged, and read by intervals of hashes.

`NAME.index` has a row per section and, after the rows, a table with the start of each of equal
buckets of hashes. `NAME.data` has, in the same order, the sentence lengths (uint32) and the ids
(uint16 or uint32) of each section. So the sections of an interval of hashes are one piece of each
file, which is found by reading a few entries of the table. Both files are written from start to
end, as buckets demand.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple, TypedDict

import numpy as np
import tensorflow as tf

from pipelines.common import checksums, files, parallel
from pipelines.common.compiled import compiled
from pipelines.common.errors import InputError

_BUCKET_UNITS = 1 << 14  # about as many in a bucket
_SLICE_UNITS = 1 << 25  # that are merged at a time
_READ_ROWS = 1 << 20
_READ_BYTES = 1 << 16  # ahead of what is asked for
_REMOTE_READS = 8  # at the same time, because each waits for its answer
_HASH_BITS = 64
ROW = np.dtype(
    [
        ("hash", np.uint64),
        ("key", np.uint64),
        ("sentences", np.uint32),
        ("tokens", np.uint32),
        ("first", np.bool_),
    ]
)
_ENTRY = np.dtype((np.int64, 2))  # of the table: the first row and unit of a bucket


class SectionFile(TypedDict):
    """A file of sections: its name in the store, and its numbers of sections and of units."""

    name: str
    sections: int
    units: int


class Sections(NamedTuple):
    """Sections as arrays."""

    rows: np.ndarray  # ROW [sections]; `first`: whether it is the first one of its document
    units: np.ndarray  # id type [units]; of each section the sentence lengths, then the ids


class TokenizedDocuments(NamedTuple):
    """Documents as arrays; the last element of each `starts` is the end."""

    ids: np.ndarray  # int32 [tokens]
    sentence_starts: np.ndarray  # int64 [sentences + 1], in tokens
    document_starts: np.ndarray  # int64 [documents + 1], in sentences
    document_keys: np.ndarray  # uint64 [documents]; equal for sections of one document


def interval(index: int, count: int) -> tuple[int, int]:
    """Returns the first hash of one of `count` equal intervals, and the first one after it."""
    size = checksums.HASH_RANGE
    return index * size // count, (index + 1) * size // count


def id_dtype(vocab_size: int) -> np.dtype:
    """Returns the smallest type that holds every id."""
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


def sorted_sections(
    rows: np.ndarray, lengths: np.ndarray, ids: np.ndarray, dtype: np.dtype
) -> Sections:
    """Sorts sections by hash, given the sentence lengths of all of them, and the ids."""
    units = np.concatenate([lengths.astype(np.uint32).view(dtype), ids.astype(dtype)])
    sizes = _sizes(rows, dtype)
    starts = _starts(sizes.ravel())[:-1].reshape(sizes.shape)
    order = np.argsort(rows["hash"], kind="stable")
    return Sections(
        rows[order], _gather(units, starts[:, order].T.ravel(), sizes[:, order].T.ravel())
    )


def _sizes(rows: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The units of the sentence lengths and of the ids of each section, int64 [2, sections]."""
    per_length = np.dtype(np.uint32).itemsize // dtype.itemsize
    return np.array([rows["sentences"].astype(np.int64) * per_length, rows["tokens"]])


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


@compiled
def _gather(units, starts, sizes):
    """Concatenates pieces of an array."""
    gathered = np.empty(sizes.sum(), units.dtype)
    end = 0
    for piece in range(len(starts)):
        start, size = starts[piece], sizes[piece]
        gathered[end : end + size] = units[start : start + size]
        end += size
    return gathered


def _taken(sections: Sections, which: np.ndarray) -> Sections:
    """Some of the sections, in the order of their indices."""
    sizes = _sizes(sections.rows, sections.units.dtype).sum(axis=0)
    taken = _gather(sections.units, _starts(sizes)[which], sizes[which])
    return Sections(sections.rows[which], taken)


def _joined(parts: Iterable[Sections]) -> Sections:
    """The sections of all parts, sorted by hash."""
    joined = Sections(*map(np.concatenate, zip(*parts, strict=True)))
    return _taken(joined, np.argsort(joined.rows["hash"], kind="stable"))


def _distinct(rows: np.ndarray) -> np.ndarray:
    """Indices of rows that differ in hash or key, in the order of the two."""
    order = np.lexsort((rows["key"], rows["hash"]))
    identities = rows[["hash", "key"]][order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = identities[1:] != identities[:-1]
    return order[is_new]


@dataclasses.dataclass(frozen=True)
class TokenStore:
    """Files of sections in a folder."""

    folder: str
    vocab_size: int
    files: tuple[SectionFile, ...] = ()

    @property
    def dtype(self) -> np.dtype:
        """The type of the units."""
        return id_dtype(self.vocab_size)

    def paths(self, file: SectionFile) -> tuple[str, str]:
        """Returns the paths of the index and the data of a file."""
        return f"{self.folder}/{file['name']}.index", f"{self.folder}/{file['name']}.data"

    def write(self, file: SectionFile, parts: Iterable[Sections]) -> None:
        """Writes a file, given its sections in the order of their hashes.

        Several processes may write the same file at the same time.
        """
        bits = _bucket_bits(file)
        table = np.zeros(((1 << bits) + 1, 2), np.int64)
        index_path, data_path = self.paths(file)
        with (
            files.write_aside(index_path, shared=True) as index_partial,  # appears last
            files.write_aside(data_path, shared=True) as data_partial,
            files.gfile.GFile(index_partial, "wb") as index,
            files.gfile.GFile(data_partial, "wb") as data,
        ):
            for rows, units in parts:
                bucket = (rows["hash"] >> np.uint64(_HASH_BITS - bits)).astype(np.int64)
                np.add.at(table[:, 0], bucket + 1, 1)
                np.add.at(table[:, 1], bucket + 1, _sizes(rows, self.dtype).sum(axis=0))
                index.write(rows.tobytes())
                data.write(units.tobytes())
            index.write(table.cumsum(axis=0).tobytes())

    def is_whole(self, file: SectionFile) -> bool:
        """Returns whether a file exists and has the right size."""
        table = ((1 << _bucket_bits(file)) + 1) * _ENTRY.itemsize
        sizes = (file["sections"] * ROW.itemsize + table, file["units"] * self.dtype.itemsize)
        return all(map(files.is_whole, self.paths(file), sizes))

    def merge(self, inputs: Sequence[SectionFile]) -> SectionFile:
        """Merges files into one and removes them; returns the file.

        A finished file is not written again. The memory does not depend on the sizes. Several
        processes may do the same at the same time.

        Raises:
          InputError: one of the files is missing.
        """
        merged = merged_file(inputs)
        if len(inputs) == 1:
            return merged
        if not self.is_whole(merged):
            try:
                self.write(merged, self._slices(inputs, merged["units"]))
            except (InputError, tf.errors.OpError, OSError):
                if not self.is_whole(merged):  # another process has finished it
                    raise
        for path in (path for file in inputs for path in self.paths(file)):
            with contextlib.suppress(tf.errors.NotFoundError, FileNotFoundError):
                files.gfile.remove(path)
        return merged

    def deduplicate(self, part: tuple[int, int]) -> tuple[SectionFile, dict[str, int]]:
        """Writes the sections with hashes in one of equal intervals, without repeated ones.

        Sections with the same hash and key are the same. A finished file is not written again.

        Args:
          part: index of the interval, and number of intervals.

        Returns:
          The file, and its numbers of documents, sentences, tokens, and documents that begin with a
          section of one sentence.
        """
        index, count = part
        low, high = interval(index, count)
        rows = np.concatenate([self._rows(file, low, high) for file in self.files])
        read = int(_sizes(rows, self.dtype).sum())
        rows = rows[_distinct(rows)]
        units = int(_sizes(rows, self.dtype).sum())
        file = SectionFile(name=f"distinct-{index:04d}", sections=len(rows), units=units)
        if not self.is_whole(file):
            found = self._slices(self.files, read, part)
            self.write(file, (_taken(each, _distinct(each.rows)) for each in found))
        single = rows["first"] & (rows["sentences"] == 1)
        return file, {
            "documents": int(rows["first"].sum()),
            "sentences": int(rows["sentences"].sum()),
            "tokens": int(rows["tokens"].sum()),
            "one_sentence_documents": int(single.sum()),
        }

    def _rows(self, file: SectionFile, low: int, high: int) -> np.ndarray:
        """The rows of the sections of a file with hashes in [low, high)."""
        with files.open_binary(self.paths(file)[0], _READ_BYTES) as index:
            return _rows_between(index, file, low, high)[0]

    def rows(self, file: SectionFile) -> Iterator[np.ndarray]:
        """Yields the rows of a file, in blocks."""
        with files.open_binary(self.paths(file)[0]) as index:
            for start in range(0, file["sections"], _READ_ROWS):
                count = min(_READ_ROWS, file["sections"] - start)
                yield np.frombuffer(index.read(count * ROW.itemsize), ROW)

    def read(self, low: int, high: int, key_end: int, below: bool) -> TokenizedDocuments:
        """Reads the sections with hashes in [low, high), sorted by hash, each as a document.

        Only documents with keys below `key_end` are read, or (`below` is False) only the others.
        """

        def wanted(file: SectionFile) -> Sections:
            with self._opened(file) as piece:
                found = piece(low, high)
            return _taken(found, np.flatnonzero((found.rows["key"] < key_end) == below))

        threads = _REMOTE_READS if "://" in self.folder else 1
        found = _joined(parallel.mapped(wanted, self.files, threads))
        of_lengths, of_ids = _sizes(found.rows, self.dtype)
        starts = _starts(of_lengths + of_ids)[:-1]
        lengths = _gather(found.units, starts, of_lengths).view(np.uint32)
        return TokenizedDocuments(
            _gather(found.units, starts + of_lengths, of_ids).astype(np.int32),
            _starts(lengths),
            _starts(found.rows["sentences"]),
            found.rows["key"].copy(),
        )

    def _slices(
        self, inputs: Sequence[SectionFile], units: int, part: tuple[int, int] = (0, 1)
    ) -> Iterator[Sections]:
        """Yields the sections of files in slices of an interval of hashes that has `units`."""
        index, count = part
        slices = 1 + units // _SLICE_UNITS
        with contextlib.ExitStack() as stack:
            pieces = [stack.enter_context(self._opened(file)) for file in inputs]
            for number in range(index * slices, (index + 1) * slices):
                yield _joined([piece(*interval(number, count * slices)) for piece in pieces])

    @contextlib.contextmanager
    def _opened(self, file: SectionFile) -> Iterator[Callable[[int, int], Sections]]:
        """Yields a function that reads an interval of hashes of a file."""
        index_path, data_path = self.paths(file)
        with (
            files.open_binary(index_path, _READ_BYTES) as index,
            files.open_binary(data_path, _READ_BYTES) as data,
        ):
            yield functools.partial(_piece, index, data, file, self.dtype)


def merged_file(inputs: Sequence[SectionFile]) -> SectionFile:
    """Returns the file that `TokenStore.merge` makes of others."""
    if len(inputs) == 1:
        return inputs[0]
    return SectionFile(
        name=f"{inputs[0]['name']}.merged",
        sections=sum(file["sections"] for file in inputs),
        units=sum(file["units"] for file in inputs),
    )


def _bucket_bits(file: SectionFile) -> int:
    """The logarithm of the number of buckets, at least 1."""
    return max(1, (file["units"] // _BUCKET_UNITS).bit_length())


def _piece(
    index: BinaryIO, data: BinaryIO, file: SectionFile, dtype: np.dtype, low: int, high: int
) -> Sections:
    """Reads the sections with hashes in [low, high) from the open files of a file."""
    rows, before, unit = _rows_between(index, file, low, high)
    start = unit + int(_sizes(before, dtype).sum())
    return Sections(rows, _read(data, 0, dtype, start, int(_sizes(rows, dtype).sum())))


def _rows_between(
    index: BinaryIO, file: SectionFile, low: int, high: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows with hashes in [low, high), those before in their bucket, and the first unit of it."""
    shift = _HASH_BITS - _bucket_bits(file)
    first, last = low >> shift, (high - 1) >> shift
    entries = file["sections"] * ROW.itemsize
    table = _read(index, entries, _ENTRY, first, last - first + 2)
    (row, unit), (row_end, _) = table[0].tolist(), table[-1].tolist()
    rows = _read(index, 0, ROW, row, row_end - row)
    begin = int(np.searchsorted(rows["hash"], np.uint64(low)))
    end = int(np.searchsorted(rows["hash"], np.uint64(high - 1), side="right"))
    return rows[begin:end], rows[:begin], unit


def _read(file: BinaryIO, offset: int, dtype: np.dtype, start: int, count: int) -> np.ndarray:
    """Reads elements of an array that begins at a byte of a file."""
    file.seek(offset + start * dtype.itemsize)
    return np.frombuffer(file.read(count * dtype.itemsize), dtype)
