"""Texts and lines of labelled files, plain or gzipped."""

import codecs
import io
import re
from collections.abc import Iterator

from pipelines.common import compressed
from pipelines.common.errors import InputError
from pipelines.common.texts import UTF8

_MAX_LINE = 1 << 28  # bytes; a gzipped file of a few kilobytes can contain more
_PART = re.compile(r"(.+\.(?:json|xlsx)(?:\.(?:gz|bz2|xz|zst))?)#(.+)", re.IGNORECASE | re.DOTALL)
_BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def split_part(path: str) -> tuple[str, str | None]:
    """Returns a file, and its list or sheet that a path names, as in data.json#train; else None."""
    match = _PART.fullmatch(path)
    return (match[1], match[2]) if match else (path, None)


def ending(path: str) -> str:
    """Returns the extension of a file, without that of compression and without a part's name."""
    return compressed.ending_unpacked(split_part(path)[0])


def check_encoding(encoding: str) -> None:
    """Raises InputError if Python does not know an encoding of texts by this name."""
    try:
        "".encode(encoding)
    except (LookupError, UnicodeError) as error:
        raise InputError(
            f"--encoding={encoding}: is not the name of an encoding, such as cp1252, utf-16 or "
            "shift_jis."
        ) from error


def read_text(path: str, encoding: str = UTF8) -> str:
    """Reads a file; an InputError names the line that has another encoding."""
    data = compressed.read_unpacked(split_part(path)[0])
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _wrong_encoding(f"{path}: line {line}: byte {error.start}", data, encoding) from error
    # Without newlines, lines end with carriage returns, as on old Macs.
    return text if "\n" in text else text.replace("\r", "\n")


def read_lines(path: str, encoding: str = UTF8) -> Iterator[str]:
    """Yields the lines of `read_text` with their ends, one at a time; none may be too long."""
    if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):  # a newline has more bytes
        yield from io.StringIO(read_text(path, encoding), newline="\n")
        return
    position = 0
    with compressed.open_unpacked(split_part(path)[0]) as file:
        for number, data in enumerate(iter(lambda: file.readline(_MAX_LINE + 1), b""), 1):
            if len(data) > _MAX_LINE:
                raise InputError(
                    f"{path}: line {number}: has more than {_MAX_LINE:,} bytes; break the text "
                    "into lines."
                )
            try:
                line = data.decode(encoding)
            except UnicodeDecodeError as error:
                place = f"{path}: line {number}: byte {position + error.start}"
                raise _wrong_encoding(place, data, encoding) from error
            position += len(data)
            if number > 1 or line.endswith("\n"):
                yield line if number > 1 else line.removeprefix("\ufeff")
            else:
                # The whole file: without newlines, lines end with carriage returns.
                whole = line.removeprefix("\ufeff").replace("\r", "\n")
                yield from io.StringIO(whole, newline="\n")


def _wrong_encoding(place: str, data: bytes, encoding: str) -> InputError:
    """Returns the error for bytes that an encoding does not have; it names a likely encoding."""
    likely = "utf-16"
    if not data.startswith(_BYTE_ORDER_MARKS):
        likely = "cp1252"
        try:
            data.decode(likely)
        except UnicodeDecodeError:
            likely = "latin-1"
    return InputError(
        f"{place} is not {encoding.upper()}; name the encoding that the file was saved in, perhaps "
        f"--encoding={likely}."
    )
