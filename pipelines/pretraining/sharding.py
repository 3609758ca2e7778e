"""Shards of examples: planned as intervals of hashes, and each written as one TFRecord file."""

import collections
import dataclasses
import itertools
from typing import TypedDict

import numpy as np
import tensorflow as tf

from pipelines.common import checksums, files, json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.corpus import reader
from pipelines.pretraining import tf_example
from pipelines.pretraining.makers import MAKERS
from pipelines.pretraining.makers.base import ExampleMaker
from pipelines.pretraining.settings import BLOCK, ExampleSettings
from pipelines.pretraining.token_store import TokenizedDocuments

# The folder within an output folder with what is needed until everything is written.
UNFINISHED = ".unfinished"
_MIN_SECTIONS_PER_SHARD = 64
_SHARD_TOKENS = 500_000
_MAX_SHARDS = 2048  # for the largest corpora, whose shards are larger
_MIN_DOCUMENTS_TO_HOLD_OUT = 20
# Statistics of examples.
_EXAMPLE_COUNTS = tuple(
    "records random_next tokens full_length predictions masked random_token kept".split()
)


@dataclasses.dataclass(frozen=True)
class Shard:
    """An output file, and its interval of section hashes."""

    file: str
    index: int
    low: int
    high: int
    held_out: bool


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """All output files, and the held-out documents: those with the smallest keys."""

    shards: tuple[Shard, ...]
    held_out_end: int  # documents with smaller keys are held out
    held_out_documents: int


class ShardSummary(TypedDict):
    """A finished shard; counts that do not apply to its maker are 0."""

    file: str
    held_out: bool
    bytes: int
    counts: dict[str, int]


def plan_corpus(corpus_files: list[reader.CorpusFile]) -> list[reader.FileRange]:
    """Cuts a corpus into ranges of 1 to 64 MB: enough for all workers, but not too many."""
    total = sum(file.size for file in corpus_files)
    return reader.plan_ranges(corpus_files, int(np.clip(total // 64, 1 << 20, 1 << 26)))


def plan_shards(index: np.ndarray, settings: ExampleSettings) -> ShardPlan:
    """Plans shards and chooses held-out documents, given the index of the token store.

    Raises:
      InputError: there are no documents, or the maker cannot make sequences of them.
    """
    keys = np.unique(index["key"])
    if not len(keys):
        raise InputError("the corpus has no text: no document has a token.")
    maker = MAKERS[settings.sequence_kind]
    maker.check(index, keys[:0])
    held_out = _held_out_keys(keys, settings)
    maker.check(index, held_out)
    held_out_end = int(held_out[-1]) + 1 if len(held_out) else 0
    is_held_out = index["key"] < held_out_end
    train = _shards(index[~is_held_out], "train", 0)
    shards = (*train, *_shards(index[is_held_out], "held_out", len(train)))
    return ShardPlan(shards, held_out_end, len(held_out))


def _shards(index: np.ndarray, name: str, first: int) -> list[Shard]:
    """Cuts the sections of an index into shards of at least two documents each."""
    if not len(index):
        return []
    index = np.sort(index, order="hash")
    tokens = int(index["tokens"].sum(dtype=np.int64))
    count = min(tokens // _SHARD_TOKENS, len(index) // _MIN_SECTIONS_PER_SHARD, _MAX_SHARDS)
    count = max(1, count)
    while count > 1 and not _every_shard_has_two_documents(index, count):
        count //= 2
    return [
        Shard(
            f"{name}-{i:05d}-of-{count:05d}.tfrecord",
            first + i,
            *_bounds(i, count),
            held_out=name == "held_out",
        )
        for i in range(count)
    ]


def _held_out_keys(keys: np.ndarray, settings: ExampleSettings) -> np.ndarray:
    if not settings.held_out_fraction:
        return keys[:0]
    if len(keys) < _MIN_DOCUMENTS_TO_HOLD_OUT:
        raise InputError(
            f"the corpus has {counted(len(keys), 'document')}; to hold some out for evaluation, at "
            f"least {_MIN_DOCUMENTS_TO_HOLD_OUT} are needed. Use --held_out_fraction=0, or check "
            "the format (--format)."
        )
    # Keys are hashes, so the smallest are a random choice.
    return keys[: max(2, round(settings.held_out_fraction * len(keys)))]


def _bounds(index: int, count: int) -> tuple[int, int]:
    size = checksums.HASH_RANGE
    return index * size // count, (index + 1) * size // count


def _every_shard_has_two_documents(index: np.ndarray, count: int) -> bool:
    """Returns whether cutting the sections, sorted by hash, leaves two documents in each part."""
    lows = np.array([_bounds(shard, count)[0] for shard in range(count)], np.uint64)
    ends = [*np.searchsorted(index["hash"], lows[1:]), len(index)]
    parts = itertools.pairwise([0, *ends])
    return all(len(np.unique(index["key"][start:end])) >= 2 for start, end in parts)


def write_shard(
    output: str, shard: Shard, documents: TokenizedDocuments, maker: ExampleMaker
) -> ShardSummary:
    """Writes a TFRecord file and its summary; returns the summary.

    The file depends only on the documents, the shard and the settings. Several processes may write
    the same shard at the same time. Held-out documents are used once, whatever the dupe factor.
    """
    seeds = np.random.SeedSequence([maker.settings.seed, shard.index, shard.held_out])
    rng = np.random.Generator(np.random.Philox(seeds))
    times = 1 if shard.held_out else maker.settings.dupe_factor
    plan = np.concatenate([maker.plan(documents, rng) for _ in range(times)])
    plan = plan[rng.permutation(len(plan))]
    counts: collections.Counter[str] = collections.Counter()
    path = f"{output}/{shard.file}"
    with (
        files.write_aside(path, shared=True) as partial,
        files.for_tensorflow(partial) as written,
        tf.io.TFRecordWriter(written) as writer,
    ):
        for start in range(0, len(plan), BLOCK):
            features, found = maker.features(documents, plan[start : start + BLOCK], rng)
            counts.update(found)
            for record in tf_example.encode(features):
                writer.write(record)
    summary: ShardSummary = {
        "file": shard.file,
        "held_out": shard.held_out,
        "bytes": files.gfile.stat(path).length,
        "counts": {**dict.fromkeys(_EXAMPLE_COUNTS, 0), **counts},
    }
    json_files.write(_summary_path(output, shard), summary, shared=True)
    return summary


def is_whole(path: str, size: int) -> bool:
    """Returns whether a file exists and has the number of bytes that were written."""
    return files.gfile.exists(path) and files.gfile.stat(path).length == size


def finished_summary(output: str, shard: Shard) -> ShardSummary | None:
    """Returns the summary of a shard, or None if the shard is not completely written."""
    summary = json_files.read_whole(_summary_path(output, shard), ShardSummary)
    if summary is None or summary["file"] != shard.file:
        return None
    is_known = summary["counts"].keys() >= set(_EXAMPLE_COUNTS)
    return summary if is_known and is_whole(f"{output}/{shard.file}", summary["bytes"]) else None


def _summary_path(output: str, shard: Shard) -> str:
    return f"{output}/{UNFINISHED}/{shard.file}.json"
