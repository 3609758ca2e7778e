"""Tokenizes a corpus into files of sections: the intermediate step of the example writer.

Each range of the corpus is tokenized independently into files of bounded size. Within a file,
sections are sorted by a hash of their document, so that a shard (an interval of hashes) is one
contiguous piece of every file, for any number of shards. The files are removed at the end.

A range is finished when its `.json` exists, until files are merged: then `tokenized.json` lists the
files of all ranges.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from pipelines.common import checksums, files, json_files, parallel, texts
from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.pretraining import section_files
from pipelines.pretraining.section_files import ROW, SectionFile, Sections, TokenStore
from pipelines.pretraining.settings import ExampleSettings
from pipelines.tokenizers.base import Tokenizer

# Statistics of a text.
TEXT_COUNTS = tuple(
    "characters documents sentences tokens unknown_tokens one_sentence_documents".split()
)
MAX_FILES = 64  # that a shard reads, and that are merged into one
_FILE_CHARACTERS = 1 << 25  # about half of the largest range
_BATCH_CHARACTERS = 1_000_000
_STATS = 16  # at the same time, because file systems of a network are slow


class TokenizedText(TypedDict):
    """Tokenized text: its files, and statistics by name."""

    files: list[SectionFile]
    counts: dict[str, int]


class RangeSummary(TokenizedText):
    """A finished range, with the checksums of its files."""

    checksums: dict[str, str]


class _TokenizedSection(NamedTuple):
    """Hash, key of the document, whether it is the first section of it, ids, sentence lengths."""

    hash: int
    key: int
    first: bool
    ids: np.ndarray
    sentence_lengths: np.ndarray


def tokenize_range(
    store: TokenStore,
    range_index: int,
    file_range: reader.FileRange,
    options: reader.ReadOptions,
    tokens: Tokenizer,
    settings: ExampleSettings,
) -> RangeSummary:
    """Tokenizes a range into a store and returns its summary.

    The files depend only on the text of the range and the settings. A finished range is not
    tokenized again, unless its files are damaged. Several processes may tokenize a range at the
    same time.

    With `deduplicate`, the hash of a section is that of its text and its number in the document,
    instead of its place, and the key of a document is the hash of its first section. So documents
    with the same text have the same ones; within a file, they are written once.

    Raises:
      InputError: the corpus cannot be read.
    """
    path = f"{store.folder}/{range_index:05d}.json"
    finished = _finished(store, path)
    if finished is not None:
        return finished
    summary = RangeSummary(files=[], checksums={}, counts=dict.fromkeys(TEXT_COUNTS, 0))
    counts = summary["counts"]
    sections: list[_TokenizedSection] = []
    size = 0
    document: tuple[object, ...] = ()
    last, number = None, 0  # the document of the section before, and the number of this one in it

    def flush() -> None:
        once = {(section.hash, section.key): section for section in sections}
        found = _sorted([*once.values()], store.dtype)
        file = SectionFile(
            name=f"{range_index:05d}-{len(summary['files']):04d}",
            sections=len(found.rows),
            units=len(found.units),
        )
        store.write(file, [found])
        names = [path.removeprefix(f"{store.folder}/") for path in store.paths(file)]
        summary["checksums"] |= checksums.of(store.folder, names)
        summary["files"].append(file)
        sections.clear()

    for section, ids, lengths in _tokenized(reader.read_sections(file_range, options), tokens):
        if not len(lengths):
            continue
        first = section.document != last
        last, number = section.document, 0 if first else number + 1
        place: tuple[object, ...] = (*section.document, counts["sentences"])
        if settings.deduplicate:
            place = number, hashlib.blake2b(lengths.tobytes() + ids.tobytes()).digest()
        if first:
            document = place if settings.deduplicate else section.document
        order = checksums.stable_hash("section", settings.seed, *place)
        key = checksums.stable_hash("document", settings.seed, *document)
        sections.append(_TokenizedSection(order, key, first, ids, lengths))
        counts["documents"] += first
        counts["one_sentence_documents"] += first and len(lengths) == 1
        counts["characters"] += section.characters
        counts["sentences"] += len(lengths)
        counts["tokens"] += len(ids)
        counts["unknown_tokens"] += int(np.count_nonzero(ids == tokens.unknown_id))
        size += section.characters
        if size >= _FILE_CHARACTERS:
            flush()
            size = 0
    if sections:
        flush()
    json_files.write(path, summary, shared=True)
    return summary


def _finished(store: TokenStore, path: str) -> RangeSummary | None:
    """Returns the summary of a range that is finished and undamaged, or None."""
    summary = json_files.read_whole(path, RangeSummary)
    if summary is None or summary["counts"].keys() != set(TEXT_COUNTS):
        return None
    try:
        for name, expected in summary["checksums"].items():
            if files.sha256(files.inside(store.folder, name, path)) != expected:
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


def _sorted(sections: list[_TokenizedSection], dtype: np.dtype) -> Sections:
    rows = [(s.hash, s.key, len(s.sentence_lengths), len(s.ids), s.first) for s in sections]
    return section_files.sorted_sections(
        np.array(rows, ROW),
        np.concatenate([s.sentence_lengths for s in sections]),
        np.concatenate([s.ids for s in sections]),
        dtype,
    )


def groups(found: Sequence[SectionFile]) -> list[list[SectionFile]]:
    """Cuts a list of files into those that are merged into one."""
    return [list(found[i : i + MAX_FILES]) for i in range(0, len(found), MAX_FILES)]


def save(store: TokenStore, text: TokenizedText) -> None:
    """Writes the list of all files; from now on, a merged file may replace some of them."""
    json_files.write(_path(store), text)


def saved(store: TokenStore) -> TokenizedText | None:
    """Returns what `save` wrote, or None if it or one of the files is missing."""
    text = json_files.read_whole(_path(store), TokenizedText)
    if text is None:
        return None

    def is_there(group: list[SectionFile]) -> bool:
        merged = section_files.merged_file(group)
        return store.is_whole(merged) or all(map(store.is_whole, group))

    there = parallel.mapped(is_there, groups(text["files"]), _STATS)
    return text if all(there) else None


def _path(store: TokenStore) -> str:
    return f"{store.folder}/tokenized.json"
