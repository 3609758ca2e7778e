"""Ownership of outputs: a command overwrites and removes only what such a command has written."""

import fnmatch
import os
from collections.abc import Iterable

from pipelines.common import files, remote_files
from pipelines.common.errors import InputError
from pipelines.common.texts import listed

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
    places = map(os.path.split, inputs)
    read = {name for place, name in places if _real(place or ".") == _real(folder)}
    strangers = [
        name
        for name in files.names_in(folder)
        if name not in read
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in (*_NOTHING, *known))
    ]
    if strangers:
        raise InputError(
            f"{folder}: is not empty and is not of {what}: it has {listed(strangers, _SHOWN)}. "
            "Name another folder (--output, OUT=), or empty this one."
        )


def check_file(path: str, source: str) -> None:
    """Raises InputError if a file to write is a folder, or the file of the texts that are read."""
    if files.gfile.isdir(path):
        raise InputError(f"{path}: is a folder; name a file to write (--output, OUT=).")
    if files.is_same(path, source):
        raise InputError(f"{path}: is the file of the texts; name another file (--output, OUT=).")


def _real(path: str) -> str:
    return path.rstrip("/") if "://" in path else os.path.realpath(path)


def remove(folder: str, patterns: Iterable[str]) -> None:
    """Removes the files and folders with matching names, and the folder if it is empty then.

    Args:
      folder: A folder that was made by this program.
      patterns: Patterns of the names.
    """
    patterns = list(patterns)
    names = files.names_in(folder)
    ours = [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in patterns)]
    for path in (f"{folder}/{name}" for name in ours):
        if os.path.islink(path):
            os.remove(path)
        elif files.gfile.isdir(path):
            files.remove_tree(path)
        else:
            files.gfile.remove(path)
    left = files.names_in(folder)
    if left:
        print(f"{folder}: removed {len(ours)} of our files; left {', '.join(left)}.")
        return
    if "://" in folder:
        files.remove_tree(folder)
    elif not os.path.islink(folder):
        os.rmdir(folder)
    print(f"{folder}: removed.")


def report_nothing_to_do(folder: str, mark: str) -> None:
    """Prints why a folder is left alone: it is missing, or has no file that marks it as ours."""
    exists = files.gfile.exists(folder)
    why = f"has no {mark}, so it was not made by this program" if exists else "does not exist"
    print(f"{folder}: {why}; left alone.")
