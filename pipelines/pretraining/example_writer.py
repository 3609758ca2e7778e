"""Writes examples: tokenizes a corpus, plans shards, writes them; resumes where it was stopped."""

import dataclasses
import functools
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from absl import logging
from tqdm import tqdm

from pipelines.common import files, locks, outputs
from pipelines.common.errors import InputError
from pipelines.common.runners import LocalRunner, Runner, Workers
from pipelines.corpus import reader
from pipelines.pretraining import example_folder, makers, token_store
from pipelines.pretraining.example_folder import BEGUN, MANIFEST, NEIGHBOURS
from pipelines.pretraining.settings import ExampleSettings, Objective, SequenceKind
from pipelines.pretraining.sharding import (
    UNFINISHED,
    Shard,
    ShardPlan,
    ShardSummary,
    finished_summary,
    plan_corpus,
    plan_shards,
    write_shard,
)
from pipelines.pretraining.token_store import RangeSummary
from pipelines.tokenizers import coverage, registry
from pipelines.tokenizers.base import Tokenizer


@dataclasses.dataclass(frozen=True)
class ExampleRequest:
    """The examples to write: globs of a corpus, a vocabulary, an output folder, and settings.

    `tokenizer` has the names and values of the tokenizer's settings that the user chose.
    """

    input: str
    vocab: str
    output: str
    settings: ExampleSettings = ExampleSettings()
    file_format: str = "auto"
    read: reader.ReadOptions = reader.ReadOptions()
    tokenizer: tuple[tuple[str, bool], ...] = ()


@functools.lru_cache(maxsize=2)
def _load_tokenizer(vocab: str, settings: tuple[tuple[str, bool], ...]) -> Tokenizer:
    """Loads a tokenizer once per process."""
    return registry.load_tokenizer(vocab, dict(settings))


def write(request: ExampleRequest, runner: Runner | None = None) -> dict[str, Any]:
    """Writes TFRecords, the vocabulary and, when everything is complete, `manifest.json`.

    The files depend only on the request and the input files. A complete output is not changed; an
    incomplete one is resumed.

    Args:
      request: the examples to write.
      runner: where the work is done; None: in processes of this machine, one per core.

    Returns:
      The manifest.

    Raises:
      InputError: the input is bad, or the output folder has examples with other settings or other
        files, or is being written.
    """
    request.settings.check()
    runner = runner or LocalRunner()
    tokens = _load_tokenizer(request.vocab, request.tokenizer)
    _check_vocabulary(request, tokens)
    corpus_files = reader.open_corpus(request.input, request.file_format)
    paths = [request.vocab, *(file.path for file in corpus_files)]
    inputs = [*paths, *(f"{path}.json" for path in paths)]  # with their manifests
    known = [f"{name}*" for name in NEIGHBOURS]
    outputs.check_folder(
        request.output, "examples", (MANIFEST, BEGUN), known, inputs, anywhere=True
    )
    with (
        locks.held(request.output),
        runner.started(f"{request.output}/{UNFINISHED}/steps", __name__) as workers,
    ):
        return _write(request, corpus_files, tokens, workers)


def _check_vocabulary(request: ExampleRequest, tokens: Tokenizer) -> None:
    """Raises InputError if the objective, or the sequences, are not for a vocabulary."""
    settings = request.settings
    masked = settings.objective not in (Objective.LEFT_TO_RIGHT, Objective.BIDIRECTIONAL_LM)
    if masked and tokens.mask_id in (tokens.unknown_id, tokens.separator_id):
        raise InputError(
            f"{request.vocab}: has no mask token, which --objective={settings.objective} needs; it "
            "is for --objective=left_to_right."
        )
    is_stream = settings.sequences is SequenceKind.STREAM
    if settings.objective is Objective.LEFT_TO_RIGHT and is_stream == tokens.vocabulary.starts_text:
        which = "do not go with" if is_stream else "are the only ones for"
        raise InputError(
            f"{request.vocab}: --sequences=stream {which} this vocabulary, whose texts "
            f"{'begin' if is_stream else 'do not begin'} with a start token."
        )


def _write(
    request: ExampleRequest,
    corpus_files: list[reader.CorpusFile],
    tokens: Tokenizer,
    workers: Workers,
) -> dict[str, Any]:
    identity = {
        "settings": {**request.settings.describe(), **dataclasses.asdict(request.read)},
        "tokenizer": tokens.settings,
        "vocabulary_sha256": tokens.vocabulary.sha256,
        "inputs": reader.identities(corpus_files, workers),
    }
    finished = example_folder.finished_manifest(request.output, identity)
    if finished is not None:
        files.remove_tree(f"{request.output}/{UNFINISHED}")  # a killed command may have left it
        logging.info("%s is complete; nothing to do.", request.output)
        return finished
    files.gfile.makedirs(f"{request.output}/{UNFINISHED}")
    tokens.vocabulary.save(request.output)
    summaries = _tokenize(workers, request, corpus_files)
    chunks = [summary["chunks"] for summary in summaries]
    plan = plan_shards(_store(request, chunks, tokens).index(), request.settings)
    shards = _write_shards(workers, request, chunks, plan)
    # Lost workers may have begun files on file systems where this is noticed only now.
    for pattern in files.LEFT_BEHIND:
        for path in files.matching(request.output, f"*.tfrecord{pattern.removeprefix('*')}"):
            files.gfile.remove(path)
    result = _manifest(identity, summaries, plan, shards)
    example_folder.finish(request.output, result)
    _warn(request, corpus_files, tokens, result)
    return result


def _warn(
    request: ExampleRequest,
    corpus_files: list[reader.CorpusFile],
    tokens: Tokenizer,
    result: dict[str, Any],
) -> None:
    """Warns of a vocabulary or an objective that does not suit the text."""
    text = result["text"]
    coverage.warn_of_lost_tokens(tokens, request.vocab)
    coverage.warn_of_unknown(
        tokens,
        *(text["unknown_tokens"], text["tokens"]),
        coverage.sample(corpus_files, request.read),
        request.input,
    )
    single, documents = text["one_sentence_documents"], text["documents"]
    if request.settings.objective is Objective.MLM_NSP and 2 * single > documents:
        logging.warning(
            "%d of %d documents have one sentence, which has no next one: in %.0f %% of the "
            "examples the next sentence is random, so that there is little to learn from it. Use "
            "--objective=mlm, or check the format (--format).",
            *(single, documents, 100 * result["train"]["random_next_share"]),
        )


def _tokenize(
    workers: Workers, request: ExampleRequest, corpus_files: list[reader.CorpusFile]
) -> list[RangeSummary]:
    ranges = plan_corpus(corpus_files)
    summaries: dict[int, RangeSummary] = {}
    function = functools.partial(_tokenize_range, request)
    total = sum(file.size for file in corpus_files)
    with tqdm(total=total, desc="tokenize", unit="B", unit_scale=True) as bar:
        for (index, file_range), summary in workers.map(function, list(enumerate(ranges))):
            summaries[index] = summary
            end = file_range.end
            whole = corpus_files[file_range.file_index].size
            bar.update((end if end >= 0 else whole) - file_range.start)
    return [summaries[index] for index in range(len(ranges))]


def _tokenize_range(request: ExampleRequest, item: tuple[int, reader.FileRange]) -> RangeSummary:
    index, file_range = item
    tokens = _load_tokenizer(request.vocab, request.tokenizer)
    folder = f"{request.output}/{UNFINISHED}"
    return token_store.tokenize_range(
        folder, index, file_range, request.read, tokens, request.settings.seed
    )


def _store(request: ExampleRequest, chunks: list[int], tokens: Tokenizer) -> token_store.TokenStore:
    folder = f"{request.output}/{UNFINISHED}"
    return token_store.TokenStore(folder, chunks, len(tokens.vocabulary))


def _write_shards(
    workers: Workers, request: ExampleRequest, chunks: list[int], plan: ShardPlan
) -> list[ShardSummary]:
    summaries = {}
    with tqdm(total=len(plan.shards), desc="write", unit="shard") as bar:
        records = 0
        function = functools.partial(_write_shard, request, chunks, plan.held_out_end)
        for shard, summary in workers.map(function, plan.shards):
            summaries[shard.index] = summary
            records += summary["counts"]["records"]
            rate = records / max(bar.format_dict["elapsed"], 1e-3)
            bar.set_postfix_str(f"{records:,} examples, {rate:,.0f}/s", refresh=False)
            bar.update()
    return [summaries[shard.index] for shard in plan.shards]


def _write_shard(
    request: ExampleRequest, chunks: list[int], held_out_end: int, shard: Shard
) -> ShardSummary:
    finished = finished_summary(request.output, shard)
    if finished is not None:
        return finished
    tokens = _load_tokenizer(request.vocab, request.tokenizer)
    store = _store(request, chunks, tokens)
    documents = store.read(shard.low, shard.high, held_out_end, shard.held_out)
    return write_shard(request.output, shard, documents, makers.make(request.settings, tokens))


def _manifest(
    identity: dict[str, Any],
    ranges: Sequence[RangeSummary],
    plan: ShardPlan,
    shards: Sequence[ShardSummary],
) -> dict[str, Any]:
    """Returns the manifest with statistics; raises InputError if there are no training examples."""
    text: dict[str, float] = {
        name: sum(summary["counts"][name] for summary in ranges) for name in token_store.TEXT_COUNTS
    }
    text["held_out_documents"] = plan.held_out_documents
    text["unknown_share"] = text["unknown_tokens"] / text["tokens"]
    train = _statistics([shard for shard in shards if not shard["held_out"]])
    if not train["records"]:
        raise InputError(
            f"the corpus has {text['tokens']:,} tokens, which do not fill one sequence of "
            f"--max_seq_length={identity['settings']['max_seq_length']}; use a smaller one, or "
            "more text."
        )
    return {
        **identity,
        "text": text,
        "train": train,
        "held_out": _statistics([shard for shard in shards if shard["held_out"]]),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "tensorflow": tf.__version__,
            "tensorflow_text": tf_text.__version__,
        },
    }


def _statistics(shards: Sequence[ShardSummary]) -> dict[str, Any]:
    names = dict.fromkeys(name for shard in shards for name in shard["counts"])
    total: dict[str, Any] = {
        name: sum(shard["counts"].get(name, 0) for shard in shards) for name in names
    }
    records, predictions = total.get("records", 0), total.get("predictions", 0)
    if records:
        total["mean_length"] = total["tokens"] / records
        total["random_next_share"] = total["random_next"] / records
    if predictions:
        total["predictions_per_token"] = predictions / total["tokens"]
        for outcome in ("masked", "random_token", "kept"):
            total[f"{outcome}_share"] = total[outcome] / predictions
    total["shards"] = [
        {"file": shard["file"], "records": shard["counts"]["records"], "bytes": shard["bytes"]}
        for shard in shards
    ]
    return total
