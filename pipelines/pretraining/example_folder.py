"""A folder of examples: what its manifest says, and how it is removed."""

import glob
import platform
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict, get_args

import msgspec
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from absl import logging

from pipelines.common import cleaning, files, locks, manifest
from pipelines.common.errors import InputError
from pipelines.pretraining.makers import MAKERS
from pipelines.pretraining.settings import ExampleSettings, Masking, Objective, SequenceKind
from pipelines.pretraining.sharding import UNFINISHED, Plan, ShardSummary, is_whole
from pipelines.pretraining.token_store import RangeSummary
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import Vocabulary

MANIFEST = "manifest.json"
# What was begun, until all is written.
BEGUN = f"{UNFINISHED}/identity.json"
# What other steps put into the same folder (see the Makefile), each with a manifest beside it.
NEIGHBOURS = ("builtin_corpus.txt", "learned_vocab.txt")
_Summed = Literal[
    "characters",
    "documents",
    "sentences",
    "tokens",
    "unknown_tokens",
    "one_sentence_documents",
]
_SUMMED: tuple[_Summed, ...] = get_args(_Summed)
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

    objective: Objective
    max_seq_length: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
    max_predictions_per_seq: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
    masked_lm_prob: NotRequired[float]
    sequences: NotRequired[SequenceKind]
    masking: NotRequired[Masking]
    mask_share: NotRequired[float]
    random_share: NotRequired[float]


class InputEntry(TypedDict):
    """A file that examples were made of."""

    path: str
    sha256: str


class Manifest(TypedDict):
    """What a folder of examples says of itself; statistics besides."""

    settings: SettingsEntry
    segments: NotRequired[_Count]  # of adopted examples; of ours, what their maker has
    tokenizer: dict[str, bool | str]
    vocabulary_sha256: str
    inputs: list[InputEntry]
    train: Part
    held_out: Part


def read_manifest(folder: str) -> Manifest:
    """Reads the manifest of a finished output folder.

    Raises:
      InputError: there is none, it is damaged, or names files elsewhere.
    """
    path = f"{folder}/{MANIFEST}"
    if not files.gfile.exists(path):
        raise InputError(
            f"{path}: no such file; write the examples first (bert-tf write-examples)."
        )
    found = manifest.read_sealed(path, Manifest)
    for shard in (*found["train"]["shards"], *found["held_out"]["shards"]):
        files.inside(folder, shard["file"], path)
    return found


def read_vocabulary(folder: str) -> Vocabulary:
    """The vocabulary of a folder, that the examples were made with.

    Raises:
      InputError: it is missing or damaged, or another one.
    """
    found = registry.load(folder)
    if found.sha256 != read_manifest(folder)["vocabulary_sha256"]:
        raise InputError(
            f"{folder}/{found.files[0]}: is not the vocabulary that the examples were made with."
        )
    return found


def segments(found: Manifest) -> int:
    """How many segments the sequences have."""
    settings = ExampleSettings(
        objective=Objective(found["settings"]["objective"]),
        sequences=SequenceKind(found["settings"].get("sequences", SequenceKind.AUTO)),
    )
    return found.get("segments", MAKERS[settings.sequence_kind].segments)


def finished_manifest(output: str, identity: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest, if the output is complete; checks that it, or what is begun, is the same.

    Where one of its files is gone, or was cut since, the output counts as just begun.
    """
    complete, begun = f"{output}/{MANIFEST}", f"{output}/{BEGUN}"
    if not files.gfile.exists(complete):
        if files.gfile.exists(begun):
            _check_identity(output, manifest.read_sealed(begun, dict[str, Any]), identity)
        else:
            manifest.write_sealed(begun, identity)
        return None
    found = manifest.read_sealed(complete, dict[str, Any])
    _check_identity(output, found, identity)
    lost = _lost_shard(output, found)
    if lost is None:
        return found
    logging.warning("%s: is gone, or was cut; the examples are written again.", lost)
    manifest.write_sealed(begun, identity)
    files.gfile.remove(complete)
    return None


def _check_identity(output: str, found: dict[str, Any], identity: dict[str, Any]) -> None:
    other = manifest.difference(found, identity)
    if other:
        raise InputError(
            f"{output}: was made with other {other}. Name another output folder, or remove this "
            "one."
        )


def _lost_shard(output: str, found: dict[str, Any]) -> str | None:
    """The first file of a manifest that is not there as it was written, by its size."""
    for shard in (*found["train"]["shards"], *found["held_out"]["shards"]):
        path = files.inside(output, shard["file"], f"{output}/{MANIFEST}")
        if not is_whole(path, shard["bytes"]):
            return path
    return None


def finish(output: str, result: dict[str, Any]) -> None:
    """Writes the manifest, which says that all is whole, and removes what was needed until then.

    Raises:
      InputError: a file is gone: a lost worker removed it, where nothing can be replaced at once.
    """
    lost = _lost_shard(output, result)
    if lost is not None:
        raise InputError(f"{lost}: is gone since it was written; run the same command again.")
    manifest.write_sealed(f"{output}/{MANIFEST}", result)
    files.remove_tree(f"{output}/{UNFINISHED}")


def make_manifest(
    identity: dict[str, Any],
    ranges: Sequence[RangeSummary],
    plan: Plan,
    shards: Sequence[ShardSummary],
) -> dict[str, Any]:
    """The manifest of what was written: its identity, and statistics of text and examples.

    Raises:
      InputError: there is not one example to train on.
    """
    text: dict[str, float] = {key: sum(summary[key] for summary in ranges) for key in _SUMMED}
    text["held_out_documents"] = plan.held_out_documents
    text["unknown_share"] = text["unknown_tokens"] / text["tokens"]
    train = _summary([shard for shard in shards if not shard["held_out"]])
    if not train["records"]:
        raise InputError(
            f"the corpus has {text['tokens']:,} tokens, which do not fill one sequence of "
            f"--max_seq_length={identity['settings']['max_seq_length']}; take a smaller one, or "
            "more text."
        )
    return {
        **identity,
        "text": text,
        "train": train,
        "held_out": _summary([shard for shard in shards if shard["held_out"]]),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "tensorflow": tf.__version__,
            "tensorflow_text": tf_text.__version__,
        },
    }


def _summary(shards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {
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
    marked = [name for name in NEIGHBOURS if files.gfile.exists(f"{folder}/{name}.json")]
    patterns = [name for stem in marked for name in (stem, f"{stem}.json")]
    if files.gfile.exists(f"{folder}/{MANIFEST}"):
        found = read_manifest(folder)
        patterns += [MANIFEST]
        if "text" in found:  # else the files are another program's, and were adopted
            shards = (*found["train"]["shards"], *found["held_out"]["shards"])
            patterns += [glob.escape(shard["file"]) for shard in shards]
            patterns += [*registry.all_files(), UNFINISHED]
    elif files.gfile.exists(f"{folder}/{BEGUN}"):
        patterns += ["train-*.tfrecord", "held_out-*.tfrecord", UNFINISHED]
        patterns += registry.all_files()
    if not patterns:
        cleaning.nothing_to_do(folder, MANIFEST)
        return
    cleaning.remove(folder, [*patterns, *files.LEFT_BEHIND])
