"""Whose an output is: no command writes over what it did not write itself."""

import fnmatch
import os
from collections.abc import Iterable

from pipelines.common import files, remote_files
from pipelines.common.errors import InputError

_SHOWN = 3
# What never is anybody's work: hidden files, and what killed commands left.
_NOTHING = (".*", *files.LEFT_BEHIND)


def check_folder(
    folder: str,
    what: str,
    marks: Iterable[str],
    known: Iterable[str] = (),
    inputs: Iterable[str] = (),
    anywhere: bool = False,
) -> None:
    """Checks that a folder is new, empty, or marked as one of what is about to be written.

    Args:
      folder: to write to.
      what: it will hold, for the error, such as "a training run".
      marks: names of files that such a folder has.
      known: patterns of names that may be there besides.
      inputs: paths that may be there because they are read.
      anywhere: whether it may be on a file system that TensorFlow does not reach.

    Raises:
      InputError: it holds something else, or is where it cannot be written.
    """
    if not anywhere and remote_files.reaches(folder):
        raise InputError(
            f"{folder}: TensorFlow, which writes {what}, does not reach it; name a folder on a "
            "disk or on gs://."
        )
    if not files.gfile.isdir(folder) or any(files.gfile.exists(f"{folder}/{m}") for m in marks):
        return
    read = {os.path.basename(path) for path in inputs if _folder_of(path) == _real(folder)}
    strangers = [
        name
        for name in files.names_in(folder)
        if name not in read
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in (*_NOTHING, *known))
    ]
    if strangers:
        more = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
        raise InputError(
            f"{folder}: is not empty and is not of {what}: it has {', '.join(strangers[:_SHOWN])}"
            f"{more}. Name another folder (OUT=), or empty this one."
        )


def _folder_of(path: str) -> str:
    return _real(os.path.dirname(path) or ".")


def _real(path: str) -> str:
    return path.rstrip("/") if "://" in path else os.path.realpath(path)
