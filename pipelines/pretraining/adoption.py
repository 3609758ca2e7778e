"""Adopts TFRecords of google-research/bert or Model Garden as a folder of examples."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pipelines.common import files, locks, manifest
from pipelines.common.errors import InputError
from pipelines.pretraining import example_folder, example_reader
from pipelines.pretraining.example_reader import ExampleFiles
from pipelines.pretraining.settings import ExampleSettings, Objective
from pipelines.tokenizers import registry
from pipelines.tokenizers.base import Tokenizer

_MAX_SEGMENTS = 1 << 16


def adopt(folder: str, pattern: str, tokens: Tokenizer) -> dict[str, Any]:
    """Checks the files of a pattern, and writes the manifest and vocabulary; returns the manifest.

    Raises:
      InputError: a file is damaged or not of examples, or has ids beyond the vocabulary; or the
        folder has a manifest, or another vocabulary.
    """
    if not files.gfile.isdir(folder):
        raise InputError(f"{folder}: no such folder; name that of the files (--tfrecords).")
    with locks.held(folder):
        return _adopt(folder, pattern, tokens)


def _adopt(folder: str, pattern: str, tokens: Tokenizer) -> dict[str, Any]:
    if files.gfile.exists(f"{folder}/{example_folder.MANIFEST}"):
        raise InputError(f"{folder}: already has a {example_folder.MANIFEST}.")
    there = registry.find(folder)
    if there not in (None, tokens.vocabulary):
        raise InputError(
            f"{folder}/{there.files[0]}: is another vocabulary than that named (--vocab); move it "
            "away if it is not that of the files."
        )
    paths = files.matching(folder, pattern)
    if not paths:
        raise InputError(f"{folder}: has no file like {pattern}; name them with --pattern.")
    found, segments = open_foreign(paths, len(tokens.vocabulary))
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


def open_foreign(paths: Sequence[str], vocab_size: int) -> tuple[ExampleFiles, int]:
    """Opens TFRecord files of google-research/bert or Model Garden, and checks every record.

    Returns the files, and the number of segments of their sequences.

    Raises:
      InputError: a file is damaged, has no examples, or has a value that no model accepts, such as
        an id that is not below `vocab_size`.
    """
    records = [example_reader.count_records(path) for path in paths]
    filled = next((path for path, count in zip(paths, records, strict=True) if count), paths[0])
    examples = ExampleFiles(tuple(paths), tuple(records), example_reader.features_of(filled))
    return examples, max(_check_values(path, examples, vocab_size) for path in paths)


def _check_values(path: str, examples: ExampleFiles, vocab_size: int) -> int:
    """Checks the values of all records of a file; returns the number of segments."""
    tokens = f"the vocabulary has {vocab_size} tokens. Use the one that the file was made with."
    limits = {
        **dict.fromkeys(("input_word_ids", "masked_lm_ids"), (vocab_size, tokens)),
        "masked_lm_positions": (examples.max_seq_length, "sequences are shorter."),
        "input_type_ids": (_MAX_SEGMENTS, f"there may be at most {_MAX_SEGMENTS} segments."),
        **dict.fromkeys(("input_mask", "next_sentence_labels"), (2, "it is 0 or 1.")),
    }
    first, segments = 0, 1
    for batch in tf.data.TFRecordDataset(path).batch(1024):
        try:
            parsed = example_reader.parse(batch, examples)
        except tf.errors.InvalidArgumentError as error:
            raise InputError(
                f"{path}: a record from {first} on is not like the first one ({error.message})."
            ) from error
        for name, (limit, reason) in limits.items():
            if name not in parsed:
                continue
            values = parsed[name].numpy().reshape(len(batch), -1)
            bad = (values < 0) | (values >= limit)
            if bad.any():
                row = int(bad.any(axis=1).argmax())
                raise InputError(
                    f"{path}: record {first + row}: {name} has {values[row][bad[row]][0]}, but "
                    f"{reason}"
                )
        segments = max(segments, 1 + int(parsed["input_type_ids"].numpy().max()))
        first += len(parsed["input_mask"])
    return segments
