"""The folder of a run: which run it is of, whether that is finished, and how its report is kept."""

import contextlib
import fcntl
import io
import math
import os
from collections.abc import Iterator
from typing import Any

import matplotlib.figure
from absl import logging

from bert_tf import precision
from pipelines import files, manifest
from pipelines.errors import InputError

_IDENTITY = "run.json"
_REPORT = "report.json"


@contextlib.contextmanager
def held(output: str, write: bool) -> Iterator[None]:
    """Keeps other processes from training in a folder, which is made if it is not there.

    It works where files can be locked: on local disks, not on buckets.

    Args:
      output: the folder.
      write: whether this process writes there.

    Raises:
      InputError: the folder is a file, or another process trains there.
    """
    if not write or "://" in output:
        yield
        return
    if os.path.exists(output) and not os.path.isdir(output):
        raise InputError(f"{output}: is a file; name a folder to write to (OUT=).")
    files.gfile.makedirs(output)
    folder = os.open(output, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(folder)
        raise InputError(
            f"{output}: another process is training there; wait for it, or name another folder "
            "(OUT=)."
        ) from error
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def open_run(output: str, identity: dict[str, Any], write: bool) -> Iterator[dict[str, Any] | None]:
    """Holds a folder; yields the report of a finished run, None for a new or half-finished one.

    Args:
      output: the folder.
      identity: all that decides the outcome, as JSON values.
      write: whether this process writes there, and notes the identity of a new run.

    Raises:
      InputError: the folder is of a run with another identity, or as `held`.
    """
    with held(output, write):
        finished = _finished(output, identity, write)
        if finished is not None:
            logging.info("%s is complete; nothing to do.", output)
        yield finished


def _finished(output: str, identity: dict[str, Any], write: bool) -> dict[str, Any] | None:
    path = f"{output}/{_IDENTITY}"
    if files.gfile.exists(path):
        other = manifest.difference(files.read_json(path), identity)
        if other:
            raise InputError(
                f"{output}: is of a run with other {other}. Name another output folder (OUT=), or "
                "remove this one."
            )
        if files.gfile.exists(f"{output}/{_REPORT}"):
            return files.read_json(f"{output}/{_REPORT}")
    elif write:
        files.write_json(path, identity)
    return None


def resolve_precision(choice: str, output: str) -> str:
    """The precision to train in: the one that a run began with, where the choice is left open."""
    path = f"{output}/{_IDENTITY}"
    if choice == "auto" and files.gfile.exists(path):
        return files.read_json(path).get("settings", {}).get("precision", "float32")
    return precision.resolve_precision(choice)


def write_report(output: str, report: dict[str, Any]) -> None:
    """Writes the report; last of all, because it marks a run as finished."""
    files.write_json(f"{output}/{_REPORT}", report)


def as_json(value: Any) -> Any:
    """A value as JSON has it: NaN becomes null."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def save_figure(figure: matplotlib.figure.Figure, path: str) -> None:
    """Saves a figure as a PNG, in one piece."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    with files.write_aside(path) as partial, files.gfile.GFile(partial, "wb") as file:
        file.write(data.getvalue())
