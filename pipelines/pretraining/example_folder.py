"""A folder of examples: its manifest, and how it is removed."""

import glob
import re
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
from absl import logging

from pipelines.common import files, locks, manifest, outputs
from pipelines.common.errors import InputError
from pipelines.pretraining.makers import MAKERS
from pipelines.pretraining.settings import ExampleSettings, Masking, Objective, SequenceKind
from pipelines.tokenizers import registry
from pipelines.tokenizers.vocabulary import Vocabulary

MANIFEST = "manifest.json"
# The folder with the summaries of finished units, until everything is written.
UNFINISHED = ".unfinished"
# The identity of the examples while they are being written.
BEGUN = f"{UNFINISHED}/identity.json"
_SHARD = re.compile(r"(train|held_out)-\d{5}-of-\d{5}.*\.tfrecord")
_GIVEN = "vocabulary_given"  # in both, if the folder had the user's vocabulary before
# Outputs of other commands in the same folder (see the Makefile), each with a manifest.
NEIGHBOURS = ("builtin_corpus.txt", "learned_vocab.txt")
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Length = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class ShardEntry(TypedDict):
    """A file of examples."""

    file: str
    records: _Count
    bytes: _Count


class PartEntry(TypedDict):
    """The training or the held-out examples; statistics, too."""

    shards: list[ShardEntry]
    records: NotRequired[_Count]
    random_next_fraction: NotRequired[float]


class SettingsEntry(TypedDict):
    """The settings that readers need; others, too."""

    objective: Objective
    max_seq_length: _Length
    max_predictions_per_seq: _Length
    masked_lm_prob: NotRequired[float]
    sequences: NotRequired[SequenceKind]
    masking: NotRequired[Masking]
    mask_fraction: NotRequired[float]
    random_fraction: NotRequired[float]


class InputEntry(TypedDict):
    """A file that examples were made from."""

    path: str
    sha256: str


class ExampleManifest(TypedDict):
    """The manifest of a folder of examples; it has statistics, too."""

    settings: SettingsEntry
    segments: NotRequired[_Count]  # of adopted examples; ours have those of their maker
    tokenizer: dict[str, bool | int | str]
    vocabulary_sha256: str
    inputs: list[InputEntry]
    train: PartEntry
    held_out: PartEntry
    vocabulary_given: NotRequired[bool]


def read_manifest(folder: str) -> ExampleManifest:
    """Reads the manifest of a finished folder; raises InputError if it is missing or damaged."""
    path = f"{folder}/{MANIFEST}"
    if not files.gfile.exists(path):
        raise InputError(
            f"{path}: no such file; write the examples first (bert-tf write-examples)."
        )
    found = manifest.read_sealed(path, ExampleManifest)
    for shard in _shards(found):
        files.inside(folder, shard["file"], path)
    return found


def read_vocabulary(folder: str) -> Vocabulary:
    """Reads the vocabulary of examples; raises InputError if it is missing or another one."""
    found = registry.load(folder)
    if found.sha256 != read_manifest(folder)["vocabulary_sha256"]:
        raise InputError(
            f"{folder}/{found.files[0]}: is not the vocabulary that the examples were made with."
        )
    return found


def segments(found: ExampleManifest) -> int:
    """Returns the number of segments of the sequences."""
    settings = ExampleSettings(
        objective=Objective(found["settings"]["objective"]),
        sequences=SequenceKind(found["settings"].get("sequences", SequenceKind.AUTO)),
    )
    return found.get("segments", MAKERS[settings.sequence_kind].segments)


def finished_manifest(
    output: str, identity: dict[str, Any], vocabulary: Vocabulary
) -> dict[str, Any] | None:
    """Returns the manifest of a complete folder, or None after preparing an incomplete one.

    A folder in which a file is missing or truncated counts as incomplete. If the user's vocabulary
    is where its copy would be, that is noted.

    Raises:
      InputError: the folder was made, or begun, with another identity.
    """
    complete, begun = f"{output}/{MANIFEST}", f"{output}/{BEGUN}"
    if not files.gfile.exists(complete):
        if files.gfile.exists(begun):
            _check_identity(output, manifest.read_sealed(begun, dict[str, Any]), identity)
        else:
            given = any(files.gfile.exists(f"{output}/{name}") for name in vocabulary.files)
            manifest.write_sealed(begun, identity | ({_GIVEN: True} if given else {}))
        return None
    found = manifest.read_sealed(complete, dict[str, Any])
    _check_identity(output, found, identity)
    lost = _lost_shard(output, found)
    if lost is None:
        return found
    logging.warning("%s: is missing or truncated; the examples are written again.", lost)
    manifest.write_sealed(begun, identity | _given(found))
    files.gfile.remove(complete)
    return None


def _given(found: Mapping[str, Any]) -> dict[str, Any]:
    return {_GIVEN: True} if found.get(_GIVEN) else {}


def _check_identity(output: str, found: dict[str, Any], identity: dict[str, Any]) -> None:
    other = manifest.difference(found, identity)
    if other:
        raise InputError(
            f"{output}: was made with other {other}. Name another output folder, or remove this "
            "one."
        )


def _shards(found: Mapping[str, Any]) -> list[ShardEntry]:
    return [*found["train"]["shards"], *found["held_out"]["shards"]]


def _lost_shard(output: str, found: dict[str, Any]) -> str | None:
    """Returns the first file of a manifest that is missing or of another size."""
    for shard in _shards(found):
        path = files.inside(output, shard["file"], f"{output}/{MANIFEST}")
        if not files.is_whole(path, shard["bytes"]):
            return path
    return None


def finish(output: str, result: dict[str, Any]) -> None:
    """Writes the manifest, which marks the folder as complete, and removes everything else of ours.

    Raises InputError if a file is missing: a lost worker may have removed it, on a file system that
    cannot replace a file in one step.
    """
    lost = _lost_shard(output, result)
    if lost is not None:
        raise InputError(f"{lost}: is missing since it was written; run the same command again.")
    _remove_shards(output, {shard["file"] for shard in _shards(result)})
    begun = manifest.read_sealed(f"{output}/{BEGUN}", dict[str, Any])
    manifest.write_sealed(f"{output}/{MANIFEST}", result | _given(begun))
    files.remove_tree(f"{output}/{UNFINISHED}")


def withdraw(output: str) -> None:
    """Removes what a command wrote whose settings do not suit the corpus; others may follow."""
    _remove_shards(output, set())
    if not _given(manifest.read_sealed(f"{output}/{BEGUN}", dict[str, Any])):
        for name in registry.all_files():
            if files.gfile.exists(f"{output}/{name}"):
                files.gfile.remove(f"{output}/{name}")
    files.remove_tree(f"{output}/{UNFINISHED}")


def _remove_shards(output: str, kept: set[str]) -> None:
    """Removes shards, also those of another number of units, and parts that lost workers left."""
    for name in files.names_in(output):
        if _SHARD.match(name) and name not in kept:
            files.gfile.remove(f"{output}/{name}")


def remove(folder: str) -> None:
    """Removes the examples of a folder, and the corpus and vocabulary that were made there."""
    if not files.gfile.isdir(folder):
        outputs.report_nothing_to_do(folder, MANIFEST)
        return
    with locks.held(folder):
        patterns = _patterns_of_output(folder)
        if patterns:
            outputs.remove(folder, [*patterns, *files.LEFT_BEHIND])
        else:
            outputs.report_nothing_to_do(folder, MANIFEST)


def _patterns_of_output(folder: str) -> list[str]:
    """Returns patterns for the files that were written to a folder by us."""
    marked = [name for name in NEIGHBOURS if files.gfile.exists(f"{folder}/{name}.json")]
    patterns = [name for stem in marked for name in (stem, f"{stem}.json")]
    if files.gfile.exists(f"{folder}/{MANIFEST}"):
        found = read_manifest(folder)
        patterns += [MANIFEST]
        if "text" in found:  # otherwise, another program wrote the files, and they were adopted
            patterns += [glob.escape(shard["file"]) for shard in _shards(found)]
            patterns += [UNFINISHED, *([] if _given(found) else registry.all_files())]
    elif files.gfile.exists(f"{folder}/{BEGUN}"):
        begun = manifest.read_sealed(f"{folder}/{BEGUN}", dict[str, Any])
        patterns += ["train-*.tfrecord", "held_out-*.tfrecord", UNFINISHED]
        patterns += [] if _given(begun) else registry.all_files()
    return patterns
