"""Texts from outside, and texts of messages."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

ItemT = TypeVar("ItemT")
UTF8 = "utf-8"  # the usual encoding
# The remedy after "byte N is not UTF-8".
TO_UTF8 = "convert the file from its encoding: iconv -f ENCODING -t UTF-8 FILE > NEW"
# Line ends, control characters, changes of the direction of writing, and half surrogate pairs.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """A text as one line; line ends and control characters become escape sequences."""
    return _UNSHOWN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def label(text: str, max_length: int = 80) -> str:
    """The beginning of a text as a short label, such as the title of a window.

    Control characters are removed, and white space becomes one blank.
    """
    words = " ".join(text[: 4 * max_length].split())
    shown = "".join(c for c in words if unicodedata.category(c)[0] != "C")
    return shown if len(shown) <= max_length else f"{shown[: max_length - 1].rstrip()}…"


def shorten(value: object, limit: int = 300) -> str:
    """A value as a text, cut if it is longer than the limit."""
    text = str(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def listed(names: Sequence[str], limit: int) -> str:
    """Names separated by commas; the first ones and the number of others, if there are many."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def counted(number: float, noun: str) -> str:
    """A number with a noun, whose plural ends in s: "1 step", "2,000 steps", "0.5 minutes"."""
    shown = f"{int(number):,}" if float(number).is_integer() else f"{number:g}"
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


def has_halves(text: str) -> bool:
    """Whether a text has halves of surrogate pairs, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def blocks(
    items: Iterable[ItemT], size_of: Callable[[ItemT], int], size: int
) -> Iterator[list[ItemT]]:
    """Yields items in blocks, each of which ends when it has reached a size."""
    block: list[ItemT] = []
    total = 0
    for item in items:
        block.append(item)
        total += size_of(item)
        if total >= size:
            yield block
            block, total = [], 0
    if block:
        yield block
