"""Checksums of folders, in their checksums.json, and hashes that are the same everywhere."""

import hashlib
from collections.abc import Iterable

from pipelines.common import files, json_files
from pipelines.common.errors import InputError

CHECKSUMS = "checksums.json"
HASH_RANGE = 1 << 64  # of `stable_hash`, exclusive


def write(folder: str, names: Iterable[str]) -> None:
    """Writes the checksums of files, and of all files in folders.

    Args:
      folder: The folder, where checksums.json is written.
      names: Names of files and folders in it; missing ones are skipped.
    """
    json_files.write(f"{folder}/{CHECKSUMS}", of(folder, names))


def of(folder: str, names: Iterable[str]) -> dict[str, str]:
    """The checksums that `write` writes, by the path relative to the folder."""
    found = sorted(path for name in names for path in _files_of(folder, name))
    return {name: files.sha256(f"{folder}/{name}") for name in found}


def _files_of(folder: str, name: str) -> list[str]:
    path = f"{folder}/{name}"
    if not files.gfile.isdir(path):
        return [name] if files.gfile.exists(path) else []
    return [
        f"{place}/{file}".removeprefix(f"{folder}/")
        for place, _, names in files.gfile.walk(path)
        for file in names
    ]


def read(folder: str) -> dict[str, str]:
    """Reads the checksums of a folder, by the path relative to it.

    Raises:
      InputError: They are missing or damaged, or name a file outside the folder.
    """
    path = f"{folder}/{CHECKSUMS}"
    found = json_files.read(path, dict[str, str])
    for name in found:
        files.inside(folder, name, path)
    return found


def check(folder: str) -> None:
    """Compares a folder with its checksums, if it has some: those of other programs have none.

    Raises:
      InputError: A file is missing, damaged or changed.
    """
    if not files.gfile.exists(f"{folder}/{CHECKSUMS}"):
        return
    for name, expected in read(folder).items():
        place = f"{folder}/{name}"
        if not files.gfile.exists(place) or files.sha256(place) != expected:
            raise InputError(
                f"{place}: is damaged, or was changed since it was written. Copy it again; if you "
                f"have changed it, write {{}} into {folder}/{CHECKSUMS}, which turns this check "
                "off."
            )


def remove(folder: str) -> None:
    """Removes the checksums of a folder that is about to be overwritten."""
    if files.gfile.exists(f"{folder}/{CHECKSUMS}"):
        files.gfile.remove(f"{folder}/{CHECKSUMS}")


def stable_hash(*parts: object) -> int:
    """A 64-bit hash of the `repr` of values, the same on every machine and in every process."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
