"""One file of examples: a pure function of its documents and the seed."""

import collections
from typing import Any, TypedDict

import numpy as np
import tensorflow as tf

from pipelines.common import files, json_files
from pipelines.pretraining import tf_example, token_store
from pipelines.pretraining.makers.base import ExampleMaker, TokenizedDocuments
from pipelines.pretraining.plan import Shard
from pipelines.pretraining.settings import BLOCK

# Where an output folder keeps what is needed until all of it is written.
UNFINISHED = ".unfinished"


class ShardSummary(TypedDict):
    """What a finished shard says of itself; counts are 0 where its maker has no such thing."""

    file: str
    held_out: bool
    bytes: int
    records: int
    random_next: int
    tokens: int
    full_length: int
    predictions: int
    masked: int
    random_token: int
    kept: int


def write_shard(
    output: str,
    shard: Shard,
    held_out_end: int,
    store: token_store.TokenStore,
    maker: ExampleMaker,
) -> ShardSummary:
    """Writes one TFRecord file and returns its statistics.

    A pure function of the shard's documents and the seed; several processes may write the same
    shard at the same time. Held-out documents are used once, whatever the dupe factor.
    """
    documents = _flatten(store.read(shard.low, shard.high, held_out_end, shard.held_out))
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
        "records": counts["records"],
        "random_next": counts["random_next"],
        "tokens": counts["tokens"],
        "full_length": counts["full_length"],
        "predictions": counts["predictions"],
        "masked": counts["masked"],
        "random_token": counts["random_token"],
        "kept": counts["kept"],
    }
    json_files.write(summary_path(output, shard), summary, shared=True)
    return summary


def is_whole(path: str, size: int) -> bool:
    """Whether a file is there with as many bytes as were written."""
    return files.gfile.exists(path) and files.gfile.stat(path).length == size


def finished_summary(output: str, shard: Shard) -> ShardSummary | None:
    """The summary of a shard that is written; None if it is not, or not whole."""
    summary = json_files.read_whole(summary_path(output, shard), ShardSummary)
    if summary is None:
        return None
    whole = is_whole(f"{output}/{shard.file}", summary["bytes"])
    return summary if whole and summary["file"] == shard.file else None


def summary_path(output: str, shard: Shard) -> str:
    """The file that says that a shard is finished, with its statistics."""
    return f"{output}/{UNFINISHED}/{shard.file}.json"


def _flatten(sections: list[token_store.TokenizedSection]) -> TokenizedDocuments:
    def ends(lengths: Any) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)

    nothing = np.zeros(0, np.int32)
    return TokenizedDocuments(
        np.concatenate([nothing, *(s.ids for s in sections)]).astype(np.int32),
        ends(np.concatenate([nothing, *(s.sentence_lengths for s in sections)])),
        ends([len(s.sentence_lengths) for s in sections]),
        np.array([s.key for s in sections], np.uint64),
    )
