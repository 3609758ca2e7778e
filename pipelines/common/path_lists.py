"""Lists of paths, patterns and names that users write as one text."""

import glob
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from pipelines.common import files
from pipelines.common.errors import InputError

_WORD = re.compile(r"""(?:[^\s,"'=]*=)?(?:"[^"]*"|'[^']*')(?=[\s,]|$)|[^\s,]+""")
_QUOTES = re.compile(r"""(^|=)(["'])(.*)\2\Z""", re.DOTALL)  # a path may have a newline


def expand_globs(patterns: str) -> list[str]:
    """Returns the sorted files that match glob patterns, which commas or blanks separate.

    In a local pattern, ** stands for any number of folders. The path of an existing file means that
    file, whatever characters it has. Patterns may be in quotes.

    Raises:
      InputError: A pattern matches no file, or is a folder.
    """
    whole = os.path.expanduser(patterns.strip())  # a shell leaves the ~ of --corpus=~/a
    if whole and _is_one(whole) and files.gfile.isdir(whole):
        raise InputError(f"{whole}: is a folder; name its files, such as '{whole}/*'.")
    paths: set[str] = set()
    words = [os.path.expanduser(word.text) for word in quoted_words(whole)]
    for pattern in [whole] if _is_one(whole) and _matches(whole) else words:
        found = _matches(pattern)
        if not found:
            raise InputError(f"{pattern}: no such file; check the path or the glob pattern.")
        paths.update(found)
    if not paths:
        raise InputError("no input was named; give one or more files or glob patterns.")
    return sorted(paths)


def _is_one(path: str) -> bool:
    """Whether a text can be one path: file systems reject a second scheme in the middle."""
    return path.count("://") < 2


def _matches(pattern: str) -> list[str]:
    if not pattern:
        return []
    if files.gfile.exists(pattern) and not files.gfile.isdir(pattern):
        return [pattern]
    if "**" in pattern and "://" not in pattern:  # which TensorFlow takes for *
        return [path for path in glob.iglob(pattern, recursive=True) if not files.gfile.isdir(path)]
    try:
        return [path for path in files.gfile.glob(pattern) if not files.gfile.isdir(path)]
    except UnicodeDecodeError as error:
        raise files.wrong_name(error) from error


class Word(NamedTuple):
    """A word of a text without its quotes, and its range in the text with them."""

    text: str
    start: int
    end: int


def quoted_words(text: str) -> list[Word]:
    """The words of a text, separated by commas and white space.

    Quotes protect separators if they enclose a whole word, or all of it after "=".
    """
    return [Word(_QUOTES.sub(r"\1\3", match[0]), *match.span()) for match in _WORD.finditer(text)]


def entries(text: str) -> list[str]:
    """Splits a list of names and of NAME=PATH at commas and blanks.

    A path may contain commas, blanks and "=" if it is quoted (NAME='PATH', 'NAME=PATH'), or if it
    exists. Options may follow a path after a question mark; they end at a comma or a blank.
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
        name, equals, path = entry.partition("=")
        found.append(f"{name}={os.path.expanduser(path)}" if equals else entry)
        words = words[count:]
    return found


def _has_path(entry: str) -> bool:
    path = entry.partition("=")[2]
    before, _, options = path.partition("?")
    forms = [path] if len(quoted_words(options)) > 1 else [path, before]
    return any(_is_one(form) and files.gfile.exists(form) for form in forms)


def named_folders(names: Sequence[str]) -> list[str]:
    """The folders of a list flag, without trailing slashes.

    Commas separate them, unless all of them together are the path of an existing folder.
    """
    whole = ",".join(names)
    one = _is_one(whole) and files.gfile.isdir(whole)
    return [os.path.expanduser(name).rstrip("/") for name in ([whole] if one else names)]
