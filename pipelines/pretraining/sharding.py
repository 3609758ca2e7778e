"""Shards of examples: planned as intervals of hashes, and each written as one TFRecord file."""

import collections
import dataclasses
from collections.abc import Mapping
from typing import TypedDict

import numpy as np

from pipelines.common import files, json_files
from pipelines.common.errors import InputError
from pipelines.common.runners import Workers
from pipelines.common.texts import counted
from pipelines.corpus import reader
from pipelines.pretraining import tf_example
from pipelines.pretraining.makers import MAKERS
from pipelines.pretraining.makers.base import ExampleMaker
from pipelines.pretraining.section_files import TokenizedDocuments, TokenStore, interval
from pipelines.pretraining.settings import BLOCK, ExampleSettings
from pipelines.pretraining.survey import Survey

# The folder within an output folder with what is needed until everything is written.
UNFINISHED = ".unfinished"
_MIN_SECTIONS_PER_SHARD = 64
_SHARD_TOKENS = 500_000  # of up to so many shards
_SMALL_SHARDS = 256
_LARGE_SHARD_TOKENS = 4_000_000  # of more shards
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


def plan_shards(
    counts: Mapping[str, int], store: TokenStore, settings: ExampleSettings, workers: Workers
) -> ShardPlan:
    """Plans shards and chooses held-out documents, given statistics of the text (TEXT_COUNTS).

    Raises:
      InputError: there are no documents, none is left to train on, or the maker cannot make
        sequences of them.
    """
    if not counts["documents"]:
        raise InputError("the corpus has no text: no document has a token.")
    maker = MAKERS[settings.sequence_kind]
    maker.check(counts)
    held_out = _held_out_documents(counts["documents"], settings, maker.least_documents)
    survey = Survey(store, workers)
    end, apart = survey.smallest_keys(held_out)
    total = np.array([sum(file["sections"] for file in store.files), counts["tokens"]])
    numbers = [_shard_count(*part.tolist()) for part in (total - apart, apart)]
    least = maker.least_documents
    while any(lacking := survey.lack_documents(numbers, end, least)):
        numbers = [n // 2 if lacks else n for n, lacks in zip(numbers, lacking, strict=True)]
    train = _shards("train", 0, numbers[0])
    return ShardPlan((*train, *_shards("held_out", len(train), numbers[1])), end, held_out)


def _held_out_documents(documents: int, settings: ExampleSettings, least: int) -> int:
    if not settings.held_out_fraction:
        return 0
    if documents < _MIN_DOCUMENTS_TO_HOLD_OUT:
        raise InputError(
            f"the corpus has {counted(documents, 'document')}; to hold some out for evaluation, at "
            f"least {_MIN_DOCUMENTS_TO_HOLD_OUT} are needed. Use --held_out_fraction=0, or check "
            "the format (--format)."
        )
    # Keys are hashes, so the smallest are a random choice.
    held_out = max(2, round(settings.held_out_fraction * documents))
    left = documents - held_out
    if left < least:
        raise InputError(
            f"--held_out_fraction={settings.held_out_fraction}: leaves "
            f"{counted(left, 'document')} to train on; at least {least} must be left."
        )
    return held_out


def _shard_count(sections: int, tokens: int) -> int:
    """The number of shards, if each has two documents."""
    count = max(min(tokens // _SHARD_TOKENS, _SMALL_SHARDS), tokens // _LARGE_SHARD_TOKENS)
    return max(min(1, sections), min(count, sections // _MIN_SECTIONS_PER_SHARD))


def _shards(name: str, first: int, count: int) -> list[Shard]:
    return [
        Shard(
            f"{name}-{i:05d}-of-{count:05d}.tfrecord",
            first + i,
            *interval(i, count),
            held_out=name == "held_out",
        )
        for i in range(count)
    ]


def write_shard(
    output: str, shard: Shard, documents: TokenizedDocuments, maker: ExampleMaker
) -> ShardSummary:
    """Writes a TFRecord file and its summary; returns the summary.

    The file depends only on the documents, the shard and the settings. Several processes may write
    the same shard at the same time. Held-out documents are used once, whatever the dupe factor.
    """
    seeds = np.random.SeedSequence([maker.settings.seed, shard.index, shard.held_out])
    rng = np.random.Generator(np.random.Philox(seeds))
    times = 1 if shard.held_out else maker.times
    plan = np.concatenate([maker.plan(documents, rng) for _ in range(times)])
    plan = plan[rng.permutation(len(plan))]
    counts: collections.Counter[str] = collections.Counter()
    path = f"{output}/{shard.file}"
    with (
        files.write_aside(path, shared=True) as partial,
        files.gfile.GFile(partial, "wb") as file,
    ):
        file.write(b"")  # creates the file if there are no records
        for start in range(0, len(plan), BLOCK):
            features, found = maker.features(documents, plan[start : start + BLOCK], rng)
            counts.update(found)
            file.write(tf_example.encode(features))
    summary: ShardSummary = {
        "file": shard.file,
        "held_out": shard.held_out,
        "bytes": files.gfile.stat(path).length,
        "counts": {**dict.fromkeys(_EXAMPLE_COUNTS, 0), **counts},
    }
    json_files.write(_summary_path(output, shard), summary, shared=True)
    return summary


def finished_summary(output: str, shard: Shard) -> ShardSummary | None:
    """Returns the summary of a shard, or None if the shard is not completely written."""
    summary = json_files.read_whole(_summary_path(output, shard), ShardSummary)
    if summary is None or summary["file"] != shard.file:
        return None
    is_known = summary["counts"].keys() >= set(_EXAMPLE_COUNTS)
    return (
        summary if is_known and files.is_whole(f"{output}/{shard.file}", summary["bytes"]) else None
    )


def _summary_path(output: str, shard: Shard) -> str:
    return f"{output}/{UNFINISHED}/{shard.file}.json"
