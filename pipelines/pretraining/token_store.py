"""The corpus as token ids on disk: the intermediate step of the example writer.

Each range of the corpus is tokenized independently into chunks of bounded size. Within a chunk,
sections are sorted by a hash of their document, so that a shard (an interval of hashes) is one
contiguous piece of every chunk, for any number of shards. The store is removed at the end.

A chunk has three files: `.index` (one row per section), `.sentences` (uint32 token counts) and
`.ids` (uint16 or uint32). A range is finished when its `.json` exists.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple, TypedDict

import numpy as np

from pipelines.common import checksums, files, json_files, texts
from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.tokenizers.base import Tokenizer

# Statistics of a text.
TEXT_COUNTS = tuple(
    "characters documents sentences tokens unknown_tokens one_sentence_documents".split()
)
_CHUNK_CHARACTERS = 8_000_000
_BATCH_CHARACTERS = 1_000_000
_ROW = np.dtype(
    [("hash", np.uint64), ("key", np.uint64), ("sentences", np.uint32), ("tokens", np.uint32)]
)


class TokenizedDocuments(NamedTuple):
    """Documents as arrays; the last element of each `starts` is the end."""

    ids: np.ndarray  # int32 [tokens]
    sentence_starts: np.ndarray  # int64 [sentences + 1], in tokens
    document_starts: np.ndarray  # int64 [documents + 1], in sentences
    document_keys: np.ndarray  # uint64 [documents]; equal for sections of one document


class _TokenizedSection(NamedTuple):
    """The hash of a section, the key of its document, its ids and sentence lengths."""

    hash: int
    key: int
    ids: np.ndarray
    sentence_lengths: np.ndarray


class RangeSummary(TypedDict):
    """A finished range: its chunks, the checksums of their files, and statistics by name."""

    chunks: int
    checksums: dict[str, str]
    counts: dict[str, int]


def id_dtype(vocab_size: int) -> np.dtype:
    """Returns the smallest type that holds every id."""
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


def tokenize_range(
    folder: str,
    range_index: int,
    file_range: reader.FileRange,
    options: reader.ReadOptions,
    tokens: Tokenizer,
    seed: int,
) -> RangeSummary:
    """Tokenizes a range into the store and returns its summary.

    The files depend only on the text of the range and the seed. A finished range is not tokenized
    again, unless its files are damaged. Several processes may tokenize a range at the same time.

    Raises:
      InputError: the corpus cannot be read.
    """
    path = f"{folder}/{range_index:05d}.json"
    finished = _finished(folder, path)
    if finished is not None:
        return finished
    summary = RangeSummary(chunks=0, checksums={}, counts=dict.fromkeys(TEXT_COUNTS, 0))
    counts = summary["counts"]
    sections: list[_TokenizedSection] = []
    size = 0
    last_key = None

    def flush() -> None:
        chunk = f"{range_index:05d}-{summary['chunks']:04d}"
        summary["checksums"] |= _write_chunk(folder, chunk, sections, len(tokens.vocabulary))
        summary["chunks"] += 1
        sections.clear()

    for section, ids, lengths in _tokenized(reader.read_sections(file_range, options), tokens):
        if not len(lengths):
            continue
        key = checksums.stable_hash("document", seed, *section.document)
        order = checksums.stable_hash("section", seed, *section.document, counts["sentences"])
        sections.append(_TokenizedSection(order, key, ids, lengths))
        counts["documents"] += key != last_key
        counts["one_sentence_documents"] += key != last_key and len(lengths) == 1
        last_key = key
        counts["characters"] += section.characters
        counts["sentences"] += len(lengths)
        counts["tokens"] += len(ids)
        counts["unknown_tokens"] += int(np.count_nonzero(ids == tokens.unknown_id))
        size += section.characters
        if size >= _CHUNK_CHARACTERS:
            flush()
            size = 0
    if sections:
        flush()
    json_files.write(path, summary, shared=True)
    return summary


def _finished(folder: str, path: str) -> RangeSummary | None:
    """Returns the summary of a range that is finished and undamaged, or None."""
    summary = json_files.read_whole(path, RangeSummary)
    if summary is None or summary["counts"].keys() != set(TEXT_COUNTS):
        return None
    try:
        for name, expected in summary["checksums"].items():
            if files.sha256(files.inside(folder, name, path)) != expected:
                return None
    except InputError:
        return None
    return summary


def _tokenized(
    sections: Iterator[reader.Section], tokens: Tokenizer
) -> Iterator[tuple[reader.Section, np.ndarray, np.ndarray]]:
    """Tokenizes sections in batches; returns ids and sentence lengths, without empty sentences."""
    for batch in texts.blocks(sections, lambda section: section.characters, _BATCH_CHARACTERS):
        sentences = [s for section in batch for s in section.sentences]
        ids, row_splits = tokens.tokenize_running_text(sentences)
        row = 0
        for section in batch:
            bounds = row_splits[row : row + len(section.sentences) + 1]
            row += len(section.sentences)
            lengths = np.diff(bounds)
            yield section, ids[bounds[0] : bounds[-1]], lengths[lengths > 0]


def _write_chunk(
    folder: str, name: str, sections: list[_TokenizedSection], vocab_size: int
) -> dict[str, str]:
    """Writes the files of a chunk and returns their checksums."""
    sections = sorted(sections, key=lambda section: section.hash)
    index = np.array([(s.hash, s.key, len(s.sentence_lengths), len(s.ids)) for s in sections], _ROW)
    digests = {}
    for suffix, arrays, dtype in (
        ("sentences", [s.sentence_lengths for s in sections], np.dtype(np.uint32)),
        ("ids", [s.ids for s in sections], id_dtype(vocab_size)),
        ("index", [index], _ROW),
    ):
        digest = hashlib.sha256()
        with (
            files.write_aside(f"{folder}/{name}.{suffix}", shared=True) as partial,
            files.gfile.GFile(partial, "wb") as file,
        ):
            for array in arrays:
                data = array.astype(dtype).tobytes()
                file.write(data)
                digest.update(data)
        digests[f"{name}.{suffix}"] = digest.hexdigest()
    return digests


class TokenStore:
    """A finished store, for reading: the number of chunks of each range in a folder."""

    def __init__(self, folder: str, chunks: list[int], vocab_size: int):
        self._dtype = id_dtype(vocab_size)
        self._bases = [
            f"{folder}/{number:05d}-{chunk:04d}"
            for number, count in enumerate(chunks)
            for chunk in range(count)
        ]

    def index(self) -> np.ndarray:
        """Returns the rows (hash, key, sentences, tokens) of all sections, in any order."""
        return np.concatenate([np.zeros(0, _ROW), *map(_read_index, self._bases)])

    def read(self, low: int, high: int, key_end: int, below: bool) -> TokenizedDocuments:
        """Reads the sections with hashes in [low, high), sorted by hash, each as a document.

        Only documents with keys below `key_end` are read, or (`below` is False) only the others.
        """
        sections: list[_TokenizedSection] = []
        for base in self._bases:
            index = _read_index(base)
            first = int(np.searchsorted(index["hash"], np.uint64(low)))
            end = len(index)
            if high < checksums.HASH_RANGE:
                end = int(np.searchsorted(index["hash"], np.uint64(high)))
            wanted = (index["key"][first:end] < key_end) == below
            if wanted.any():
                sections.extend(self._read_rows(base, index, first, end, wanted))
        return _flatten(sorted(sections, key=lambda section: section.hash))

    def _read_rows(
        self, base: str, index: np.ndarray, first: int, end: int, wanted: np.ndarray
    ) -> Iterator[_TokenizedSection]:
        rows = index[first:end]
        lengths = _read_range(
            f"{base}.sentences", np.dtype(np.uint32), index["sentences"], first, end
        )
        ids = _read_range(f"{base}.ids", self._dtype, index["tokens"], first, end)
        sentence_ends = np.cumsum(rows["sentences"], dtype=np.int64)
        token_ends = np.cumsum(rows["tokens"], dtype=np.int64)
        for row in np.flatnonzero(wanted):
            sentences = slice(sentence_ends[row] - rows["sentences"][row], sentence_ends[row])
            tokens = slice(token_ends[row] - rows["tokens"][row], token_ends[row])
            yield _TokenizedSection(
                int(rows["hash"][row]),
                int(rows["key"][row]),
                ids[tokens].copy(),  # a view would keep the whole array in memory
                lengths[sentences].copy(),
            )


def _flatten(sections: list[_TokenizedSection]) -> TokenizedDocuments:
    def ends(lengths: Any) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)

    nothing = np.zeros(0, np.int32)
    return TokenizedDocuments(
        np.concatenate([nothing, *(s.ids for s in sections)]).astype(np.int32),
        ends(np.concatenate([nothing, *(s.sentence_lengths for s in sections)])),
        ends([len(s.sentence_lengths) for s in sections]),
        np.array([s.key for s in sections], np.uint64),
    )


def _read_index(base: str) -> np.ndarray:
    with files.open_binary(f"{base}.index") as file:
        return np.frombuffer(file.read(), _ROW)


def _read_range(path: str, dtype: np.dtype, counts: np.ndarray, first: int, end: int) -> np.ndarray:
    """Reads the elements of rows [first, end) from a file that has `counts` elements per row."""
    start = int(counts[:first].sum(dtype=np.int64))
    size = int(counts[first:end].sum(dtype=np.int64))
    with files.open_binary(path) as file:
        file.seek(start * dtype.itemsize)
        return np.frombuffer(file.read(size * dtype.itemsize), dtype)
