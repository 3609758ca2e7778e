"""Documents of tables (Parquet, Arrow) and of texts from the web (WET files of Common Crawl)."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from pipelines.common import arrow_tables, compressed, optional
from pipelines.common.arrow_tables import EXTRA
from pipelines.common.errors import InputError

_FORMATS = {".parquet": "parquet", ".arrow": "arrow", ".wet": "wet"}
FORMATS = tuple(_FORMATS.values())
# Bounds of texts from the web; Common Crawl keeps 1 MiB of each.
_MAX_RECORD = 1 << 26  # bytes
_MAX_FIELDS, _MAX_HEADER = 1000, 1 << 16  # before a record, and bytes of each


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
    path: str, file_format: str, groups: tuple[int, int], fields: Sequence[str], replace: bool
) -> Iterator[str]:
    """Yields the text of each document, in the order of the file.

    Args:
      path: the file.
      file_format: one of FORMATS.
      groups: a range of `cuts`.
      fields: names of the column of the texts in tables; the first that a file has.
      replace: whether invalid bytes become U+FFFD, and NUL characters are removed.

    Raises:
      InputError: the file is damaged or of another kind, or has no such column of texts, or a
        package that reads it is not installed.
    """
    found = _web_texts(path) if file_format == "wet" else _rows(path, file_format, groups, fields)
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
        yield text.replace("\0", "")


def _rows(
    path: str, file_format: str, groups: tuple[int, int], fields: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """The texts of a table, empty where there is none."""
    binary = optional.load("pyarrow", EXTRA).large_binary()
    chosen = range(*groups) if file_format == "parquet" else None
    with arrow_tables.open_texts(path, file_format, fields, chosen) as batches:
        texts = (text for batch in batches for text in batch.cast(binary).to_pylist())
        for number, text in enumerate(texts, 1):
            yield f"{path}: row {number} (of groups from {groups[0]})", text or b""


def _web_texts(path: str) -> Iterator[tuple[str, bytes]]:
    """The texts of a WET file, one for each page (WARC 1.1, section 4)."""
    with compressed.open_unpacked(path) as file:
        number = 0
        while line := file.readline(_MAX_HEADER):
            if not line.strip():  # two blank lines end a record
                continue
            number += 1
            place = f"{path}: record {number}"
            if not line.startswith(b"WARC/"):
                raise InputError(
                    f"{place}: does not begin with WARC/1.0, so the file is not a web archive or "
                    "is damaged; download it again."
                )
            headers = _web_headers(file, place)
            data = file.read(_record_size(headers.get(b"content-length", b""), place))
            if len(data) != int(headers[b"content-length"]):
                raise InputError(f"{place}: the file is truncated; download it again.")
            if headers.get(b"warc-type") == b"response":
                raise InputError(
                    f"{place}: is a page with its markup; use the WET file, which has the text."
                )
            if headers.get(b"warc-type") == b"conversion":
                yield place, data


def _web_headers(file: BinaryIO, place: str) -> dict[bytes, bytes]:
    """The fields before a record, with names in lower case."""
    fields: dict[bytes, bytes] = {}
    for _ in range(_MAX_FIELDS):
        line = file.readline(_MAX_HEADER)
        if not line.strip():
            return fields
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
    raise InputError(f"{place}: has more than {_MAX_FIELDS} header fields; download it again.")


def _record_size(digits: bytes, place: str) -> int:
    if not digits.isdigit():
        raise InputError(f"{place}: has no Content-Length; download the file again.")
    if len(digits) > len(str(_MAX_RECORD)) or int(digits) > _MAX_RECORD:
        raise InputError(
            f"{place}: has {digits[:20].decode()} bytes, and a text from the web at most "
            f"{_MAX_RECORD:,}; remove the record."
        )
    return int(digits)
