"""TFRecords of google-research/bert or Model Garden, taken over as they are."""

from typing import Any

from pipelines.common import files, locks, manifest
from pipelines.common.errors import InputError
from pipelines.pretraining import example_folder, example_reader
from pipelines.pretraining.settings import ExampleSettings, Objective
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Tokenizer


def adopt(folder: str, pattern: str, tokens: Tokenizer) -> dict[str, Any]:
    """Checks the files and writes the manifest; returns it.

    Args:
      folder: where the files are.
      pattern: a glob within the folder.
      tokens: the tokenizer that the ids are of.

    Raises:
      InputError: a file is damaged, foreign, or has ids beyond the vocabulary; or the folder has
        a manifest, or another vocabulary.
    """
    if not files.gfile.isdir(folder):
        raise InputError(f"{folder}: no such folder; name that of the files (--tfrecords).")
    with locks.held(folder):
        return _adopt(folder, pattern, tokens)


def _adopt(folder: str, pattern: str, tokens: Tokenizer) -> dict[str, Any]:
    if files.gfile.exists(f"{folder}/{example_folder.MANIFEST}"):
        raise InputError(f"{folder}: has a {example_folder.MANIFEST} already.")
    there = registry.find(folder)
    if there not in (None, tokens.vocabulary):
        raise InputError(
            f"{folder}/{there.files[0]}: is another vocabulary than that named (--vocab); move it "
            "away if it is not that of the files."
        )
    paths = files.matching(folder, pattern)
    if not paths:
        raise InputError(f"{folder}: has no file like {pattern}; name them with --pattern.")
    found, segments = example_reader.open_foreign(paths, len(tokens.vocabulary))
    sizes = {name: size for name, size, _ in found.features}
    settings = ExampleSettings(
        objective=_objective(found.names, folder),
        max_seq_length=found.max_seq_length,
        max_predictions_per_seq=sizes.get("masked_lm_positions", 1),
    )
    tokens.vocabulary.save(folder)
    shards = [
        {
            "file": path.rsplit("/", 1)[-1],
            "records": records,
            "bytes": files.gfile.stat(path).length,
        }
        for path, records in zip(found.paths, found.records, strict=True)
    ]
    described = {
        "settings": {
            "objective": settings.objective,
            "max_seq_length": settings.max_seq_length,
            "max_predictions_per_seq": settings.max_predictions_per_seq,
        },
        "segments": segments,
        "tokenizer": tokens.settings,
        "vocabulary_sha256": tokens.vocabulary.sha256,
        "inputs": [{"path": path, "sha256": files.sha256(path)} for path in found.paths],
        "train": {"records": found.total, "shards": shards},
        "held_out": {"shards": []},
    }
    manifest.write_sealed(f"{folder}/{example_folder.MANIFEST}", described)
    return described


def _objective(names: frozenset[str], folder: str) -> Objective:
    masked = {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
    if not masked & names:
        return Objective.LEFT_TO_RIGHT
    if not masked <= names:
        raise InputError(f"{folder}: the records lack {', '.join(sorted(masked - names))}.")
    if "next_sentence_labels" in names:
        return Objective.MLM_NSP
    return Objective.MLM
