"""Finds the train, dev and test files of a labelled data set."""

import fnmatch
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from absl import logging

from pipelines.common import compressed, files, hub
from pipelines.common.errors import InputError
from pipelines.common.texts import UTF8, listed, shorten
from pipelines.labelled import labelled_lines, labels, table_rows, tables
from pipelines.labelled.columns import SPLITS
from pipelines.labelled.source import Source
from pipelines.labelled.text_lines import ending, split_part

_MAX_SHOWN = 10  # other files, in messages
_MAX_SHOWN_VALUE = 30  # characters of a value, in messages
# Endings of the user's own files.
_SHARDS = "-00000-of-*.parquet"  # of a repository of Hugging Face, in the folder data
_SAVED = "data-00000-of-*.arrow"  # of its function `save_to_disk`
_ENDINGS = (
    *(".jsonl", ".ndjson", ".csv", ".tsv", ".json", ".txt"),
    *(labelled_lines.TEXTS, ".ft.txt", ".parquet", ".xlsx", _SHARDS),
)


def of_user(endings: Sequence[str], prefixes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns patterns of the user's own files by split, for `find`.

    Args:
      endings: further endings of their names, which are preferred.
      prefixes: patterns of what may precede their names.
    """
    return {
        split: (
            *(
                f"{prefix}{name}{ending}"
                for prefix in prefixes
                for name in names
                for ending in (*endings, *_ENDINGS)
            ),
            *(f"data/{name}{_SHARDS}" for name in names),
            *(f"{name}/{place}" for name in names for place in (_SAVED, labelled_lines.WORDS)),
        )
        for split, names in SPLITS.items()
    }


def find(
    data: str,
    patterns: Mapping[str, tuple[str, ...]],
    folder: str | None = None,
    named: Collection[str] = (),
    encoding: str = UTF8,
) -> dict[str, str]:
    """Finds files by split, whatever their case; returns the paths of the splits that exist.

    Tables that are not read are logged.

    Args:
      data: a folder; or one file, which becomes the split "all" unless it has lists or sheets with
        names of splits.
      patterns: file name patterns by split. The first pattern that matches a file, plain or gzipped
        (.gz), is used. Names without wildcards are equivalent: only one may exist. A pattern may
        begin with the name of a subfolder.
      folder: a subfolder of `data` to use if it exists.
      named: splits whose files are named elsewhere.
      encoding: that of a file.

    Raises:
      InputError: the folder or file does not exist, has none of the files, or has several files for
        a split.
    """
    data = hub.dataset(data) if data.startswith(hub.DATASETS) else data.rstrip("/")
    file, part = split_part(data)
    if files.gfile.exists(file) and not files.gfile.isdir(file):
        return ({} if part else _parts(data, patterns, encoding)) or {"all": data}
    if not files.gfile.isdir(data):
        raise InputError(f"{data}: no such file or folder; name the data with DATA= (--data).")
    if folder and files.gfile.isdir(f"{data}/{folder}"):
        data = f"{data}/{folder}"
    found = {}
    names_in = functools.cache(  # storage of a cloud takes its time for each question
        lambda inner: files.names_in(inner) if files.gfile.isdir(inner) else []
    )
    for split, names in patterns.items():
        if split in named:
            continue
        matches = _matches(data, names, names_in)
        if len(matches) > 1:
            raise InputError(
                f"{data}: {' and '.join(matches[:2])} could both be the {split} file; keep "
                "one, or name the files (--train, --dev, --test)."
            )
        if matches:
            found[split] = matches[0]
    if not found and (saved := files.matching(data, _SAVED)):
        return {"all": saved[0]}
    if not found and not named:
        usual = ", ".join(names[0] for names in patterns.values())
        there = [name for name in files.names_in(data) if not name.startswith(".")]
        raise InputError(
            f"{data}: has no file of a known name, such as {usual}; it has "
            f"{listed(there, _MAX_SHOWN) or 'nothing'}. Name the files with --train, "
            "--dev and --test, or one with --data."
        )
    known = {file for path in found.values() for file in tables.files_of(path)}
    rest = [
        name
        for name in names_in(data)
        if ending(name) in (".tsv", *tables.ENDINGS)
        and not (name in labels.BESIDE or f"{data}/{name}" in known)
    ]
    if rest and not named:
        logging.info("%s: not read: %s", data, listed(rest, _MAX_SHOWN))
    return found


def in_column(source: Source) -> list[str]:
    """Returns the splits of the rows of a file, if a column names train and others; else none.

    Raises:
      InputError: the column names no split in some rows.
    """
    counts: Counter[str] = Counter()
    unknown = ""
    try:
        for row in tables.read_rows(source):
            if (column := table_rows.split_column(row)) is None and not (counts or unknown):
                return []
            if (split := table_rows.split_of(row)) is not None:
                counts[split] += 1
            elif not unknown:
                value = shorten(row.values.get(column or "", ""), _MAX_SHOWN_VALUE)
                unknown = f"{row.place}: the column of splits has {value!r}"
    except InputError:  # which is reported when it is read as the user says
        return []
    if "train" not in counts or len(counts) == 1:
        return []
    if unknown:
        raise InputError(
            f"{unknown}, other rows {' and '.join(counts)}; write train, dev or test in each row, "
            "or give the column another name."
        )
    shown = ", ".join(f"{split} ({count:,})" for split, count in counts.items())
    logging.info("%s: a column has the split of each row: %s.", source.path, shown)
    return list(counts)


def _parts(path: str, patterns: Mapping[str, tuple[str, ...]], encoding: str) -> dict[str, str]:
    """Returns the lists or sheets of a file that have names of splits, as in CLINC150."""
    names = tables.parts(path, encoding)
    found = {}
    for split, accepted in patterns.items():
        each = (n for p in accepted for n in names if fnmatch.fnmatchcase(f"{n.lower()}.json", p))
        if name := next(each, None):
            found[split] = name
    rest = [name for name in names if name not in found.values()]
    if found and rest:
        logging.info("%s: not read: %s", path, listed(rest, _MAX_SHOWN))
    return {split: f"{path}#{name}" for split, name in found.items()}


def _matches(
    folder: str, patterns: tuple[str, ...], names_in: Callable[[str], list[str]]
) -> list[str]:
    """Returns the files of the first pattern that matches any, and all with a whole name.

    Args:
      folder: the folder.
      patterns: the patterns, with subfolders.
      names_in: returns the names in a folder, if there is one.
    """
    first: list[str] = []
    whole: list[str] = []
    for pattern in patterns:
        inner, _, name = f"{folder}/{pattern}".rpartition("/")
        there = [(other.lower(), f"{inner}/{other}") for other in names_in(inner)]
        plain, *packed = (
            [path for lower, path in there if fnmatch.fnmatchcase(lower, name.lower() + end)]
            for end in ("", *compressed.ENDINGS)
        )
        matches = plain or list(itertools.chain(*packed))
        first = first or matches
        whole += matches if not any(mark in pattern for mark in "*?[") else []
    return sorted({*first, *whole})
