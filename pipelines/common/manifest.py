"""What an output was made of: compared before it is used or gone on with."""

from collections.abc import Mapping
from typing import Any


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
    if isinstance(old, dict) and isinstance(new, dict):
        changed = [
            f"{name} ({old.get(name)} there, {value} asked for)"
            for name, value in new.items()
            if old.get(name) != value
        ]
        return f"{key}: {', '.join(changed)}"
    if key == "inputs":
        was = {entry["path"]: entry for entry in old or ()}
        now = {entry["path"]: entry for entry in new}
        names = sorted(path for path in was.keys() | now.keys() if was.get(path) != now.get(path))
        return f"{key}: {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}"
    if isinstance(new, str | int | float | None):
        return f"{key} ({old} there, {new} asked for)"
    return key
