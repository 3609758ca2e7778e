"""Removes what commands have written, and says so; what they have not written stays."""

import fnmatch
import glob
import os
from collections.abc import Iterable

from pipelines import example_writer, examples, files, locks

# What other steps put beside the examples, each with a manifest of its own.
_MARKED_FILES = ("builtin_corpus.txt", "learned_vocab.txt")


def remove(folder: str, patterns: Iterable[str]) -> None:
    """Removes what has a name like a pattern from a folder, and the folder if nothing is left.

    Args:
      folder: which was made here.
      patterns: of the names of files and folders.
    """
    patterns = list(patterns)
    names = [name.rstrip("/") for name in files.gfile.listdir(folder)]
    ours = [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in patterns)]
    for name in ours:
        _remove_one(f"{folder}/{name}")
    left = sorted(name.rstrip("/") for name in files.gfile.listdir(folder))
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


def remove_examples(folder: str) -> None:
    """Removes the examples of a folder, and the corpus and vocabulary that were made there.

    Raises:
      InputError: another process writes there.
    """
    if not files.gfile.isdir(folder):
        nothing_to_do(folder, example_writer.MANIFEST)
        return
    with locks.held(folder):
        _remove_examples(folder)


def _remove_examples(folder: str) -> None:
    begun = f"{examples.UNFINISHED}/identity.json"
    marked = [name for name in _MARKED_FILES if files.gfile.exists(f"{folder}/{name}.json")]
    patterns = [name for stem in marked for name in (stem, f"{stem}.json")]
    if files.gfile.exists(f"{folder}/{example_writer.MANIFEST}"):
        found = example_writer.read_manifest(folder)
        patterns += [example_writer.MANIFEST]
        if "text" in found:  # else the files are another program's, and were adopted
            shards = (*found["train"]["shards"], *found["held_out"]["shards"])
            patterns += [glob.escape(shard["file"]) for shard in shards]
            patterns += [example_writer.VOCABULARY, examples.UNFINISHED]
    elif files.gfile.exists(f"{folder}/{begun}"):
        patterns += ["train-*.tfrecord", "held_out-*.tfrecord", examples.UNFINISHED]
        patterns += [example_writer.VOCABULARY]
    if not patterns:
        nothing_to_do(folder, example_writer.MANIFEST)
        return
    remove(folder, [*patterns, *files.LEFT_BEHIND])
