"""Text that comes from outside."""

import re

# What ends lines, steers terminals, turns the direction of writing, or is half of a pair.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """A text as one line to show: characters that would end it, or do worse, as escapes."""
    return _UNSHOWN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def has_halves(text: str) -> bool:
    """Whether a text has halves of surrogate pairs, so that UTF-8 cannot write it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
