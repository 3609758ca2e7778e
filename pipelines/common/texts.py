"""Text that comes from outside."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

ItemT = TypeVar("ItemT")
# What follows "byte N is not UTF-8": nobody guesses the encoding.
TO_UTF8 = "convert the file from the encoding it has: iconv -f ENCODING -t UTF-8 FILE > NEW"
# What ends lines, steers terminals, turns the direction of writing, or is half of a pair.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """A text as one line to show: characters that would end it, or do worse, as escapes."""
    return _UNSHOWN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def label(text: str, most: int = 80) -> str:
    """A text as a short label, such as the title of a window.

    Args:
      text: of any length. Control characters, and those that turn the direction of writing, are
        left out; white space becomes one blank.
      most: characters of the label; of a longer text the beginning is kept.
    """
    words = " ".join(text[: 4 * most].split())
    shown = "".join(c for c in words if unicodedata.category(c)[0] != "C")
    return shown if len(shown) <= most else f"{shown[: most - 1].rstrip()}…"


def counted(number: float, noun: str) -> str:
    """A number with its noun in singular or plural: "1 step", "2,000 steps", "0.5 minutes".

    Args:
      number: whole numbers have separators of thousands, others six significant digits.
      noun: in the singular; its plural ends in s.
    """
    shown = f"{int(number):,}" if float(number).is_integer() else f"{number:g}"
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


def has_halves(text: str) -> bool:
    """Whether a text has halves of surrogate pairs, so that UTF-8 cannot write it."""
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
