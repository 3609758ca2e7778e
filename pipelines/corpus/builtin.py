"""English prose that every installation has: Python's documentation strings.

The docstrings of the standard library and of the installed packages, one
document a module, cleaned of code, doctests, signatures, tables and markup.
Paragraphs seen before are dropped, and so is a module of which little is left.
"""

import hashlib
import itertools
import os
import re
import sysconfig
from collections.abc import Iterable, Iterator
from typing import Any

from tqdm import tqdm

from pipelines.common import files, json_files, locks, process_pool
from pipelines.common.errors import InputError
from pipelines.corpus import docstrings, sentences

_MIN_SENTENCES = 3  # a shorter document teaches little about what follows what
_FILES_PER_TASK = 100
_MODULES_A_DOCUMENT = 8  # are enough: many have no prose
_MARK = {"made_by": "pipelines.make_corpus"}


def make(path: str, most: int | None = None) -> dict[str, int] | None:
    """Writes the corpus, and beside it a file that says whose work it is.

    Args:
      path: the file to write.
      most: documents at the most; None: all.

    Returns:
      As `write`; None if it was there.

    Raises:
      InputError: a file of another is there.
    """
    if files.gfile.exists(path):
        return None
    mark = f"{path}.json"
    with locks.held_file(files.partial_of(path), path):
        if files.gfile.exists(mark) and json_files.read(mark, Any) != _MARK:
            raise InputError(f"{mark}: is there, and is not of a corpus; name another --output.")
        json_files.write(mark, _MARK)
        return write(path, most=most)


def write(path: str, roots: Iterable[str] | None = None, most: int | None = None) -> dict[str, int]:
    """Writes the corpus in the reference format: a sentence a line, a blank line between documents.

    Args:
      path: the file to write.
      roots: folders of Python source; None: the standard library and site-packages.
      most: documents at the most; None: all.

    Returns:
      Counts: documents, sentences, bytes.

    Raises:
      InputError: no folder has a docstring of use.
    """
    counts = {"documents": 0, "sentences": 0, "bytes": 0}
    with files.write_aside(path) as partial, files.gfile.GFile(partial, "wb") as file:
        found = documents(roots if roots is not None else default_roots(), most)
        for document in itertools.islice(found, most):
            data = ("\n".join(document) + "\n\n").encode()
            file.write(data)
            counts["documents"] += 1
            counts["sentences"] += len(document)
            counts["bytes"] += len(data)
        if not counts["documents"]:
            raise InputError("no documentation strings were found; name a corpus of your own.")
    return counts


def default_roots() -> list[str]:
    """The folders of the standard library and of the installed packages."""
    paths = sysconfig.get_paths()
    return [paths["stdlib"], *sorted({paths["purelib"], paths["platlib"]})]


def documents(roots: Iterable[str], most: int | None = None) -> Iterator[list[str]]:
    """Yields the sentences of each module, near-duplicates left out; `most` at the most."""
    seen: set[bytes] = set()
    modules = list(itertools.islice(_modules(roots), most and _MODULES_A_DOCUMENT * most))
    for paragraphs in _paragraphs_of_modules(modules):
        kept: list[str] = []
        duplicates = 0
        for paragraph in paragraphs:
            letters = re.sub(r"\W+|\d+", "", paragraph.lower())
            digest = hashlib.blake2b(letters.encode(), digest_size=8).digest()
            if digest in seen:
                duplicates += len(paragraph)
                continue
            seen.add(digest)
            parts = sentences.split_sentences(paragraph)
            kept.extend(part for part in parts if docstrings.is_sentence(part))
        if len(kept) >= _MIN_SENTENCES and sum(map(len, kept)) > duplicates:
            yield kept


def _paragraphs_of_modules(paths: list[str]) -> Iterator[list[str]]:
    """The paragraphs of each file, in the order of the files, parsed by all cores."""
    starts = range(0, len(paths), _FILES_PER_TASK)
    tasks = [tuple(paths[start : start + _FILES_PER_TASK]) for start in starts]
    done = {}
    with (
        process_pool.pool(process_pool.default_workers(), docstrings.__name__) as run,
        tqdm(total=len(paths), desc="docstrings", unit="file") as bar,
    ):
        for task, paragraphs in run(_paragraphs_of_task, tasks):
            done[task] = paragraphs
            bar.update(len(task))
    for task in tasks:
        yield from done[task]


def _paragraphs_of_task(paths: tuple[str, ...]) -> list[list[str]]:
    return [docstrings.prose_paragraphs(path) for path in paths]


def _modules(roots: Iterable[str]) -> Iterator[str]:
    """Python files below the roots, sorted; tests hold little prose and are left out."""
    roots = list(roots)
    for root in roots:
        for folder, subfolders, names in os.walk(root):
            subfolders[:] = sorted(
                name
                for name in subfolders
                if name not in ("test", "tests", "testing", "__pycache__", "idlelib")
                and (os.path.join(folder, name) not in roots)
            )
            for name in sorted(names):
                if name.endswith(".py") and not name.startswith("test_"):
                    yield os.path.join(folder, name)
