"""The JSON file that says what an output was made of, and how far it is."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict

import msgspec

from pipelines.common import files, json_files, manifest
from pipelines.common.errors import InputError

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
# Of what is too long to be shown.
_SHOWN_AS = {"input_sha256": "input", "model": "model"}


class Counts(TypedDict):
    """What was odd about texts."""

    cut: Count  # had more tokens than max_length
    longest: Count  # tokens
    empty: Count


class State(TypedDict):
    """What every output says of itself; what it was made of stands beside."""

    rows: Count
    model: dict[str, str]
    settings: dict[str, Any]
    done: Count  # rows
    bytes: list[Count]  # of each file
    counts: Counts
    finished: bool


@dataclasses.dataclass(frozen=True)
class OutputKind:
    """A kind of output.

    Attributes:
      made_by: how a description of one says so.
      what: it is, such as "vectors".
      command: that makes it.
      schema: of its description, as `json_files.check` takes it.
    """

    made_by: str
    what: str
    command: str
    schema: Any


def find(place: str, kind: OutputKind) -> Any | None:
    """The description in a file, of the kind's schema; None if there is none.

    Raises:
      InputError: what is in its place is of something else, or damaged.
    """
    if not files.gfile.exists(place):
        return None
    found = json_files.read(place, dict[str, Any])
    if found.get("made_by") != kind.made_by:
        raise InputError(f"{place}: is there, and is not of {kind.what}; name another file (OUT=).")
    return json_files.check(found, kind.schema, place)


def difference(found: Mapping[str, Any], identity: Mapping[str, Any]) -> str | None:
    """Says in a few words where an output was made of something else; None if nowhere."""
    for key, name in _SHOWN_AS.items():
        if found.get(key) != identity[key]:
            return name
    return manifest.difference(found, identity)


def sizes(paths: Iterable[str]) -> list[int | None]:
    """Bytes of files; None of those that are not there."""
    return [files.gfile.stat(path).length if files.gfile.exists(path) else None for path in paths]
