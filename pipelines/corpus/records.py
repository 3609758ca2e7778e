"""Documents of tables (Parquet, Arrow) and of texts from the web (WET files of Common Crawl)."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from pipelines.common import arrow_tables, compressed, optional
from pipelines.common.arrow_tables import EXTRA
from pipelines.common.errors import InputError

_FORMATS = {".parquet": "parquet", ".arrow": "arrow", ".wet": "wet"}
FORMATS = tuple(_FORMATS.values())
_ROWS = 256  # in memory at once


def format_of(path: str) -> str | None:
    """The format of a file by its name; None: its content decides."""
    return _FORMATS.get(compressed.ending_unpacked(path))


def cuts(path: str, file_format: str, range_bytes: int) -> list[tuple[int, int]]:
    """Ranges of a file that can be read independently: row groups of Parquet, or all of it (-1).

    Args:
      path: the file.
      file_format: one of FORMATS.
      range_bytes: least bytes of text in a range, but for the last one.
    """
    if file_format != "parquet":
        return [(0, -1)]
    with arrow_tables.open_parquet(path, file_format) as table:
        metadata = table.metadata
    ranges, start, size = [], 0, 0
    for group in range(metadata.num_row_groups):
        size += metadata.row_group(group).total_byte_size
        if size >= range_bytes or group == metadata.num_row_groups - 1:
            ranges.append((start, group + 1))
            start, size = group + 1, 0
    return ranges


def documents(
    path: str, file_format: str, groups: tuple[int, int], field: str, replace: bool
) -> Iterator[tuple[str, str]]:
    """Yields the place and the text of each document, in the order of the file.

    Args:
      path: the file.
      file_format: one of FORMATS.
      groups: a range of `cuts`.
      field: the column of the texts in tables.
      replace: whether invalid bytes become U+FFFD, and NUL characters are removed.

    Raises:
      InputError: the file is damaged or of another kind, or has no such column of texts, or a
        package that reads it is not installed.
    """
    found = _web_texts(path) if file_format == "wet" else _rows(path, file_format, groups, field)
    for place, data in found:
        try:
            text = data.decode("utf-8", "replace" if replace else "strict")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{place}: byte 0x{data[error.start]:02x} is not UTF-8. Read bad bytes as U+FFFD "
                "with --utf8_errors=replace."
            ) from error
        if "\0" in text and not replace:
            raise InputError(f"{place}: a NUL character; drop them with --utf8_errors=replace.")
        yield place, text.replace("\0", "")


def _rows(
    path: str, file_format: str, groups: tuple[int, int], field: str
) -> Iterator[tuple[str, bytes]]:
    """The texts of a table, empty where there is none."""
    binary = optional.load("pyarrow", EXTRA).large_binary()
    chosen = range(*groups) if file_format == "parquet" else None
    with arrow_tables.open_rows(path, file_format, _ROWS, chosen, field) as (schema, batches):
        _check_column(schema, field, path)
        texts = (x for batch in batches for x in batch.column(field).cast(binary).to_pylist())
        for number, text in enumerate(texts, 1):
            yield f"{path}: row {number} (of groups from {groups[0]})", text or b""


def _check_column(schema: Any, field: str, path: str) -> None:
    """Raises InputError unless a table has a column of texts of this name."""
    arrow = optional.load("pyarrow", EXTRA)
    known = schema.names
    if field not in known:
        raise InputError(
            f"{path}: no column {field!r}; name one of {', '.join(known)} with --text_field."
        )
    kind = schema.field(field).type
    types = arrow.types
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        raise InputError(f"{path}: column {field!r} has no texts, but values of type {kind}.")


class _Stream:
    """A compressed file for warcio, which takes the EOFError of a truncated one for its end."""

    def __init__(self, path: str, file: BinaryIO):
        self._path, self._file = path, file

    def read(self, size: int = -1) -> bytes:
        """Reads up to `size` bytes; raises InputError if the file is truncated."""
        try:
            return self._file.read(size)
        except EOFError as error:
            raise InputError(f"{self._path}: is truncated ({error}); download it again.") from error


def _web_texts(path: str) -> Iterator[tuple[str, bytes]]:
    """The texts of a WET file, one for each page."""
    reader = optional.load("warcio.archiveiterator", EXTRA)
    errors = optional.load("warcio.exceptions", EXTRA)
    with compressed.open_unpacked(path) as file:
        try:
            stream = _Stream(path, file)
            for number, record in enumerate(reader.ArchiveIterator(stream), 1):
                place = f"{path}: record {number}"
                if record.rec_type == "response":
                    raise InputError(
                        f"{place}: is a page with its markup; use the WET file, which has the text."
                    )
                if record.rec_type == "conversion":
                    data = record.content_stream().read()
                    if len(data) != int(record.rec_headers.get_header("Content-Length", -1)):
                        raise InputError(f"{place}: the file is truncated; download it again.")
                    yield place, data
        except InputError:
            raise
        except (errors.ArchiveLoadFailed, ValueError) as error:
            raise InputError(f"{path}: is not a web archive that can be read ({error}).") from error
