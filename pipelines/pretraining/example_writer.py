"""The example writer: tokenize, plan, write, resume; a runner says where."""

import dataclasses
import functools
from typing import Any

from absl import logging
from tqdm import tqdm

from pipelines.common import files, locks, outputs
from pipelines.common.runners import LocalRunner, Runner, Workers
from pipelines.corpus import reader
from pipelines.pretraining import example_folder, makers, token_store
from pipelines.pretraining.example_folder import BEGUN, MANIFEST, NEIGHBOURS
from pipelines.pretraining.settings import ExampleSettings, SequenceKind
from pipelines.pretraining.sharding import (
    UNFINISHED,
    Plan,
    Shard,
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
    """What to write, from what, to where.

    Attributes:
      input: globs of the corpus.
      vocab: a vocabulary's file or folder.
      output: folder to write to.
      settings: of the examples.
      file_format: of the corpus.
      read: how it is read.
      tokenizer: settings of the tokenizer that were chosen, by name; for others the
        vocabulary tells.
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
    """The tokenizer of a vocabulary, once a process."""
    return registry.load_tokenizer(vocab, dict(settings))


def write(request: ExampleRequest, runner: Runner | None = None) -> dict[str, Any]:
    """Writes TFRecords, the vocabulary and, when all is whole, `manifest.json`.

    The bytes depend on the request and the input files only. A finished
    output is left as it is, a half-finished one is gone on with.

    Args:
      request: what to write.
      runner: who does the work; None: processes of this machine, one for each core.

    Returns:
      The manifest.

    Raises:
      InputError: bad input, or an output folder that is made with other settings, holds something
        else, or is being written.
    """
    request.settings.check()
    runner = runner or LocalRunner()
    tokens = _load_tokenizer(request.vocab, request.tokenizer)
    corpus_files = reader.open_corpus(request.input, request.file_format)
    paths = [request.vocab, *(file.path for file in corpus_files)]
    inputs = [*paths, *(f"{path}.json" for path in paths)]  # with what says how they were made
    known = [f"{name}*" for name in NEIGHBOURS]
    outputs.check_folder(
        request.output, "examples", (MANIFEST, BEGUN), known, inputs, anywhere=True
    )
    with (
        locks.held(request.output),
        runner.started(f"{request.output}/{UNFINISHED}/steps", __name__) as workers,
    ):
        return _write(request, corpus_files, tokens, workers)


def _write(
    request: ExampleRequest,
    corpus_files: list[reader.CorpusFile],
    tokens: Tokenizer,
    workers: Workers,
) -> dict[str, Any]:
    identity = _identity(request, corpus_files, tokens, workers)
    finished = example_folder.finished_manifest(request.output, identity)
    if finished is not None:
        files.remove_tree(f"{request.output}/{UNFINISHED}")  # a kill may have left it
        logging.info("%s is complete; nothing to do.", request.output)
        return finished
    files.gfile.makedirs(f"{request.output}/{UNFINISHED}")
    tokens.vocabulary.save(request.output)
    summaries = _tokenize(workers, request, corpus_files)
    chunks = [summary["chunks"] for summary in summaries]
    store = _store(request, chunks, len(tokens.vocabulary))
    plan = plan_shards(store.index(), request.settings)
    shards = _write_shards(workers, request, chunks, plan)
    _remove_left_behind(request.output)
    result = example_folder.make_manifest(identity, summaries, plan, shards)
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
    if request.settings.sequence_kind is SequenceKind.PAIRS and 2 * single > documents:
        logging.warning(
            "%d of %d documents have one sentence, which has no next one: in %.0f %% of the "
            "examples the next sentence is random, so that there is little to learn from it. Use "
            "--objective=mlm, or check the format (--format).",
            *(single, documents, 100 * result["train"]["random_next_share"]),
        )


def _remove_left_behind(output: str) -> None:
    """Removes what lost workers began to write where nobody can tell so when it is done again."""
    for pattern in files.LEFT_BEHIND:
        for path in files.matching(output, f"*.tfrecord{pattern.removeprefix('*')}"):
            files.gfile.remove(path)


def _identity(
    request: ExampleRequest,
    corpus_files: list[reader.CorpusFile],
    tokens: Tokenizer,
    workers: Workers,
) -> dict[str, Any]:
    """All that decides the bytes written, as JSON values."""
    return {
        "settings": {**request.settings.describe(), **dataclasses.asdict(request.read)},
        "tokenizer": tokens.settings,
        "vocabulary_sha256": tokens.vocabulary.sha256,
        "inputs": reader.identities(corpus_files, workers),
    }


def _tokenize(
    workers: Workers, request: ExampleRequest, corpus_files: list[reader.CorpusFile]
) -> list[RangeSummary]:
    ranges = plan_corpus(corpus_files)
    summaries: dict[int, RangeSummary] = {}
    function = functools.partial(_tokenize_range, request)
    total = sum(summary.size for summary in corpus_files)
    with tqdm(total=total, desc="tokenize", unit="B", unit_scale=True) as bar:
        for (index, file_range), summary in workers.map(function, list(enumerate(ranges))):
            summaries[index] = summary
            whole = corpus_files[file_range.file_index].size
            bar.update((file_range.end if file_range.end >= 0 else whole) - file_range.start)
    return [summaries[index] for index in range(len(ranges))]


def _tokenize_range(request: ExampleRequest, item: tuple[int, reader.FileRange]) -> RangeSummary:
    index, file_range = item
    tokens = _load_tokenizer(request.vocab, request.tokenizer)
    folder = f"{request.output}/{UNFINISHED}"
    return token_store.tokenize_range(
        folder, index, file_range, request.read, tokens, request.settings.seed
    )


def _store(request: ExampleRequest, chunks: list[int], vocab_size: int) -> token_store.TokenStore:
    return token_store.TokenStore(f"{request.output}/{UNFINISHED}", chunks, vocab_size)


def _write_shards(
    workers: Workers, request: ExampleRequest, chunks: list[int], plan: Plan
) -> list[ShardSummary]:
    summaries = {}
    with tqdm(total=len(plan.shards), desc="write", unit="shard") as bar:
        records = 0
        function = functools.partial(_write_shard, request, chunks, plan.held_out_end)
        for shard, summary in workers.map(function, plan.shards):
            summaries[shard.index] = summary
            records += summary["records"]
            rate = records / max(bar.format_dict["elapsed"], 1e-3)
            bar.set_postfix_str(f"{records:,} examples, {rate:,.0f}/s", refresh=False)
            bar.update()
    return [summaries[shard.index] for shard in plan.shards]


def _write_shard(
    request: ExampleRequest,
    chunks: list[int],
    held_out_end: int,
    shard: Shard,
) -> ShardSummary:
    finished = finished_summary(request.output, shard)
    if finished is not None:
        return finished
    tokens = _load_tokenizer(request.vocab, request.tokenizer)
    store = _store(request, chunks, len(tokens.vocabulary))
    maker = makers.make(request.settings, tokens)
    return write_shard(request.output, shard, held_out_end, store, maker)
