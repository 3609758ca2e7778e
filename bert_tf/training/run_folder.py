"""The folder of a run: its identity, whether it is finished, and its report."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, TypedDict

import tensorflow as tf
from absl import logging

from bert_tf.training import distribution, hardware
from pipelines.common import files, json_files, locks, manifest, outputs
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry

_IDENTITY = "run.json"
SEARCH = "search.log"  # trials of a search for settings
_REPORT = "report.json"
# Mistakes in which the workers of a run differ, and their remedies.
DIFFERENT_COMMANDS = (
    "their settings, data or models; run the same command on all of them, with the same files."
)
DIFFERENT_FOLDERS = (
    "the checkpoints that they see; name a folder on storage that all of them share (--output)."
)
GENERATOR = "generator"  # the generator of an ELECTRA, a model of its own
_OF_PRETRAINING = (
    _IDENTITY,
    _REPORT,
    "bert_config.json",
    "checkpoints",
    "checksums.json",
    "curves.png",
    "ending.json",
    GENERATOR,
    "history.jsonl",
    "milestones.jsonl",
    "saved_model",
    "tensorboard",
    "tokenizer_config.json",
    *registry.all_files(),
    *files.LEFT_BEHIND,
)


class _TrainedWith(TypedDict):
    precision: str


class _Identity(TypedDict):
    """The part of run.json that is read here; all of it is compared."""

    settings: _TrainedWith


def check_output(output: str, write: bool) -> None:
    """Raises InputError if a folder, to which this process writes, holds something else."""
    if write:
        outputs.check_folder(output, "a training run", [_IDENTITY])


@contextlib.contextmanager
def open_run(output: str, identity: dict[str, Any], write: bool) -> Iterator[dict[str, Any] | None]:
    """Locks a folder; yields the report of a finished run, or None.

    Args:
      output: the folder.
      identity: everything that decides the outcome, as JSON values.
      write: whether this process writes there, and records the identity of a new run.

    Raises:
      InputError: the folder is of a run with another identity, holds something else, or is in
        use by another process.
    """
    check_output(output, write)
    with locks.held(output, write):
        known, finished = begun(output), None
        if known is None and write:
            json_files.write(f"{output}/{_IDENTITY}", identity)
        if known is not None:
            other = manifest.difference(known, identity)
            if other:
                raise InputError(
                    f"{output}: is of a run with other {other}. Name another folder (--output, "
                    "OUT=), or remove this one."
                )
            if is_finished(output):
                finished = json_files.read(f"{output}/{_REPORT}", dict[str, Any], finite=False)
                logging.info("%s is complete; nothing to do.", output)
        yield finished


def has_checkpoint(output: str) -> bool:
    """Whether the run in a folder, or one of its runs, has a checkpoint to resume from."""
    return any(files.matching(f"{run}/checkpoints", "*") for run in _runs(output))


def _runs(output: str) -> list[str]:
    return [output, *files.matching(f"{output}/runs", "*")]


def is_finished(output: str) -> bool:
    """Whether the run in a folder is finished; workers need not ask each other."""
    return all(files.gfile.exists(f"{output}/{name}") for name in (_IDENTITY, _REPORT))


def unchanged(output: str, stamp: str) -> dict[str, Any] | None:
    """The report of a finished run that has this stamp; workers of a cluster compare all."""
    if distribution.in_cluster() or not is_finished(output):
        return None
    report = json_files.read(f"{output}/{_REPORT}", dict[str, Any], finite=False)
    if report.get("stamp") != stamp:
        return None
    logging.info("%s is complete; nothing to do.", output)
    return report


def warn_of_late(output: str, flags: Iterable[str]) -> None:
    """Says which flags a finished run does not follow."""
    for flag in flags:
        logging.warning(
            "%s: --%s comes too late for a complete run; give it with another --output.",
            output,
            flag,
        )


def settled_precision(choice: str, output: str, strategy: tf.distribute.Strategy) -> str:
    """The precision to train in: for auto, the one that the run began with.

    Args:
      choice: the setting.
      output: folder of the run.
      strategy: the workers, which all get the same: bfloat16 if it is faster on all of them.

    Raises:
      InputError: the precision is unknown, or the workers see different folders.
    """
    known = begun(output)
    distribution.check_same(strategy, known, DIFFERENT_FOLDERS)
    if known is not None and choice == "auto":
        whole = json_files.check(known, _Identity, f"{output}/{_IDENTITY}")
        return whole["settings"]["precision"]
    found = hardware.resolve_precision(choice)
    if known is not None:
        return found
    in_full = distribution.make_agreement(strategy)(found == "float32")
    return "float32" if in_full and choice == "auto" else found


def begun(output: str) -> dict[str, Any] | None:
    """The identity of the run that has begun in a folder; None if there is none.

    A run has begun if it left anything to resume; after a failed start, settings may change.
    """
    path = f"{output}/{_IDENTITY}"
    left = [f"{output}/{_REPORT}", f"{output}/{SEARCH}"]
    left += [f"{run}/result.json" for run in _runs(output)]
    if not files.gfile.exists(path):
        return None
    if not (any(map(files.gfile.exists, left)) or has_checkpoint(output)):
        return None
    return json_files.read(path, dict[str, Any])


def write_report(output: str, report: dict[str, Any]) -> None:
    """Writes the report. This comes last, as it marks a run as finished."""
    json_files.write(f"{output}/{_REPORT}", report)


def remove_pretraining(output: str) -> None:
    """Removes a pre-training run, if run.json identifies the folder as one; nothing else."""
    path = f"{output}/{_IDENTITY}"
    if not files.gfile.exists(path) or "phases" not in json_files.read(path, dict[str, Any]):
        print(f"{output}: is not a pre-training run (see its {_IDENTITY}); not removed.")
        return
    with locks.held(output):
        outputs.remove(output, _OF_PRETRAINING)
