"""Finds the files of a labelled data set: train, dev and test."""

from collections.abc import Collection, Mapping

from pipelines.common import files
from pipelines.common.errors import InputError

_SHOWN = 10  # names of other files


def find(
    data: str,
    patterns: Mapping[str, tuple[str, ...]],
    folder: str | None = None,
    named: Collection[str] = (),
) -> dict[str, str]:
    """Finds files by split.

    Args:
      data: a folder, or one file, which becomes the split "all".
      patterns: patterns of names by split; the first that matches a file counts,
        be it plain or gzipped (.gz). Names without a pattern are equal: there may be one.
      folder: a folder within `data` that is looked in too.
      named: splits that are named elsewhere: none of these is looked for, nor must be there.

    Returns:
      The path of each split that is there.

    Raises:
      InputError: there is no such file or folder, or it has none of the files.
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
                f"{data}: {' and '.join(matches[:2])} could both be the {split} file; leave "
                "one there, or name the files (--train, --dev, --test)."
            )
        if matches:
            found[split] = matches[0]
    if not found and not named:
        usual = ", ".join(names[0] for names in patterns.values())
        there = [name for name in files.names_in(data) if not name.startswith(".")]
        more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
        raise InputError(
            f"{data}: has no file of a known name, such as {usual}; it has "
            f"{', '.join(there[:_SHOWN]) or 'nothing'}{more}. Name the files with --train, --dev "
            "and --test, or one with --data."
        )
    return found


def _matches(folder: str, patterns: tuple[str, ...]) -> list[str]:
    """The files of the first pattern that matches any, and all that have a whole name wanted."""
    first: list[str] = []
    whole: list[str] = []
    for pattern in patterns:
        matches = files.matching(folder, pattern) or files.matching(folder, pattern + files.GZIP)
        first = first or matches
        whole += matches if not any(mark in pattern for mark in "*?[") else []
    return sorted({*first, *whole})
