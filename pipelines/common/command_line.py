"""What every command shares: its flags and their help, how it runs, stops, and reports bad input.

TensorFlow takes seconds to start. So a command's module imports it in its `main` only, when flags
were read: --help and wrong flags are answered at once.
"""

import importlib
import math
import shlex
import sys
import textwrap
from typing import Any, TypeVar

from absl import app, flags, logging

from pipelines.common import stopping, texts
from pipelines.common.errors import InputError

# The exit status of bad input; that of a stop is `stopping.Stopped.status`.
BAD_INPUT = 2
_LARGEST = 1 << 63
_LONGEST_MESSAGE = 2000  # characters
# Flags as one text, quoted as for a shell: how `make` passes those that it does not know.
_MORE_FLAGS = "--more_flags="
_HELP = ("--help", "-help", "-h", "--helpshort", "--helpfull")
_ROOMS = ("bert_tf.", "pipelines.", "benchmarks.")  # whose flags are shown
NumberT = TypeVar("NumberT", int, float)
flags.disclaim_key_flags()  # what is defined here belongs to the command that calls


def run(program: str, module: str, arguments: list[str]) -> None:
    """Runs a command; bad input is one line and exit status 2.

    Args:
      program: its name, as the user calls it.
      module: which defines its flags, and `main`.
      arguments: those of the command line.
    """
    stopping.end_at_once()
    command = importlib.import_module(module)
    if any(argument in _HELP for argument in arguments):
        print(_help(program, command.__doc__))
        return

    def guarded(argv: list[str]) -> None:
        if len(argv) > 1:
            _end(f"error: unexpected argument: {argv[1]} (--help lists the flags)")
        from pipelines.common import quiet_start

        quiet_start.import_tensorflow()
        try:
            stopping.raise_stopped()
            command.main()
            stopping.end_at_once()
        except InputError as error:
            _end(f"error: {error}")
        except MemoryError:
            _end("error: out of memory; choose something smaller, or a machine with more.")
        except stopping.Stopped as stop:
            _end(str(stop), stop.status)
        except Exception as error:
            if not _is_outside(error):
                raise
            logging.debug("where it happened", exc_info=True)
            _end(f"error: {_reason(error)}")

    logging.set_verbosity(logging.INFO)
    # TensorFlow reports how long each checkpoint took, in the midst of progress bars.
    logging.get_absl_logger().addFilter(lambda record: record.module != "functional_saver")
    app.run(guarded, [program, *arguments], flags_parser=_parse)


def _help(program: str, about: str | None) -> str:
    """What --help prints: what the command does, and its flags with their defaults."""
    lines = [f"usage: {program} [--flag=value ...]", "", (about or "").strip(), "", "flags:"]
    for name in sorted(flags.FLAGS):
        flag = flags.FLAGS[name]
        owner = flags.FLAGS.find_module_defining_flag(name) or ""
        if not owner.startswith(_ROOMS) or name != flag.name:
            continue
        default = "" if flag.default_as_str is None else f"={flag.default_as_str.strip(chr(39))}"
        required = any("other than None" in found.message for found in flag.validators)
        text = f"{flag.help} Required." if required else str(flag.help)
        lines.append(f"  --{name}{default}")
        lines += textwrap.wrap(text, 96, initial_indent="      ", subsequent_indent="      ")
    lines += ["  --flagfile=FILE", "      Flags, one a line; # begins a comment."]
    return "\n".join(lines)


def _end(message: str, status: int = BAD_INPUT) -> None:
    stopping.end_at_once()
    if len(message) > _LONGEST_MESSAGE:  # it has text of the user's in it
        message = f"{message[: _LONGEST_MESSAGE // 2]} … {message[-_LONGEST_MESSAGE // 4 :]}"
    print(message, file=sys.stderr)
    sys.exit(status)


def _is_outside(error: Exception) -> bool:
    """Whether an error is of a file system, or of TensorFlow's ops."""
    import tensorflow as tf

    return isinstance(error, OSError | tf.errors.OpError)


def _reason(error: Any) -> str:
    """What a file system or TensorFlow could not do, in one line."""
    from pipelines.common import files

    if files.is_disk_full(error):
        return files.DISK_FULL
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}; check the path and its permissions."
    if isinstance(error, OSError):
        return str(error.strerror or error) + "."
    return (error.message.strip().splitlines() or [type(error).__name__])[0]


def _parse(argv: list[str]) -> list[str]:
    """Parses flags; a bad one is one line and exit status 2, as other bad input."""
    try:
        arguments = flags.FLAGS.read_flags_from_files(_expanded(argv[1:]), force_gnu=True)
        rest = flags.FLAGS([argv[0], *map(_spelled, arguments)])
        for name in flags.FLAGS:
            _check(flags.FLAGS[name])
        return rest
    except (flags.Error, InputError) as error:
        _end(f"error: {error} (--help lists the flags)")
        raise AssertionError from error  # _end does not return


def _spelled(argument: str) -> str:
    """An argument with its flag as it is defined: --max-length is --max_length."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument[2:].partition("=")
    name = name.replace("-", "_")
    if name.startswith("no_") and name not in flags.FLAGS:
        name = f"no{name[3:]}"
    return f"--{name}{equals}{value}"


def _expanded(argv: list[str]) -> list[str]:
    """The arguments, with those that are several flags in one text split.

    Raises:
      InputError: a quote has no end.
    """
    found = []
    for argument in argv:
        if not argument.startswith(_MORE_FLAGS):
            found.append(argument)
            continue
        text = argument.removeprefix(_MORE_FLAGS)
        try:
            found += shlex.split(text)
        except ValueError as error:
            raise InputError(f"{text}: a quote has no end.") from error
    return found


def _check(flag: flags.Flag) -> None:
    """Raises InputError where the value of a flag is no text, or no number to compute with."""
    value = flag.value
    for text in value if isinstance(value, list | tuple) else [value]:
        if isinstance(text, str) and texts.has_halves(text):
            raise InputError(f"--{flag.name}={text!r}: it is not UTF-8.")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"--{flag.name}={value}: it must be a finite number.")
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise InputError(f"--{flag.name}={value}: it is beyond 64 bits.")


def define_path(
    name: str, default: str | None, text: str, required: bool = False
) -> flags.FlagHolder:
    """Defines the flag of a file or folder to write; a slash at its end does not count.

    Args:
      name: of the flag.
      default: its value where it is not given.
      text: for --help.
      required: whether it must be given.
    """
    return flags.DEFINE(_PathParser(), name, default, text, required=required)


class _PathParser(flags.ArgumentParser):
    """Parses the path of something to write."""

    def parse(self, argument: str) -> str:
        """The path without a slash at its end; a ValueError where it is none."""
        if not argument.strip() or "\0" in argument:
            raise ValueError("it names nothing; give the path of what to write")
        return argument.rstrip("/") or "/"

    def flag_type(self) -> str:
        """What --help calls its values."""
        return "path"


def numbers(flag: flags.FlagHolder, kind: type[NumberT], least: float = -math.inf) -> list[NumberT]:
    """The value of a list flag as numbers.

    Args:
      flag: the flag.
      kind: int or float.
      least: the smallest number that it may have.

    Raises:
      InputError: it has none, or something else.
    """
    try:
        found = [kind(text) for text in flag.value]
    except ValueError:
        found = []
    if not found or not all(least <= x < _LARGEST for x in found):  # NaN is neither
        name = "whole numbers" if kind is int else "numbers"
        least_of = f" of {least:g} or more" if least > -math.inf else ""
        raise InputError(f"--{flag.name}={','.join(flag.value)}: not a list of {name}{least_of}.")
    return found


def pairs(entries: list[str], flag: str) -> dict[str, str]:
    """A list flag of ROLE=VALUE entries as a dict.

    Raises:
      InputError: an entry is of another form.
    """
    found = {}
    for entry in entries:
        role, equals, value = entry.partition("=")
        if not equals:
            raise InputError(f"{flag}: {entry!r} is not of the form ROLE=NAME.")
        found[role.strip()] = value.strip()
    return found
