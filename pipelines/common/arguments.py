"""What the user wrote on the command line, as flags with values.

Written here in place of absl's reader, so that each mistake is one line that says what to write.
"""

import dataclasses
import shlex
from collections.abc import Iterator, Sequence

from absl import flags, logging

from pipelines.common import flag_types, texts
from pipelines.common.errors import InputError

_FILE = "flagfile"
# Flags as one text, quoted as for a shell: how `make` passes those that it does not know. They
# are meant to override those before them.
_MORE = "more_flags"
# What follows is for another program.
_OTHERS = "--"
_COMMENTS = ("#", "//")


@dataclasses.dataclass(frozen=True)
class Given:
    """A flag that was given, with its value.

    Attributes:
      name: of the flag, as it is defined.
      value: as it was written; "true" or "false" of a boolean.
      place: the line of a file of flags, with a colon; "" on the command line.
    """

    name: str
    value: str
    place: str


class UnknownFlagError(InputError):
    """There is no such flag.

    Attributes:
      name: of the flag, as it was written.
      place: as in `Given`.
    """

    def __init__(self, name: str, place: str):
        super().__init__(f"{place}unknown flag --{name}")
        self.name, self.place = name, place


def parse(words: Sequence[str], known: flags.FlagValues) -> None:
    """Gives flags the values that the user wrote; what follows -- is for another program.

    Args:
      words: of the command line.
      known: the flags that there are.

    Raises:
      InputError: there is no such flag, it has no value or a bad one, a required one is missing, or
        there is nobody for what follows --.
    """
    ours, others = _cut(words)
    found = [*read(ours, known), *_for_others(others, known)]
    for given in found:
        _check_value(given, known[given.name])
    there = {given.name for given in found}
    missing = [n for n in known if flag_types.is_required(known[n]) and n not in there]
    if missing:
        raise InputError(f"give {', '.join(f'--{name}' for name in missing)} too")
    known(["", *(f"--{given.name}={given.value}" for given in found)])


def _cut(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """The words before -- and those after it; None: there is no --."""
    if _OTHERS not in words:
        return words, None
    place = list(words).index(_OTHERS)
    return words[:place], words[place + 1 :]


def _for_others(words: Sequence[str] | None, known: flags.FlagValues) -> list[Given]:
    """What follows --, as the flag that takes words for another program.

    Raises:
      InputError: the command has no such flag.
    """
    if words is None:
        return []
    taker = next((name for name in known if flag_types.takes_words(known[name])), None)
    if taker is None:
        raise InputError(f"unexpected argument: {_OTHERS}; nothing follows it in this command")
    return [Given(taker, shlex.join(words), "")]


def read(words: Sequence[str], known: flags.FlagValues) -> list[Given]:
    """The flags that words of a command line give, in order; of one given again, the last counts.

    Args:
      words: of the command line.
      known: the flags that there are.

    Raises:
      InputError: something is no flag of these, has no value, or contradicts what stands before it.
    """
    found: list[Given] = []
    direct: dict[str, Given] = {}
    for given in _flags_of(iter(words), known, ""):
        if given.name == _FILE:
            inner = _read_file(given.value, known)
            for other in inner:
                _check_order(direct.get(other.name), other, given.value)
            found += inner
        elif given.name == _MORE:
            found += read(_split(given.value), known)
        else:
            if given.name in direct:
                _tell_twice(direct[given.name], given, known[given.name])
            direct[given.name] = given
            found.append(given)
    return found


def _read_file(path: str, known: flags.FlagValues, above: tuple[str, ...] = ()) -> list[Given]:
    """The flags of a file, and of files that it names; `above` are the files that named it."""
    if path in above:
        raise InputError(f"{path}: this file of flags names itself")
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"--{_FILE}={path}: {reason}") from error
    found: list[Given] = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith(_COMMENTS):
            continue
        for given in _flags_of(iter([line]), known, f"{path}: line {number}: "):
            if given.name == _FILE:
                found += _read_file(given.value, known, (*above, path))
            else:
                found.append(given)
    return found


def _flags_of(words: Iterator[str], known: flags.FlagValues, place: str) -> Iterator[Given]:
    """Words as flags with values; the value may be the word that follows."""
    for word in words:
        written, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not written:
            raise InputError(f"{place}{_surplus(word, known)}")
        if len(written.split()) > 1:
            raise InputError(f"{place}{word}: a flag and its value are written --flag=value")
        name, boolean = _find(written, known, place)
        if boolean is not None and (not equals or boolean == "false"):
            if equals:
                raise InputError(f"{place}{word}: --{written} takes no value")
            yield Given(name, boolean, place)
        else:
            yield Given(name, value if equals else _next(words, name, place), place)


def _find(written: str, known: flags.FlagValues, place: str) -> tuple[str, str | None]:
    """The name of a flag as it is defined, and of a boolean what its name alone says.

    Raises:
      UnknownFlagError: there is no such flag.
    """
    name = written.replace("-", "_")
    if name in (_FILE, _MORE):
        return name, None
    if name in known:
        return known[name].name, "true" if known[name].boolean else None
    for no in ("no_", "no"):
        positive = name.removeprefix(no)
        if positive != name and positive in known and known[positive].boolean:
            return positive, "false"
    raise UnknownFlagError(written, place)


def _next(words: Iterator[str], name: str, place: str) -> str:
    """The next word, which is the value of a flag.

    Raises:
      InputError: there is none, or it is another flag, or = between blanks.
    """
    value = next(words, "--")
    if value.startswith("--") or value == "=":
        raise InputError(f"{place}--{name} has no value; write --{name}=VALUE")
    return value


def _surplus(word: str, known: flags.FlagValues) -> str:
    """What to say of a word that is no flag."""
    name, equals, _ = word.partition("=")
    if equals and name.replace("-", "_") in known:
        return f"unexpected argument: {word}; did you mean --{word}?"
    return (
        f"unexpected argument: {word}; flags are written --flag=value, and a value with blanks or "
        "* between quotes"
    )


def _tell_twice(first: Given, given: Given, flag: flags.Flag) -> None:
    """Tells the user that one of two values is not taken."""
    if first.value != given.value:
        several = "," in flag_types.placeholder(flag)
        logging.warning(
            "--%s is given twice, as %s and as %s; the last counts%s",
            given.name,
            first.value,
            given.value,
            " (several values stand in one flag, with commas between)" if several else "",
        )


def _check_order(first: Given | None, given: Given, path: str) -> None:
    """Checks that a file does not override what the user wrote before it."""
    if first is not None and first.value != given.value:
        raise InputError(
            f"--{given.name}={first.value} would be overridden by {given.place}--{given.name}="
            f"{given.value}; put --{_FILE}={path} before it"
        )


def _split(text: str) -> list[str]:
    """Several flags in one text."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{text}: a quote has no end") from error


def _check_value(given: Given, flag: flags.Flag) -> None:
    """Checks that a value is text, and one that the flag takes."""
    written = f"{given.place}--{given.name}={given.value}"
    if texts.has_halves(given.value):
        raise InputError(f"{given.place}--{given.name}={given.value!r}: it is not UTF-8")
    try:
        flag.parser.parse(given.value)
    except (TypeError, ValueError, OverflowError) as error:
        reason = "it must be true or false" if flag.boolean else error
        raise InputError(f"{written}: {reason}") from error
