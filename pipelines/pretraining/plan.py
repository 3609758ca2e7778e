"""The plan of an example writer: files of examples, as intervals of hashes."""

import dataclasses
import itertools

import numpy as np

from pipelines.common import hashing
from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.corpus import reader
from pipelines.pretraining.makers import MAKERS
from pipelines.pretraining.settings import ExampleSettings

_MIN_SECTIONS_PER_SHARD = 64
_SHARD_TOKENS = 500_000
_MAX_SHARDS = 2048  # of the largest corpora; their shards are larger
_MIN_DOCUMENTS_TO_HOLD_OUT = 20


@dataclasses.dataclass(frozen=True)
class Shard:
    """One output file: an interval of section hashes."""

    file: str
    index: int
    low: int
    high: int
    held_out: bool


@dataclasses.dataclass(frozen=True)
class Plan:
    """All output files, and the documents held out: those whose keys are the smallest.

    Attributes:
      shards: the files.
      held_out_end: documents with keys below it are held out.
      held_out_documents: how many these are.
    """

    shards: tuple[Shard, ...]
    held_out_end: int
    held_out_documents: int


def plan_corpus(files_of_corpus: list[reader.CorpusFile]) -> list[reader.FileRange]:
    """Ranges of 1 to 64 MB: enough of them to share out, not too many to gather."""
    total = sum(file.size for file in files_of_corpus)
    return reader.plan_ranges(files_of_corpus, int(np.clip(total // 64, 1 << 20, 1 << 26)))


def plan_shards(index: np.ndarray, settings: ExampleSettings) -> Plan:
    """Decides the number of shards and the held-out documents from the store's index.

    Raises:
      InputError: there are no documents, or the maker can make nothing of them.
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
    return Plan(shards, held_out_end, len(held_out))


def _shards(index: np.ndarray, name: str, first: int) -> list[Shard]:
    """Cuts the sections of an index into shards that have two documents each at least."""
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
            f"the corpus has {counted(len(keys), 'document')}; to hold some out for evaluation "
            f"it takes {_MIN_DOCUMENTS_TO_HOLD_OUT}. Use --held_out_fraction=0, or check the "
            "format (--format)."
        )
    # Keys are hashes, so the smallest are a random choice.
    return keys[: max(2, round(settings.held_out_fraction * len(keys)))]


def _bounds(index: int, count: int) -> tuple[int, int]:
    size = hashing.HASH_RANGE
    return index * size // count, (index + 1) * size // count


def _every_shard_has_two_documents(index: np.ndarray, count: int) -> bool:
    """Whether cutting the sections, sorted by hash, leaves two documents in each part."""
    lows = np.array([_bounds(shard, count)[0] for shard in range(count)], np.uint64)
    ends = [*np.searchsorted(index["hash"], lows[1:]), len(index)]
    parts = itertools.pairwise([0, *ends])
    return all(len(np.unique(index["key"][start:end])) >= 2 for start, end in parts)
