"""Writes examples: tokenizes a corpus, plans shards, writes them; resumes where it was stopped."""

import collections
import dataclasses
import functools
import platform
from collections.abc import Iterable, Mapping, Sequence
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
from pipelines.pretraining.section_files import SectionFile, TokenStore
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

_UNITS_PER_PART = 1 << 22  # that are deduplicated at a time, unless that makes too many files


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
    if any(files.is_same(request.vocab, file.path) for file in corpus_files):
        raise InputError(
            f"{request.vocab}: the vocabulary is among the files of the corpus; move it to another "
            "folder, or name the files more precisely (--input)."
        )
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
    if Objective(settings.objective).hides and tokens.mask_id in (
        tokens.unknown_id,
        tokens.separator_id,
    ):
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
    finished = example_folder.finished_manifest(request.output, identity, tokens.vocabulary)
    if finished is not None:
        names = (f"{request.output}/{name}" for name in tokens.vocabulary.files)
        if not all(map(files.gfile.exists, names)):
            tokens.vocabulary.save(request.output)
        files.remove_tree(f"{request.output}/{UNFINISHED}")  # a killed command may have left it
        logging.info("%s is complete; nothing to do.", request.output)
        return finished
    files.gfile.makedirs(f"{request.output}/{UNFINISHED}")
    tokens.vocabulary.save(request.output)
    text = _tokenized(workers, request, corpus_files)
    store, counts = _store(request, text["files"]), text["counts"]
    if request.settings.deduplicate and store.files:
        store, distinct = _deduplicated(workers, store)
        repeated = {f"duplicate_{name}": counts[name] - count for name, count in distinct.items()}
        text["counts"], counts = counts | repeated, counts | distinct
    try:
        plan = plan_shards(counts, store, request.settings, workers)
    except InputError:
        example_folder.withdraw(request.output)
        raise
    shards = _write_shards(workers, request, store, plan)
    # Lost workers may have begun files on file systems where this is noticed only now.
    for pattern in files.LEFT_BEHIND:
        for path in files.matching(request.output, f"*.tfrecord{pattern.removeprefix('*')}"):
            files.gfile.remove(path)
    result = _manifest(identity, text["counts"], plan, shards)
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
    single, documents = (
        text[name] - text.get(f"duplicate_{name}", 0)
        for name in ("one_sentence_documents", "documents")
    )
    if request.settings.objective is Objective.MLM_NSP and 2 * single > documents:
        logging.warning(
            "%d of %d documents have one sentence, which has no next one: in %.0f %% of the "
            "examples the next sentence is random, so that there is little to learn from it. Use "
            "--objective=mlm, or check the format (--format).",
            *(single, documents, 100 * result["train"]["random_next_fraction"]),
        )


def _tokenized(
    workers: Workers, request: ExampleRequest, corpus_files: list[reader.CorpusFile]
) -> token_store.TokenizedText:
    """Tokenizes the corpus into at most `MAX_FILES` files, merged again and again if need be."""
    store = _store(request)
    text = token_store.saved(store) or _tokenize(workers, request, corpus_files)
    while len(text["files"]) > token_store.MAX_FILES:
        token_store.save(store, text)
        text = {**text, "files": _merge(workers, store, text["files"])}
    return text


def _tokenize(
    workers: Workers, request: ExampleRequest, corpus_files: list[reader.CorpusFile]
) -> token_store.TokenizedText:
    ranges = plan_corpus(corpus_files)
    summaries: dict[int, RangeSummary] = {}
    function = functools.partial(_tokenize_range, request)
    total = sum(file.size for file in corpus_files)
    count = collections.Counter(each.file_index for each in ranges)
    with tqdm(total=total, desc="tokenize", unit="B", unit_scale=True) as bar:
        for (index, file_range), summary in workers.map(function, list(enumerate(ranges))):
            summaries[index] = summary
            bar.update(corpus_files[file_range.file_index].size / count[file_range.file_index])
    in_order = [summaries[index] for index in range(len(ranges))]
    return {
        "files": [file for summary in in_order for file in summary["files"]],
        "counts": {
            name: sum(summary["counts"][name] for summary in in_order)
            for name in token_store.TEXT_COUNTS
        },
    }


def _tokenize_range(request: ExampleRequest, item: tuple[int, reader.FileRange]) -> RangeSummary:
    index, file_range = item
    tokens = _load_tokenizer(request.vocab, request.tokenizer)
    return token_store.tokenize_range(
        _store(request), index, file_range, request.read, tokens, request.settings
    )


def _store(request: ExampleRequest, found: Iterable[SectionFile] = ()) -> TokenStore:
    tokens = _load_tokenizer(request.vocab, request.tokenizer)
    return TokenStore(f"{request.output}/{UNFINISHED}", len(tokens.vocabulary), tuple(found))


def _merge(workers: Workers, store: TokenStore, found: list[SectionFile]) -> list[SectionFile]:
    merged = {}
    groups = token_store.groups(found)
    with tqdm(total=len(groups), desc="merge", unit="file") as bar:
        for group, file in workers.map(store.merge, groups):
            merged[group[0]["name"]] = file
            bar.update()
    return [merged[group[0]["name"]] for group in groups]


def _deduplicated(workers: Workers, store: TokenStore) -> tuple[TokenStore, dict[str, int]]:
    """The store without repeated documents, and statistics of what is left (of TEXT_COUNTS)."""
    units = sum(file["units"] for file in store.files)
    count = min(token_store.MAX_FILES, 1 + units // _UNITS_PER_PART)
    parts = [(index, count) for index in range(count)]
    found = {}
    with tqdm(total=count, desc="deduplicate", unit="file") as bar:
        for part, result in workers.map(store.deduplicate, parts):
            found[part] = result
            bar.update()
    counts = collections.Counter[str]()
    for _, numbers in found.values():
        counts.update(numbers)
    distinct = tuple(found[part][0] for part in parts)
    return dataclasses.replace(store, files=distinct), dict(counts)


def _write_shards(
    workers: Workers, request: ExampleRequest, store: TokenStore, plan: ShardPlan
) -> list[ShardSummary]:
    summaries = {}
    with tqdm(total=len(plan.shards), desc="write", unit="shard") as bar:
        records = 0
        function = functools.partial(_write_shard, request, store, plan.held_out_end)
        for shard, summary in workers.map(function, plan.shards):
            summaries[shard.index] = summary
            records += summary["counts"]["records"]
            rate = records / max(bar.format_dict["elapsed"], 1e-3)
            bar.set_postfix_str(f"{records:,} examples, {rate:,.0f}/s", refresh=False)
            bar.update()
    return [summaries[shard.index] for shard in plan.shards]


def _write_shard(
    request: ExampleRequest, store: TokenStore, held_out_end: int, shard: Shard
) -> ShardSummary:
    finished = finished_summary(request.output, shard)
    if finished is not None:
        return finished
    tokens = _load_tokenizer(request.vocab, request.tokenizer)
    documents = store.read(shard.low, shard.high, held_out_end, shard.held_out)
    return write_shard(request.output, shard, documents, makers.make(request.settings, tokens))


def _manifest(
    identity: dict[str, Any],
    counts: Mapping[str, int],
    plan: ShardPlan,
    shards: Sequence[ShardSummary],
) -> dict[str, Any]:
    """Returns the manifest with statistics; raises InputError if there are no training examples."""
    text: dict[str, float] = {**counts, "held_out_documents": plan.held_out_documents}
    text["unknown_fraction"] = text["unknown_tokens"] / text["tokens"]
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
        total["random_next_fraction"] = total["random_next"] / records
    if predictions:
        total["predictions_per_token"] = predictions / total["tokens"]
        for outcome in ("masked", "random_token", "kept"):
            total[f"{outcome}_fraction"] = total[outcome] / predictions
    total["shards"] = [
        {"file": shard["file"], "records": shard["counts"]["records"], "bytes": shard["bytes"]}
        for shard in shards
    ]
    return total
