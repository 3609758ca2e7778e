"""Reads the command line into flags, so that each mistake is one line with the remedy.

Absl stores the values. Its own reader would not name the line of a flag file, and would not accept
`--no_flag`, `--more_flags`, or `-` for `_` in names.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import flags, logging

from pipelines.common import flag_types, texts
from pipelines.common.errors import InputError

_FILE = "flagfile"
# Several flags as one text, quoted as for a shell: how `make` passes ARGS. They override others.
_MORE = "more_flags"


class Given(NamedTuple):
    """A flag as the user wrote it; `place` is the line of a flag file with a colon, or empty."""

    name: str
    value: str
    place: str


class UnknownFlagError(InputError):
    """A flag that the command does not have; `name` is its name as it was written."""

    def __init__(self, name: str, place: str):
        super().__init__(f"{place}unknown flag --{name}")
        self.name = name


def parse(words: Sequence[str], known: flags.FlagValues) -> None:
    """Sets flags to the values of a command line.

    Args:
      words: The words of the command line. Those after `--` are for another program.
      known: All flags of the command.

    Raises:
      InputError: A flag is unknown, lacks its value, or has a wrong one; a required flag is
        missing or empty; or the command does not take words after `--`.
    """
    words = list(words)
    ours = words[: words.index("--")] if "--" in words else words
    found = _read(ours, known)
    if "--" in words:
        takers = [n for n in known if isinstance(known[n].parser, flag_types.WordsParser)]
        if not takers:
            raise InputError("unexpected argument: --; this command takes nothing after it")
        found.append(Given(takers[0], shlex.join(words[len(ours) + 1 :]), ""))
    for given in found:
        _check_value(given, known[given.name])
    last = {given.name: given.value for given in found}
    missing = [n for n in known if flag_types.is_required(known[n]) and not last.get(n)]
    if missing:
        raise InputError(f"missing {', '.join(f'--{name}' for name in missing)}")
    known(["", *(f"--{given.name}={given.value}" for given in found)])


def _read(
    words: Sequence[str], known: flags.FlagValues, above: tuple[str, ...] = ()
) -> list[Given]:
    """The flags of a command line, in ascending order of precedence; `above` as of `_read_file`."""
    from_files: list[Given] = []
    own: list[Given] = []
    more: list[Given] = []
    for given in _flags_of(iter(words), known, ""):
        if given.name == _FILE:
            from_files += _read_file(given.value, known, above)
        elif given.name == _MORE:
            more += _read(flag_types.split(given.value), known, above)
        else:
            own.append(given)
    _warn_of_ignored(own, known)
    return [*from_files, *own, *more]


def _read_file(path: str, known: flags.FlagValues, above: tuple[str, ...] = ()) -> list[Given]:
    """The flags of a file and of the files that it names; `above` are the files that named it."""
    if path in above:
        raise InputError(f"{path}: this flag file includes itself")
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"--{_FILE}={path}: {reason}") from error
    found: list[Given] = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if line and not line.startswith(("#", "//")):
            for given in _flags_of(iter([line]), known, f"{path}: line {number}: "):
                if given.name == _FILE:
                    found += _read_file(given.value, known, (*above, path))
                elif given.name == _MORE:
                    found += _read(flag_types.split(given.value), known, (*above, path))
                else:
                    found.append(given)
    return found


def _flags_of(words: Iterator[str], known: flags.FlagValues, place: str) -> Iterator[Given]:
    """Words as flags with values; the value may be the next word."""
    for word in words:
        written, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not written:
            raise InputError(
                f"{place}unexpected argument: {word}; write --flag=value, and put a value with "
                "blanks or * in quotes"
            )
        name, boolean = _find(written, known, place)
        if boolean is None and not equals:
            value = next(words, "--")
            if value.startswith("--") or value == "=":
                raise InputError(f"{place}--{name} has no value; write --{name}=VALUE")
        elif boolean == "false" and equals:
            raise InputError(f"{place}{word}: --{written} takes no value")
        elif boolean is not None and not equals:
            value = boolean
        yield Given(name, value, place)


def _find(written: str, known: flags.FlagValues, place: str) -> tuple[str, str | None]:
    """The name of a flag as it is defined, and the value of a boolean that has only a name."""
    name = written.replace("-", "_")
    if name in (_FILE, _MORE):
        return name, None
    if name in known:
        return known[name].name, "true" if known[name].boolean else None
    for positive in (name.removeprefix("no_"), name.removeprefix("no")):
        if positive != name and positive in known and known[positive].boolean:
            return positive, "false"
    raise UnknownFlagError(written, place)


def _warn_of_ignored(found: Sequence[Given], known: flags.FlagValues) -> None:
    """Warns of each value that a later one replaces."""
    last: dict[str, str] = {}
    for name, value, _ in found:
        before, last[name] = last.get(name, value), value
        if before != value and not isinstance(known[name], flags.MultiFlag):
            several = "," in flag_types.placeholder(known[name])
            hint = " (separate several values with commas)" if several else ""
            logging.warning("--%s=%s is ignored for --%s=%s%s", name, before, name, value, hint)


def _check_value(given: Given, flag: flags.Flag) -> None:
    """Checks that a flag takes a value."""
    if texts.has_halves(given.value):
        raise InputError(f"{given.place}--{given.name}={given.value!r}: it is not UTF-8")
    try:
        flag.parser.parse(given.value)
    except (TypeError, ValueError, OverflowError) as error:
        reason = "it must be true or false" if flag.boolean else error
        raise InputError(f"{given.place}--{given.name}={given.value}: {reason}") from error
