"""Runs the example writer on this machine: tokenize, plan, write, resume."""

import dataclasses
import functools
import glob
import platform
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from absl import logging
from tqdm import tqdm

from pipelines.common import cleaning, files, json_files, locks, manifest, outputs, process_pool
from pipelines.common.errors import InputError
from pipelines.corpus import reader
from pipelines.pretraining import sharding, token_store
from pipelines.tokenizers import vocabulary
from pipelines.tokenizers.wordpiece import BertTokenizer

MANIFEST = "manifest.json"
VOCABULARY = "vocab.txt"
# What other steps put into the same folder (see the Makefile), each with a manifest beside it.
_NEIGHBOURS = ("builtin_corpus.txt", "learned_vocab.txt")
_BEGUN = f"{sharding.UNFINISHED}/identity.json"
_SUMMED = (
    "characters",
    "documents",
    "sentences",
    "tokens",
    "unknown_tokens",
    "one_sentence_documents",
)
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class ShardEntry(TypedDict):
    """A file of examples."""

    file: str
    records: _Count
    bytes: _Count


class Part(TypedDict):
    """The training or the held-out examples; statistics besides."""

    shards: list[ShardEntry]
    records: NotRequired[_Count]
    random_next_share: NotRequired[float]


class SettingsEntry(TypedDict):
    """The settings that readers need; others besides."""

    objective: sharding.Objective
    max_seq_length: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
    max_predictions_per_seq: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class InputEntry(TypedDict):
    """A file that examples were made of."""

    path: str
    sha256: str


class Manifest(TypedDict):
    """What a folder of examples says of itself; statistics besides."""

    settings: SettingsEntry
    segments: NotRequired[_Count]  # of adopted examples; of ours, what the objective has
    tokenizer: dict[str, bool]
    vocabulary_sha256: str
    inputs: list[InputEntry]
    train: Part
    held_out: Part


@dataclasses.dataclass(frozen=True)
class ExampleRequest:
    """What to write, from what, to where.

    `lower_case` None: uncased unless the vocabulary has capital letters.
    `strip_accents` None: as `lower_case`.
    """

    input: str
    vocab: str
    output: str
    settings: sharding.ExampleSettings = sharding.ExampleSettings()
    file_format: str = "auto"
    read: reader.ReadOptions = reader.ReadOptions()
    lower_case: bool | None = None
    strip_accents: bool | None = None


def write(request: ExampleRequest, worker_count: int | None = None) -> dict[str, Any]:
    """Writes TFRecords, `vocab.txt` and, when all is whole, `manifest.json`.

    The bytes depend on the request and the input files only. A finished
    output is left as it is, a half-finished one is gone on with.

    Args:
      request: what to write.
      worker_count: processes; None: one for each core.

    Returns:
      The manifest.

    Raises:
      InputError: bad input, or an output folder that is made with other settings, holds something
        else, or is being written.
    """
    request.settings.check()
    worker_count = process_pool.check_count(worker_count)
    tokens = sharding.load_tokenizer(request.vocab, request.lower_case, request.strip_accents)
    sharding.check_vocabulary_ids(tokens)
    corpus_files = reader.open_corpus(request.input, request.file_format)
    identity = _identity(request, corpus_files, tokens)
    paths = [request.vocab, *(file.path for file in corpus_files)]
    inputs = [*paths, *(f"{path}.json" for path in paths)]  # with what says how they were made
    known = [f"{name}*" for name in _NEIGHBOURS]
    outputs.check_folder(request.output, "examples", (MANIFEST, _BEGUN), known, inputs)
    with locks.held(request.output):
        return _write(request, corpus_files, tokens, identity, worker_count)


def _write(
    request: ExampleRequest,
    corpus_files: list[reader.CorpusFile],
    tokens: BertTokenizer,
    identity: dict[str, Any],
    worker_count: int,
) -> dict[str, Any]:
    finished = _manifest_of(request.output, identity)
    if finished is not None:
        files.remove_tree(f"{request.output}/{sharding.UNFINISHED}")  # a kill may have left it
        logging.info("%s is complete; nothing to do.", request.output)
        return finished
    files.gfile.makedirs(f"{request.output}/{sharding.UNFINISHED}")
    vocabulary.save(tokens.vocabulary, f"{request.output}/{VOCABULARY}")
    with process_pool.pool(worker_count, __name__) as run:
        summaries = _tokenize(run, request, corpus_files)
        chunks = [summary["chunks"] for summary in summaries]
        store = _store(request, chunks, len(tokens.vocabulary))
        plan = sharding.plan_shards(store.index(), request.settings)
        shards = _write_shards(run, request, chunks, plan)
    result = _manifest(identity, summaries, plan, shards)
    json_files.write(f"{request.output}/{MANIFEST}", result)
    files.remove_tree(f"{request.output}/{sharding.UNFINISHED}")
    return result


def read_manifest(folder: str) -> Manifest:
    """Reads the manifest of a finished output folder.

    Raises:
      InputError: there is none, it is damaged, or names files elsewhere.
    """
    path = f"{folder}/{MANIFEST}"
    if not files.gfile.exists(path):
        raise InputError(
            f"{path}: no such file; write the examples first (python -m bert_tf write-examples)."
        )
    found = json_files.read(path, Manifest)
    for shard in (*found["train"]["shards"], *found["held_out"]["shards"]):
        files.inside(folder, shard["file"], path)
    return found


def remove(folder: str) -> None:
    """Removes the examples of a folder, and the corpus and vocabulary that were made there.

    Raises:
      InputError: another process writes there.
    """
    if not files.gfile.isdir(folder):
        cleaning.nothing_to_do(folder, MANIFEST)
        return
    with locks.held(folder):
        _remove(folder)


def _remove(folder: str) -> None:
    marked = [name for name in _NEIGHBOURS if files.gfile.exists(f"{folder}/{name}.json")]
    patterns = [name for stem in marked for name in (stem, f"{stem}.json")]
    if files.gfile.exists(f"{folder}/{MANIFEST}"):
        found = read_manifest(folder)
        patterns += [MANIFEST]
        if "text" in found:  # else the files are another program's, and were adopted
            shards = (*found["train"]["shards"], *found["held_out"]["shards"])
            patterns += [glob.escape(shard["file"]) for shard in shards]
            patterns += [VOCABULARY, sharding.UNFINISHED]
    elif files.gfile.exists(f"{folder}/{_BEGUN}"):
        patterns += ["train-*.tfrecord", "held_out-*.tfrecord", sharding.UNFINISHED]
        patterns += [VOCABULARY]
    if not patterns:
        cleaning.nothing_to_do(folder, MANIFEST)
        return
    cleaning.remove(folder, [*patterns, *files.LEFT_BEHIND])


def _identity(
    request: ExampleRequest, corpus_files: list[reader.CorpusFile], tokens: BertTokenizer
) -> dict[str, Any]:
    """All that decides the bytes written, as JSON values."""
    bar = tqdm(corpus_files, desc="checksums", unit="file", leave=False)
    return {
        "settings": {**dataclasses.asdict(request.settings), **dataclasses.asdict(request.read)},
        "tokenizer": tokens.settings,
        "vocabulary_sha256": tokens.sha256,
        "inputs": list(map(reader.identity, bar)),
    }


def _manifest_of(output: str, identity: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest, if the output is complete; checks that it, or what is begun, is the same."""
    complete = f"{output}/{MANIFEST}"
    begun = f"{output}/{_BEGUN}"
    for path in (complete, begun):
        if files.gfile.exists(path):
            found = json_files.read(path, dict[str, Any])
            other = manifest.difference(found, identity)
            if other:
                raise InputError(
                    f"{output}: was made with other {other}. Name another output folder, or "
                    "remove this one."
                )
            return found if path == complete else None
    json_files.write(begun, identity)
    return None


def _tokenize(
    run: Any, request: ExampleRequest, corpus_files: list[reader.CorpusFile]
) -> list[dict[str, Any]]:
    ranges = sharding.plan_corpus(corpus_files)
    summaries: dict[int, dict[str, Any]] = {}
    function = functools.partial(_tokenize_range, request)
    total = sum(summary.size for summary in corpus_files)
    with tqdm(total=total, desc="tokenize", unit="B", unit_scale=True) as bar:
        for (index, file_range), summary in run(function, list(enumerate(ranges))):
            summaries[index] = summary
            whole = corpus_files[file_range.file_index].size
            bar.update((file_range.end if file_range.end >= 0 else whole) - file_range.start)
    return [summaries[index] for index in range(len(ranges))]


def _tokenize_range(request: ExampleRequest, item: tuple[int, reader.FileRange]) -> dict[str, Any]:
    index, file_range = item
    tokens = sharding.load_tokenizer(request.vocab, request.lower_case, request.strip_accents)
    folder = f"{request.output}/{sharding.UNFINISHED}"
    return token_store.tokenize_range(
        folder, index, file_range, request.read, tokens, request.settings.seed
    )


def _store(request: ExampleRequest, chunks: list[int], vocab_size: int) -> token_store.TokenStore:
    return token_store.TokenStore(f"{request.output}/{sharding.UNFINISHED}", chunks, vocab_size)


def _write_shards(
    run: Any, request: ExampleRequest, chunks: list[int], plan: sharding.Plan
) -> list[dict[str, Any]]:
    summaries = {}
    with tqdm(total=len(plan.shards), desc="write", unit="shard") as bar:
        records = 0
        function = functools.partial(_write_shard, request, chunks, plan.held_out_keys)
        for shard, summary in run(function, plan.shards):
            summaries[shard.index] = summary
            records += summary["records"]
            rate = records / max(bar.format_dict["elapsed"], 1e-3)
            bar.set_postfix_str(f"{records:,} examples, {rate:,.0f}/s", refresh=False)
            bar.update()
    return [summaries[shard.index] for shard in plan.shards]


def _write_shard(
    request: ExampleRequest,
    chunks: list[int],
    held_out_keys: tuple[int, ...],
    shard: sharding.Shard,
) -> dict[str, Any]:
    finished = sharding.finished_summary(request.output, shard)
    if finished is not None:
        return finished
    tokens = sharding.load_tokenizer(request.vocab, request.lower_case, request.strip_accents)
    store = _store(request, chunks, len(tokens.vocabulary))
    return sharding.write_shard(
        request.output, shard, held_out_keys, store, request.settings, tokens
    )


def _manifest(
    identity: dict[str, Any],
    ranges: list[dict[str, Any]],
    plan: sharding.Plan,
    shards: list[dict[str, Any]],
) -> dict[str, Any]:
    text = {key: sum(summary[key] for summary in ranges) for key in _SUMMED}
    text["held_out_documents"] = len(plan.held_out_keys)
    text["unknown_share"] = text["unknown_tokens"] / text["tokens"]
    return {
        **identity,
        "text": text,
        "train": _summary([shard for shard in shards if not shard["held_out"]]),
        "held_out": _summary([shard for shard in shards if shard["held_out"]]),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "tensorflow": tf.__version__,
            "tensorflow_text": tf_text.__version__,
        },
    }


def _summary(shards: list[dict[str, Any]]) -> dict[str, Any]:
    total = {
        key: sum(shard[key] for shard in shards)
        for key in (shards[0] if shards else ())
        if key not in ("file", "held_out", "bytes")
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
        {key: shard[key] for key in ("file", "records", "bytes")} for shard in shards
    ]
    return total
