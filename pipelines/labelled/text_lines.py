"""Texts and lines of labelled files, plain or gzipped."""

import codecs
import functools
import io
import re
from collections.abc import Iterator

from absl import logging

from pipelines.common import compressed
from pipelines.common.errors import InputError
from pipelines.common.texts import UTF8, counted

# UTF-8 whose damaged bytes become U+FFFD, in place of the name of an encoding.
UTF8_REPLACED = "utf-8-replaced"
_MAX_LINE = 1 << 28  # bytes; a gzipped file of a few kilobytes can contain more
_MAX_BLANK = 100_000  # lines in a row
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
    if encoding == UTF8_REPLACED:
        return
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
        text = _decode(data, encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _wrong_encoding(path, line, error.start, data, encoding) from error
    # Without newlines, lines end with carriage returns, as on old Macs.
    return text if "\n" in text else text.replace("\r", "\n")


def read_lines(path: str, encoding: str = UTF8) -> Iterator[str]:
    """Yields the lines of `read_text` with their ends, one at a time.

    Raises:
      InputError: A line has another encoding or is too long, or too many in a row are blank.
    """
    blank = 0
    for line in _read_lines(path, encoding):
        blank = blank + 1 if line.isspace() else 0
        if blank > _MAX_BLANK:
            raise InputError(
                f"{path}: has more than {_MAX_BLANK:,} blank lines in a row; remove them."
            )
        yield line


def _read_lines(path: str, encoding: str) -> Iterator[str]:
    # In these, a newline has more bytes.
    if encoding != UTF8_REPLACED and codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
        yield from io.StringIO(read_text(path, encoding), newline="\n")
        return
    position = damaged = 0
    with compressed.open_unpacked(split_part(path)[0]) as file:
        for number, data in enumerate(iter(lambda: file.readline(_MAX_LINE + 1), b""), 1):
            if len(data) > _MAX_LINE:
                raise InputError(
                    f"{path}: line {number}: has more than {_MAX_LINE:,} bytes; break the text "
                    "into lines."
                )
            try:
                line = _decode(data, encoding)
            except UnicodeDecodeError as error:
                place = position + error.start
                raise _wrong_encoding(path, number, place, data, encoding) from error
            damaged += encoding == UTF8_REPLACED and "\ufffd" in line
            position += len(data)
            if number > 1 or line.endswith("\n"):
                yield line if number > 1 else line.removeprefix("\ufeff")
            else:
                # The whole file: without newlines, lines end with carriage returns.
                whole = line.removeprefix("\ufeff").replace("\r", "\n")
                yield from io.StringIO(whole, newline="\n")
    if damaged:
        _warn_of_damage(path, damaged)


@functools.cache  # a file is read several times
def _warn_of_damage(path: str, lines: int) -> None:
    logging.warning("%s: %s with U+FFFD.", path, counted(lines, "line"))


def _decode(data: bytes, encoding: str) -> str:
    return data.decode(UTF8, "replace") if encoding == UTF8_REPLACED else data.decode(encoding)


def _wrong_encoding(path: str, line: int, place: int, data: bytes, encoding: str) -> InputError:
    """Returns the error for bytes that an encoding does not have; it names the likely remedy.

    Args:
      path: the file.
      line: number of the line.
      place: number of the first wrong byte in the file.
      data: the bytes of the line, or the whole file.
      encoding: the encoding.
    """
    where = f"{path}: line {line}: byte {place} is not {encoding.upper()}"
    if data.startswith(_BYTE_ORDER_MARKS):
        likely = "utf-16"
    elif encoding == UTF8 and (damaged := _count_damaged(path)):
        return InputError(
            f"{where}, and the rest of the file is ({counted(damaged, 'damaged byte')} in all); "
            "fix the line, or read U+FFFD there with --utf8_errors=replace."
        )
    else:
        likely = "cp1252"
        try:
            data.decode(likely)
        except UnicodeDecodeError:
            likely = "latin-1"
    return InputError(
        f"{where}; name the encoding that the file was saved in, perhaps --encoding={likely}."
    )


def _count_damaged(path: str) -> int:
    """Returns the number of bytes that are not UTF-8, or 0 if the file has another encoding.

    Other encodings hardly ever form a sequence of several bytes that is valid in UTF-8, so a file
    with more of these than of wrong bytes is UTF-8.
    """
    wrong = right = 0
    with compressed.open_unpacked(split_part(path)[0]) as file:
        for data in iter(lambda: file.readline(_MAX_LINE), b""):
            if data.isascii():
                continue
            text = data.decode(UTF8, "surrogateescape")  # a wrong byte is U+DC80 to U+DCFF
            wrong += len(re.findall("[\udc80-\udcff]", text))
            right += len(re.findall("[^\x00-\x7f\udc80-\udcff]", text))
    return wrong if right > wrong else 0
