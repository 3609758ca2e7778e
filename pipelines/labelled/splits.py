"""Finds the train, dev and test files of a labelled data set."""

from collections.abc import Collection, Mapping

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.labelled import tables

_MAX_SHOWN = 10  # other files, in messages


def find(
    data: str,
    patterns: Mapping[str, tuple[str, ...]],
    folder: str | None = None,
    named: Collection[str] = (),
) -> dict[str, str]:
    """Finds files by split; returns the paths of the splits that exist.

    Args:
      data: a folder, or one file, which becomes the split "all".
      patterns: file name patterns by split. The first pattern that matches a file, plain or gzipped
        (.gz), is used. Names without wildcards are equivalent: only one may exist.
      folder: a subfolder of `data` to use if it exists.
      named: splits whose files are named elsewhere.

    Raises:
      InputError: the folder or file does not exist, has none of the files, or has several files for
        a split.
    """
    data = data.rstrip("/")
    if files.gfile.exists(data) and not files.gfile.isdir(data):
        return {"all": data}
    if not files.gfile.isdir(data):
        raise InputError(f"{data}: no such file or folder; name the data with DATA= (--data).")
    if folder and files.gfile.isdir(f"{data}/{folder}"):
        data = f"{data}/{folder}"
    found = {}
    for split, names in patterns.items():
        if split in named:
            continue
        matches = _matches(data, names)
        if len(matches) > 1:
            raise InputError(
                f"{data}: {' and '.join(matches[:2])} could both be the {split} file; keep "
                "one, or name the files (--train, --dev, --test)."
            )
        if matches:
            found[split] = matches[0]
    if not found and not named:
        usual = ", ".join(names[0] for names in patterns.values())
        there = [name for name in files.names_in(data) if not name.startswith(".")]
        raise InputError(
            f"{data}: has no file of a known name, such as {usual}; it has "
            f"{tables.listed(there, _MAX_SHOWN) or 'nothing'}. Name the files with --train, --dev "
            "and --test, or one with --data."
        )
    return found


def _matches(folder: str, patterns: tuple[str, ...]) -> list[str]:
    """Returns the files of the first pattern that matches any, and all with a whole name."""
    first: list[str] = []
    whole: list[str] = []
    for pattern in patterns:
        matches = files.matching(folder, pattern) or files.matching(folder, pattern + files.GZIP)
        first = first or matches
        whole += matches if not any(mark in pattern for mark in "*?[") else []
    return sorted({*first, *whole})
