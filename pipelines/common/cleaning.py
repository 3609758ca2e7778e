"""Removes what commands have written, and says so; what they have not written stays."""

import fnmatch
import os
from collections.abc import Iterable

from pipelines.common import files


def remove(folder: str, patterns: Iterable[str]) -> None:
    """Removes what has a name like a pattern from a folder, and the folder if nothing is left.

    Args:
      folder: which was made here.
      patterns: of the names of files and folders.
    """
    patterns = list(patterns)
    names = files.names_in(folder)
    ours = [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in patterns)]
    for name in ours:
        _remove_one(f"{folder}/{name}")
    left = files.names_in(folder)
    if left:
        print(f"{folder}: removed {len(ours)} of ours; left {', '.join(left)}.")
        return
    if "://" in folder:
        files.remove_tree(folder)
    elif not os.path.islink(folder):
        os.rmdir(folder)
    print(f"{folder}: removed.")


def _remove_one(path: str) -> None:
    if os.path.islink(path):
        os.remove(path)
    elif files.gfile.isdir(path):
        files.remove_tree(path)
    else:
        files.gfile.remove(path)


def nothing_to_do(folder: str, mark: str) -> None:
    """Says why a folder is left alone."""
    why = f"has no {mark}: it was not made here" if files.gfile.exists(folder) else "is not there"
    print(f"{folder}: {why}; left alone.")
