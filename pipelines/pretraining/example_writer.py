"""Writes examples: plans units of work, has them written, and seals the output by a manifest."""

import collections
import contextlib
import dataclasses
import functools
import platform
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from absl import logging
from tqdm import tqdm

from pipelines.common import files, locks, outputs, texts
from pipelines.common.errors import InputError, UnfinishedError
from pipelines.common.runners import LocalRunner, Runner, Workers
from pipelines.corpus import reader
from pipelines.pretraining import example_folder, units
from pipelines.pretraining.example_folder import BEGUN, MANIFEST, NEIGHBOURS, UNFINISHED
from pipelines.pretraining.settings import ExampleSettings, Objective, SequenceKind
from pipelines.pretraining.units import ExampleRequest, ShardSummary, UnitSummary, WorkUnit
from pipelines.tokenizers import coverage
from pipelines.tokenizers.base import Tokenizer

_MIN_DOCUMENTS_TO_HOLD_OUT = 20
_TEXT_COUNTS = tuple(
    "characters documents sentences tokens unknown_tokens one_sentence_documents "
    "held_out_documents".split()
)


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
    corpus = reader.open_corpus(request.corpus, request.file_format)
    if any(files.is_same(request.vocab, file.path) for file in corpus):
        raise InputError(
            f"{request.vocab}: the vocabulary is among the files of the corpus; move it to another "
            "folder, or name the files more precisely (--corpus)."
        )
    paths = [request.vocab, *(file.path for file in corpus)]
    inputs = [*paths, *(f"{path}.json" for path in paths)]  # with their manifests
    known = [f"{name}*" for name in NEIGHBOURS]
    outputs.check_folder(
        request.output, "examples", (MANIFEST, BEGUN), known, inputs, anywhere=True
    )
    tokens = units.load_tokenizer(request.vocab, request.tokenizer)
    _check_vocabulary(request, tokens)
    _warn_of_masks(request.settings)
    with (
        locks.held(request.output),
        runner.started(f"{request.output}/{UNFINISHED}/steps", units.__name__) as workers,
    ):
        return _write(request, corpus, tokens, workers)


def _check_vocabulary(request: ExampleRequest, tokens: Tokenizer) -> None:
    """Raises InputError if the objective, or the sequences, are not for a vocabulary."""
    settings = request.settings
    if settings.objective.hides and tokens.mask_id in (tokens.unknown_id, tokens.separator_id):
        raise InputError(
            f"{request.vocab}: has no mask token, which --objective={settings.objective} needs; it "
            "is for --objective=left_to_right."
        )
    is_stream = settings.sequences is SequenceKind.STREAM
    if settings.objective is Objective.LEFT_TO_RIGHT and is_stream == tokens.starts_text:
        has, other = ("a", "packed") if is_stream else ("no", "stream")
        raise InputError(
            f"{request.vocab}: with {has} token for the start of a text, --objective=left_to_right "
            f"has no sequences of --sequences={settings.sequences}; give --sequences={other}."
        )


def _warn_of_masks(settings: ExampleSettings) -> None:
    """Warns if there are fewer masks than the fraction of the tokens asks for."""
    objective = settings.objective
    wanted = round(settings.masked_lm_prob * settings.max_seq_length)
    masks = objective.hides and objective is not Objective.DENOISING
    if masks and wanted > settings.max_predictions_per_seq:
        logging.warning(
            "of %d tokens, %d are masked (--max_predictions_per_seq) and not %d "
            "(--masked_lm_prob=%s); for all of them give --max_predictions_per_seq=%d with another "
            "--output.",
            *(settings.max_seq_length, settings.max_predictions_per_seq, wanted),
            *(settings.masked_lm_prob, wanted),
        )


def _write(
    request: ExampleRequest, corpus: list[reader.CorpusFile], tokens: Tokenizer, workers: Workers
) -> dict[str, Any]:
    identity = {
        "settings": {**request.settings.describe(), **dataclasses.asdict(request.read)},
        "tokenizer": tokens.settings,
        "vocabulary_sha256": tokens.vocabulary.sha256,
        "inputs": [dataclasses.asdict(file) for file in corpus],
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
    try:
        summaries = _write_units(request, corpus, workers)
    except UnfinishedError:
        raise
    except InputError:  # other settings, or another corpus, may follow
        example_folder.withdraw(request.output)
        raise
    sha256 = {path: each for summary in summaries for path, each in summary["sha256"].items()}
    text = collections.Counter[str](dict.fromkeys(_TEXT_COUNTS, 0))
    for summary in summaries:
        text.update(summary["text"])
    shards = [shard for summary in summaries for shard in summary["shards"]]
    train, held_out = (
        _statistics([shard for shard in shards if shard["held_out"] == part])
        for part in (False, True)
    )
    refused = next((summary["refused"] for summary in summaries if summary["refused"]), "")
    refused = refused or _refusal_of_all(request.settings, text, train["records"])
    if refused:
        example_folder.withdraw(request.output)
        raise InputError(refused)
    result = {
        **identity,
        "inputs": [
            # A table without rows is in no unit.
            {**dataclasses.asdict(file), "sha256": sha256.get(file.path) or files.sha256(file.path)}
            for file in corpus
        ],
        "text": {**text, "unknown_fraction": text["unknown_tokens"] / text["tokens"]},
        "train": train,
        "held_out": held_out,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "tensorflow": tf.__version__,
            "tensorflow_text": tf_text.__version__,
        },
    }
    example_folder.finish(request.output, result)
    _warn(request, corpus, tokens, result)
    return result


def _write_units(
    request: ExampleRequest, corpus: list[reader.CorpusFile], workers: Workers
) -> list[UnitSummary]:
    """Writes all units; one summary, of a refusal, if no number of units suits the corpus.

    Long documents may leave a unit with too few of them, or all units without one to hold out;
    then there are half as many units.
    """
    pieces, count = units.plan(corpus)
    while True:
        work = [WorkUnit(i, count, tuple(pieces[i::count])) for i in range(count)]
        if request.settings.deduplicate:
            work = units.distinct(request, work, workers)
        summaries: dict[int, UnitSummary] = {}
        records = 0
        total = sum(file.size for file in corpus)
        function = functools.partial(units.write_unit, request)
        with (
            contextlib.closing(workers.map(function, work)) as results,
            tqdm(total=total, desc="write", unit="B", unit_scale=True) as bar,
        ):
            for unit, summary in results:
                summaries[unit.index] = summary
                if summary["refused"]:
                    break
                records += sum(shard["counts"]["records"] for shard in summary["shards"])
                rate = records / max(bar.format_dict["elapsed"], 1e-3)
                bar.set_postfix_str(f"{records:,} examples, {rate:,.0f}/s", refresh=False)
                bar.update(total * len(summaries) // count - bar.n)
        finished = [summaries[index] for index in sorted(summaries)]
        missing = request.settings.held_out_fraction and not any(
            shard["held_out"] for summary in finished for shard in summary["shards"]
        )
        if not summary["refused"] and not missing:
            return finished
        if count == 1:
            return [summary]
        count //= 2


def _refusal_of_all(settings: ExampleSettings, text: Mapping[str, int], records: int) -> str:
    """Why no examples can be made of a corpus; empty: they can."""
    documents = text["documents"]
    if not documents:
        return "the corpus has no text: no document has a token."
    if settings.held_out_fraction and documents < _MIN_DOCUMENTS_TO_HOLD_OUT:
        return (
            f"the corpus has {texts.counted(documents, 'document')}; to hold some out for "
            f"evaluation, at least {_MIN_DOCUMENTS_TO_HOLD_OUT} are needed. Use "
            "--held_out_fraction=0, or check the format (--format)."
        )
    if not records:
        return (
            f"the corpus has {text['tokens']:,} tokens, which do not fill one sequence of "
            f"--max_seq_length={settings.max_seq_length}; use a smaller one, or more text."
        )
    return ""


def _statistics(shards: Iterable[ShardSummary]) -> dict[str, Any]:
    counts = collections.Counter[str](dict.fromkeys(units.EXAMPLE_COUNTS, 0))
    for shard in shards:
        counts.update(shard["counts"])
    total: dict[str, Any] = dict(counts)
    records, predictions = counts["records"], counts["predictions"]
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


def _warn(
    request: ExampleRequest,
    corpus: list[reader.CorpusFile],
    tokens: Tokenizer,
    result: dict[str, Any],
) -> None:
    """Warns of a vocabulary or an objective that does not suit the text."""
    text = result["text"]
    coverage.warn_of_lost_tokens(tokens, request.vocab)
    coverage.warn_of_unknown(
        tokens,
        *(text["unknown_tokens"], text["tokens"]),
        coverage.sample(corpus, request.read),
        request.corpus,
    )
    single, documents = text["one_sentence_documents"], text["documents"]
    held_out, fraction = text["held_out_documents"], request.settings.held_out_fraction
    if 2 * held_out < fraction * documents:  # where units have few, some are alone and left out
        logging.warning(
            "%d of %d documents are held out, fewer than half of --held_out_fraction=%s: most "
            "parts of the corpus have none, or only one without another to make pairs with. For "
            "more examples of evaluation use a larger fraction with another --output.",
            *(held_out, documents, fraction),
        )
    if request.settings.objective is Objective.MLM_NSP and 2 * single > documents:
        logging.warning(
            "%d of %d documents have one sentence, which has no next one: in %.0f %% of the "
            "examples the next sentence is random, so that there is little to learn from it. Use "
            "--objective=mlm with another --output, or check the format (--format).",
            *(single, documents, 100 * result["train"]["random_next_fraction"]),
        )
