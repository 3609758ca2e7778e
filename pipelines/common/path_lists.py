"""Lists of paths, patterns and names that a user wrote as one text."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from pipelines.common import files
from pipelines.common.errors import InputError

_WORD = re.compile(r"""(?:[^\s,"'=]*=)?(?:"[^"]*"|'[^']*')(?=[\s,]|$)|[^\s,]+""")
_QUOTES = re.compile(r"""(^|=)(["'])(.*)\2\Z""", re.DOTALL)  # a path may have a newline


def expand_globs(patterns: str) -> list[str]:
    """Returns the sorted files that comma- or space-separated glob patterns name.

    What is the path of a file stands for that file, whatever characters it holds; so does what
    is between quotes, as a pattern.

    Raises:
      InputError: a pattern matches no file.
    """
    whole = patterns.strip()
    paths: set[str] = set()
    words = [word.text for word in quoted_words(whole)]
    for pattern in [whole] if _is_one(whole) and _matches(whole) else words:
        found = _matches(pattern)
        if not found:
            raise InputError(f"{pattern}: no such file; check the path or the glob pattern.")
        paths.update(found)
    if not paths:
        raise InputError("no input was named; give one or more files or glob patterns.")
    return sorted(paths)


def _is_one(path: str) -> bool:
    """Whether it can be one path; file systems refuse what names another in the middle."""
    return path.count("://") < 2


def _matches(pattern: str) -> list[str]:
    if not pattern:
        return []
    if files.gfile.exists(pattern) and not files.gfile.isdir(pattern):
        return [pattern]
    return [path for path in files.gfile.glob(pattern) if not files.gfile.isdir(path)]


class Word(NamedTuple):
    """A word of a text without its quotes, and where it stands with them."""

    text: str
    start: int
    end: int


def quoted_words(text: str) -> list[Word]:
    """The words of a text, which commas and white space separate that are not between quotes.

    Quotes count where they are round a whole word, or round all of it that follows "=".
    """
    return [Word(_QUOTES.sub(r"\1\3", match[0]), *match.span()) for match in _WORD.finditer(text)]


def entries(text: str) -> list[str]:
    """Splits a list of names and of NAME=PATH at commas and blanks.

    A name has neither. A path may have both, and "=": between quotes (NAME='PATH', 'NAME=PATH'),
    or as it is where there is a file or folder of that path. Behind a question mark, a path may
    have options, which are not looked for.
    """
    words = quoted_words(text)
    found = []
    while words:
        first, count = words[0], 1
        if "=" in first.text:
            ends = ((n, text[first.start : words[n - 1].end]) for n in range(len(words), 1, -1))
            count, entry = next((each for each in ends if _has_path(each[1])), (1, first.text))
        else:
            entry = first.text
        found.append(entry)
        words = words[count:]
    return found


def _has_path(entry: str) -> bool:
    path = entry.partition("=")[2]
    forms = {path, path.partition("?")[0]}
    return any(_is_one(form) and files.gfile.exists(form) for form in forms)


def named_folders(names: Sequence[str]) -> list[str]:
    """The folders of a flag that is a list, without slashes at their ends.

    Commas separate them, unless they are part of the path of one that is there.
    """
    whole = ",".join(names)
    one = _is_one(whole) and files.gfile.isdir(whole)
    return [name.rstrip("/") for name in ([whole] if one else names)]
