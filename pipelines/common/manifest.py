"""Manifests seal outputs: what each was made from, and the checksums of its files.

A manifest is JSON and is written last. It has the values of its writer, the SHA-256 of files by
their paths relative to it (`files`), and the SHA-256 of all of this (`sha256`).
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict

from pipelines.common import files, json_files, texts
from pipelines.common.errors import InputError

CHECKSUMS = "checksums.json"  # the manifest of a folder with nothing but checksums to note
_SEAL = "sha256"
_CHECKSUM = 64  # characters
_MAX_SHOWN = 3  # differences
_MAX_LENGTH = 60  # characters of a value


class _Listed(TypedDict):
    files: NotRequired[dict[str, str]]


def write_sealed(path: str, values: Mapping[str, Any], names: Iterable[str] = ()) -> None:
    """Writes a manifest; several processes may write the same.

    Args:
      path: The file.
      values: JSON values.
      names: Files and folders next to it whose checksums it lists; missing ones are skipped.
    """
    sums = checksums(os.path.dirname(path), names)
    found = {**values, "files": sums} if sums else values
    json_files.write(path, {**found, _SEAL: _checksum(found)}, shared=True)


def checksums(folder: str, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of files, and of all files in folders, by the path relative to `folder`."""
    found = []
    for path in (f"{folder}/{name}" for name in names):
        if files.gfile.isdir(path):
            for place, _, inner in files.gfile.walk(path):
                found += [f"{place}/{name}" for name in inner]
        elif files.gfile.exists(path):
            found.append(path)
    return {path.removeprefix(f"{folder}/"): files.sha256(path) for path in sorted(found)}


def read_sealed(path: str, kind: type[json_files.KindT]) -> json_files.KindT:
    """Reads a manifest, without its checksum.

    Args:
      path: The file.
      kind: See `json_files.check`.

    Raises:
      InputError: It is missing, is not JSON, has another type, or was changed.
    """
    found = json_files.read(path, dict[str, Any])
    shaped = json_files.check(found, kind, path)
    seal = found.pop(_SEAL, None)
    if seal is not None and seal != _checksum(found):
        raise _damaged(path, path)
    return shaped


def read_listed(path: str) -> dict[str, str]:
    """The checksums of the files that a manifest lists, if any.

    Raises:
      InputError: The manifest is missing or damaged, or lists a file outside its folder.
    """
    found = read_sealed(path, _Listed).get("files", {})
    for name in found:
        files.inside(os.path.dirname(path), name, path)
    return found


def check(path: str) -> None:
    """Compares files with their manifest, if there is one: those of other programs have none.

    Raises:
      InputError: The manifest is damaged, or a file is missing or was changed.
    """
    if files.gfile.exists(path):
        for name, expected in read_listed(path).items():
            place = f"{os.path.dirname(path)}/{name}"
            if not files.gfile.exists(place) or files.sha256(place) != expected:
                raise _damaged(place, path)


def _damaged(path: str, manifest: str) -> InputError:
    """The error for a file that is not as its manifest says."""
    place = "it" if path == manifest else manifest
    return InputError(
        f"{path}: is damaged, or was changed since it was written. Copy it again; if you have "
        f'changed it, remove "{_SEAL}" and "files" from {place}, which turns this check off.'
    )


def _checksum(values: Mapping[str, Any]) -> str:
    """The SHA-256 of JSON values, which does not depend on the order of their keys."""
    text = json.dumps(json_files.as_json(values), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def begin(path: str, identity: Mapping[str, Any]) -> str | None:
    """Writes what an output is made of, or names the first difference from what was written.

    Several processes may write the same.

    Args:
      path: The file.
      identity: JSON values.
    """
    if not files.gfile.exists(path):
        json_files.write(path, identity, shared=True)
        return None
    return difference(json_files.read(path, dict[str, Any]), identity)


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Names the first difference of a manifest from the wanted values; None if there is none.

    Args:
      found: The values of the manifest; others than those wanted are ignored.
      wanted: JSON values.
    """
    for key, value in wanted.items():
        old = found.get(key)
        if key == "inputs":
            was, now = ({entry["path"]: entry for entry in each or ()} for each in (old, value))
            names = [
                path for path in was.keys() | now.keys() if _is_other(was.get(path), now.get(path))
            ]
            if names:
                return f"{key}: {texts.listed(sorted(names), _MAX_SHOWN)}"
        elif old != value:
            return _describe(key, old, value)
    return None


def _is_other(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> bool:
    """Whether an input has changed. Its bytes are read only if its date does not tell."""
    if old is None or new is None:
        return True
    names = (old.keys() | new.keys()) - {"modified", "sha256"}
    if any(old.get(name) != new.get(name) for name in names):
        return True
    date, checksum = new.get("modified"), old.get("sha256")
    if (date and date == old.get("modified")) or checksum is None:
        return date != old.get("modified")
    return (new.get("sha256") or files.sha256(new["path"])) != checksum


def _describe(key: str, old: Any, new: Any) -> str:
    if _fields(old) and _fields(new):
        changes = _changes(old, new)
        return f"{key}: {texts.listed(changes, _MAX_SHOWN)}"
    if isinstance(old, str | int | float | None) and isinstance(new, str | int | float | None):
        return f"{key} (was {old}, now {new})"
    return key


def _changes(old: Any, new: Any, path: str = "") -> list[str]:
    """The fields that differ, at any depth, with both values unless they are checksums."""
    was, now = _fields(old), _fields(new)
    if was and now:
        names = [name for name in {**now, **was} if was.get(name) != now.get(name)]
        return [
            change
            for name in names
            for change in _changes(was.get(name), now.get(name), f"{path}.{name}".lstrip("."))
        ]
    if isinstance(new, str) and len(new) == _CHECKSUM:
        return [path]
    shown = [texts.shorten(value, _MAX_LENGTH) for value in (old, new)]
    return [f"{path} (was {shown[0]}, now {shown[1]})"]


def _fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of an object, or the items of a list by their names; None for other values."""
    if isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value):
        return {item["name"]: item for item in value}
    return value if isinstance(value, dict) else None
