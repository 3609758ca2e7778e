"""What an output was made of: compared before it is used or gone on with."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pipelines.common import json_files
from pipelines.common.errors import InputError

_SEAL = "sha256"
_CHECKSUM = 64  # characters of one
_SHOWN = 3  # differences
_LONGEST = 60  # characters of a value


def write_sealed(path: str, values: Mapping[str, Any]) -> None:
    """Writes a manifest with a checksum of its own values, in one piece."""
    json_files.write(path, {**values, _SEAL: _checksum(values)})


def read_sealed(path: str, kind: type[json_files.KindT]) -> json_files.KindT:
    """Reads a manifest, without its checksum.

    Args:
      path: the file; those of earlier versions have no checksum.
      kind: as for `json_files.check`.

    Raises:
      InputError: it is missing, is not JSON, has another shape, or has other values than those
        that were written.
    """
    found = json_files.read(path, dict[str, Any])
    shaped = json_files.check(found, kind, path)
    seal = found.pop(_SEAL, None)
    if seal is not None and seal != _checksum(found):
        raise InputError(
            f"{path}: is not as it was written: damaged, or changed since. Copy it again; if the "
            f'change is yours, remove "{_SEAL}" from it, and nothing is checked any more.'
        )
    return shaped


def _checksum(values: Mapping[str, Any]) -> str:
    """The SHA-256 of JSON values, whatever the order of their keys."""
    text = json.dumps(json_files.as_json(values), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Says in a few words where `found` lacks or contradicts what is wanted; None if nowhere.

    Args:
      found: the values of a manifest; it may have others besides.
      wanted: JSON values.
    """
    for key, value in wanted.items():
        if found.get(key) != value:
            return _describe(key, found.get(key), value)
    return None


def _describe(key: str, old: Any, new: Any) -> str:
    if key == "inputs":
        was = {entry["path"]: entry for entry in old or ()}
        now = {entry["path"]: entry for entry in new}
        names = sorted(path for path in was.keys() | now.keys() if was.get(path) != now.get(path))
        return f"{key}: {', '.join(names[:_SHOWN])}{' and more' if names[_SHOWN:] else ''}"
    if _fields(old) and _fields(new):
        changes = _changes(old, new)
        return f"{key}: {', '.join(changes[:_SHOWN])}{' and more' if changes[_SHOWN:] else ''}"
    if isinstance(new, str | int | float | None):
        return f"{key} ({old} there, {new} asked for)"
    return key


def _changes(old: Any, new: Any, path: str = "") -> list[str]:
    """The fields, and fields of fields, that differ, with both values but for checksums."""
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
    return [f"{path} ({_shorten(old)} there, {_shorten(new)} asked for)"]


def _fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of an object, or the items of a list by their names; None of anything else."""
    if isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value):
        return {item["name"]: item for item in value}
    return value if isinstance(value, dict) else None


def _shorten(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
