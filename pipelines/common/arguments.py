"""Reads the command line into flags, so that each mistake is one line with the remedy.

Absl stores the values. Its own reader would not name the line of a flag file, and would not accept
`--no_flag`, `--more_flags`, or `-` for `_` in names.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from absl import flags, logging

from pipelines.common import flag_types, texts
from pipelines.common.errors import InputError
from pipelines.common.flag_types import Flag

_FILE = "flagfile"
_MORE = "more_flags"  # several flags as one text, quoted as for a shell: how `make` passes ARGS


class _Given(NamedTuple):
    """A flag as the user wrote it; `place` is the line of a flag file with a colon, or empty."""

    name: str
    value: str
    place: str


class UnknownFlagError(InputError):
    """A flag that the command does not have; `name` is its name as it was written."""

    def __init__(self, name: str, place: str):
        super().__init__(f"{place}unknown flag --{name}")
        self.name = name


def parse(words: Sequence[str], known: Mapping[str, Flag]) -> None:
    """Sets flags to the values of a command line, which override those of flag files.

    Args:
      words: The words of the command line. Those after `--` are for another program.
      known: All flags of the command.

    Raises:
      InputError: A flag is unknown, lacks its value, or has a wrong one; a required flag is
        missing or empty; or the command does not take words after `--`.
    """
    words = list(words)
    end = words.index("--") if "--" in words else len(words)
    found = sorted(_given(words[:end], known), key=lambda given: not given.place)
    if end < len(words):
        takers = [name for name in known if known[name].parser is flag_types.WORDS]
        if not takers:
            raise InputError("unexpected argument: --; this command takes nothing after it")
        found.append(_Given(takers[0], shlex.join(words[end + 1 :]), ""))
    last = {given.name: given.value for given in found}
    missing = [f"--{name}" for name in known if known[name].required and not last.get(name)]
    if missing:
        raise InputError(f"missing {', '.join(missing)}")
    before: dict[str, str] = {}
    for given in found:
        _set(given, known[given.name], before.get(given.name, given.value))
        if not given.place:
            before[given.name] = given.value
    flags.FLAGS.mark_as_parsed()


def _set(given: _Given, flag: Flag, before: str) -> None:
    """Sets a flag; warns if that replaces another value of the command line."""
    if texts.has_halves(given.value):
        raise InputError(f"{given.place}--{given.name}={given.value!r}: it is not UTF-8")
    try:
        flag.parse(given.value)
    except flags.IllegalFlagValueError as error:
        raise InputError(f"{given.place}{str(error).removeprefix('flag ')}") from error
    if before != given.value and not flag.repeated:
        several = "," in flag.parser.placeholder
        hint = " (separate several values with commas)" if several else ""
        old, new = (f"--{given.name}={value}" for value in (before, given.value))
        logging.warning("%s is ignored for %s%s", old, new, hint)


def _given(
    words: Iterable[str], known: Mapping[str, Flag], place: str = "", above: tuple[str, ...] = ()
) -> Iterator[_Given]:
    """Words, and those of the files that they name, as flags with values.

    Args:
      words: The words; a value may be the next word.
      known: All flags.
      place: As of `_Given`.
      above: The files that the words are in.
    """
    words = iter(words)
    for word in words:
        written, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not written:
            raise InputError(
                f"{place}unexpected argument: {word}; write --flag=value, and put a value with "
                "blanks or * in quotes"
            )
        name = written.replace("-", "_")
        positive = re.sub("^no_?", "", name)
        if name not in known and positive in known and known[positive].boolean:
            if equals:
                raise InputError(f"{place}{word}: --{written} takes no value")
            name, value = positive, "false"
        elif name not in known and name not in (_FILE, _MORE):
            raise UnknownFlagError(written, place)
        elif not equals and name in known and known[name].boolean:
            value = "true"
        elif not equals:
            value = next(words, "--")
            if value.startswith("--") or value == "=":
                raise InputError(f"{place}--{name} has no value; write --{name}=VALUE")
        if name == _FILE:
            for line, where in _lines(value, above):
                yield from _given([line], known, where, (*above, value))
        elif name == _MORE:
            yield from _given(flag_types.split(value), known, place, above)
        else:
            yield _Given(name, value, place)


def _lines(path: str, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The lines of a flag file, each with its place."""
    if path in above:
        raise InputError(f"{path}: this flag file includes itself")
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"--{_FILE}={path}: {reason}") from error
    for number, line in enumerate(map(str.strip, lines), 1):
        if line and not line.startswith(("#", "//")):
            yield line, f"{path}: line {number}: "
