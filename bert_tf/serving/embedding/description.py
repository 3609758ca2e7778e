"""<file>.json beside a file of vectors: what they were made of, and how far that is."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict

import msgspec

from bert_tf.serving.embedding.formats import VectorFormat
from pipelines.common import files, json_files, manifest
from pipelines.common.errors import InputError

MADE_BY = "bert_tf.embed"
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
# Of what is too long to be shown.
_SHOWN_AS = {"input_sha256": "input", "model": "model"}


class Counts(TypedDict):
    """What was odd about texts."""

    cut: _Count  # had more tokens than max_length
    longest: _Count  # tokens
    empty: _Count


class Description(TypedDict):
    """What a file of vectors says of itself; more of what it was made of besides."""

    format: VectorFormat
    rows: _Count
    width: _Count
    model: dict[str, str]
    settings: dict[str, Any]
    done: _Count  # rows
    bytes: list[_Count]  # of each file
    counts: Counts
    finished: bool


def path_of(path: str) -> str:
    """The description of a file of vectors."""
    return f"{path}.json"


def find(path: str) -> Description | None:
    """The description of a file of vectors; None if there is none.

    Raises:
      InputError: what is in its place is of something else, or damaged.
    """
    place = path_of(path)
    if not files.gfile.exists(place):
        return None
    found = json_files.read(place, dict[str, Any])
    if found.get("made_by") != MADE_BY:
        raise InputError(f"{place}: is there, and is not of vectors; name another file (OUT=).")
    return json_files.check(found, Description, place)


def difference(found: Mapping[str, Any], identity: Mapping[str, Any]) -> str | None:
    """Says in a few words where vectors were made of something else; None if nowhere."""
    for key, name in _SHOWN_AS.items():
        if found.get(key) != identity[key]:
            return name
    return manifest.difference(found, identity)


def sizes(paths: Iterable[str]) -> list[int | None]:
    """Bytes of files; None of those that are not there."""
    return [files.gfile.stat(path).length if files.gfile.exists(path) else None for path in paths]
