"""What every command shares: flags and help, start, stop, and errors of the user in one line.

A command is a module with a docstring, which is the beginning of --help, and a function `main`,
whose parameters are the flags. TensorFlow takes seconds to start. A module imports it in its `main`
only, after the flags were read, so --help and errors in flags appear at once. What can start beside
TensorFlow, a module starts in a function `prepare`, which gets the same arguments.
"""

import faulthandler
import importlib
import os
import signal
import stat
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from absl import flags, logging

from pipelines.common import (
    arguments,
    flag_help,
    flag_types,
    foreign_flags,
    settings,
    stopping,
    texts,
)
from pipelines.common.errors import InputError, RetryError

# The exit status after bad input; that after a signal is `stopping.Stopped.status`.
BAD_INPUT = 2
RETRY = os.EX_TEMPFAIL  # 75: the same command, run again, resumes
_LONGEST_MESSAGE = 2000  # characters
_HELP = {"--help", "-help", "-h", "--helpshort", "--helpfull"}
_NO_OTHERS: Mapping[str, str] = types.MappingProxyType({})


def run(
    program: str,
    module: str,
    words: Sequence[str],
    others: Mapping[str, str] = _NO_OTHERS,
    presets: Mapping[str, str] = _NO_OTHERS,
) -> None:
    """Runs a command; bad input is one line and exit status 2, a temporary failure status 75.

    Args:
      program: Name of the command, as the user calls it.
      module: Name of the module that defines its flags and `main`.
      words: The words of the command line after the command.
      others: Modules of all commands by name, so that an error can name the command of a flag.
      presets: Values of flags that the command has already given, by name.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    stopping.end_at_once()
    command, known = importlib.import_module(module), flags_of(module)
    for name, value in presets.items():
        known.pop(name).parse(value)
    if not _HELP.isdisjoint(words):
        flag_help.show(flag_help.page(program, command.__doc__ or "", [*known.values()]))
        return
    faulthandler.enable()
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    # TensorFlow reports how long each checkpoint took, in the midst of progress bars.
    logging.get_absl_logger().addFilter(lambda record: record.module != "functional_saver")
    try:
        arguments.parse(words, known)
    except InputError as error:
        hint = ""
        if isinstance(error, arguments.UnknownFlagError):
            hint = _hint(error.name, known, others)
        _end(f"error: {error}{hint} (--help lists the flags)")
    _run_main(command)


def _run_main(command: Any) -> None:
    """Runs the `main` of a command's module, and reports its errors."""
    from pipelines.common import quiet_start

    try:
        given = settings.arguments_of(command.main)
        if "tensorflow" not in sys.modules and hasattr(command, "prepare"):
            command.prepare(**given)
        quiet_start.import_tensorflow()
        stopping.raise_stopped()
        command.main(**given)
        stopping.end_at_once()
    except InputError as error:
        _end(f"error: {error}")
    except RetryError as error:
        leave(f"error: {error}")
    except MemoryError:
        _end("error: out of memory; choose smaller settings, or a machine with more memory.")
    except stopping.Stopped as stop:
        _end(str(stop), stop.status)
    except Exception as error:
        broken = isinstance(error, BrokenPipeError)
        if broken and stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
            flag_help.drop_output()
            sys.exit(128 + signal.SIGPIPE)
        reason = _reason(error)
        if reason is None:
            raise
        logging.debug("traceback", exc_info=True)
        _end(f"error: {reason}")


def _end(message: str, status: int = BAD_INPUT) -> NoReturn:
    stopping.end_at_once()
    message = texts.one_line(message)  # messages of file systems quote names
    if len(message) > _LONGEST_MESSAGE:  # it quotes a text of the user
        message = f"{message[: _LONGEST_MESSAGE // 2]} … {message[-_LONGEST_MESSAGE // 4 :]}"
    print(message, file=sys.stderr)
    sys.exit(status)


def leave(message: str) -> NoReturn:
    """Ends the process at once, with a line and the status RETRY, from any thread."""
    print(message, file=sys.stderr)
    stopping.leave(RETRY)


def _reason(error: Exception) -> str | None:
    """An error of a file system or of TensorFlow's ops, in one line; None for other errors."""
    import tensorflow as tf

    from pipelines.common import files

    if isinstance(error, tf.errors.OpError | OSError) and files.is_disk_full(error):
        return files.DISK_FULL
    if isinstance(error, tf.errors.OpError):
        return (error.message.strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}; check the path and its permissions."
    return f"{error.strerror or error}." if isinstance(error, OSError) else None


def _hint(written: str, ours: Mapping[str, flag_types.Flag], others: Mapping[str, str]) -> str:
    """What an unknown flag is: one of other programs or of other commands, or a misspelt one."""
    name = written.replace("-", "_")
    here = [each for each in foreign_flags.NAMES.get(name, "").split() if each in ours]
    if here:
        difference = foreign_flags.DIFFERENCES.get(name)
        return f"; here it is --{here[0]}" + (f", {difference}" if difference else "")
    if name in foreign_flags.ALWAYS:
        return "; commands do this by themselves: omit it"
    forms = {name, name.removeprefix("no_")}
    owners = [o for o in others if not forms.isdisjoint(flags_of(others[o]))]
    known = [*ours, *(f"no_{other}" for other, flag in ours.items() if flag.boolean)]
    near = flag_types.did_you_mean(name, known, "--{}", likeness=0.8 if owners else 0.6)
    listed = " and ".join(filter(None, (", ".join(owners[:-1]), *owners[-1:])))
    return f"{listed and ', which belongs to '}{listed}{near}"


def flags_of(module: str) -> dict[str, flag_types.Flag]:
    """The flags of a command by name, in their order, which replace those known to absl."""
    known = flags.FLAGS
    known.remove_flag_values([n for n in known if isinstance(known[n], flag_types.Flag)])
    found = {flag.name: flag for flag in settings.flags_of(importlib.import_module(module).main)}
    for flag in found.values():
        flags.DEFINE_flag(flag)
    return found
