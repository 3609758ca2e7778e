"""Rows of Parquet and Arrow files, with the names of labels that Hugging Face datasets keep."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.common import arrow_tables, files, json_files, optional
from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.labelled.table_rows import TableRow
from pipelines.labelled.text_lines import ending

_FORMATS = {".parquet": "Parquet", ".arrow": "Arrow"}
ENDINGS = tuple(_FORMATS)
# Names of the first of several files; the number of a Parquet file may be followed by a checksum.
_FIRST = re.compile(r"(.*-)00000-of-([0-9]{5})(?:-[0-9a-f]+)?\.(?:parquet|arrow)")
_UNDECIDED = "-"  # a label that is missing, as in SNLI


def read(path: str) -> Iterator[TableRow]:
    """Yields the rows of a file, with names for labels that are numbers and have names.

    Raises:
      InputError: the file is damaged, or the library that reads it is not installed.
    """
    name = _FORMATS[ending(path)]
    with arrow_tables.open_rows(path, name) as (schema, batches):
        names = _label_names(schema, path)
        rows = (row for batch in batches for row in _rows(batch, path))
        for number, row in enumerate(rows, 1):
            named = {column: _named(row[column], names[column]) for column in names}
            yield TableRow(row | named, f"{path}: row {number}", format=name)


def _rows(batch: Any, path: str) -> list[dict[str, Any]]:
    """The rows of a batch; times are texts, as Python's have smaller ranges and no nanoseconds."""
    arrow = optional.load("pyarrow", arrow_tables.EXTRA)
    for index, field in enumerate(batch.schema):
        if arrow.types.is_temporal(field.type):
            times = batch.column(index).cast(arrow.string())
            batch = batch.set_column(index, field.name, times)
    try:
        return batch.to_pylist()
    except ValueError as error:
        raise InputError(f"{path}: has a value that cannot be read ({error}).") from error


def shards(path: str) -> list[str]:
    """Returns the files of a table, given the first, such as train-00000-of-00002.parquet.

    Raises:
      InputError: some are missing, or there are several with the same number.
    """
    folder, name = os.path.split(path)
    first = _FIRST.fullmatch(name)
    if not first:
        return [path]
    stem, count = first[1], int(first[2])
    pattern = re.compile(
        rf"{re.escape(stem)}[0-9]{{5}}-of-{first[2]}(-[0-9a-f]+)?{re.escape(ending(path))}"
    )
    found = [name for name in files.names_in(folder or ".") if pattern.fullmatch(name)]
    if [name[: len(stem) + 5] for name in found] != [f"{stem}{n:05}" for n in range(count)]:
        raise InputError(
            f"{path}: is the first of {counted(count, 'file')}, but there are {len(found)} of them "
            f"({stem}*-of-{first[2]}*); download all, without copies."
        )
    return [os.path.join(folder, name) for name in found]


def info_beside(path: str) -> str:
    """Where `datasets` keeps the names of the labels of a file that lacks them."""
    return os.path.join(os.path.dirname(path), "dataset_info.json")


def _label_names(schema: Any, path: str) -> dict[str, list[str]]:
    """Returns the names of labels by column, as `datasets` keeps them in the file or next to it."""
    stored = (schema.metadata or {}).get(b"huggingface")
    beside = info_beside(path)
    info: Any = {}
    if stored:
        text = stored.decode(errors="replace")
        found = json_files.parse(text, f"{path}: its metadata of datasets", finite=False)
        info = found.get("info") if isinstance(found, dict) else None
    elif files.gfile.exists(beside):
        info = json_files.read(beside, dict[str, Any], finite=False)
    features = info.get("features") if isinstance(info, dict) else None
    named = {name: _names_of(feature) for name, feature in (features or {}).items()}
    return {name: names for name, names in named.items() if names and name in schema.names}


def _names_of(feature: Any) -> list[str] | None:
    """Returns the names of a label, or of the items of a list of labels."""
    if isinstance(feature, Sequence) and len(feature) == 1:
        return _names_of(feature[0])
    if not isinstance(feature, Mapping):
        return None
    if feature.get("_type") == "ClassLabel":
        return feature.get("names")
    return _names_of(feature.get("feature"))


def _named(value: Any, names: Sequence[str]) -> Any:
    """Returns the name of a label, or the names of a list of labels; -1 is a missing label."""
    if isinstance(value, list):
        return [_named(item, names) for item in value]
    if not isinstance(value, int) or value >= len(names):
        return value
    return names[value] if value >= 0 else _UNDECIDED
