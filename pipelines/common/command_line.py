"""What every command shares: flags and help, start, stop, and errors of the user in one line.

TensorFlow takes seconds to start. A command's module imports it in its `main` only, after the flags
were read, so --help and errors in flags appear at once. What can start beside TensorFlow, a module
starts in a function `prepare`.
"""

import importlib
import os
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

from pipelines.common import arguments, flag_help, flag_types, stopping, texts
from pipelines.common.errors import InputError, RetryError

# The exit status after bad input; that after a signal is `stopping.Stopped.status`.
BAD_INPUT = 2
RETRY = os.EX_TEMPFAIL  # 75: the same command, run again, resumes
_LONGEST_MESSAGE = 2000  # characters
_HELP = ("--help", "-help", "-h", "--helpshort", "--helpfull")
_OURS = ("bert_tf.", "pipelines.", "benchmarks.")  # packages whose flags are shown
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
    stopping.end_at_once()
    command = importlib.import_module(module)
    if any(word in _HELP for word in words):
        about, known = command.__doc__ or "", _flags()
        shown = [flag for name, flag in known.items() if name not in presets]
        flag_help.show(flag_help.page(program, about, shown, flag_help.width()))
        return

    def parse(argv: list[str]) -> list[str]:
        try:
            arguments.parse(argv[1:], flags.FLAGS)
        except arguments.UnknownFlagError as error:
            _end(f"error: {_unknown(error, program, others)} (--help lists the flags)")
        except InputError as error:
            _end(f"error: {error} (--help lists the flags)")
        return argv[:1]

    logging.set_verbosity(logging.INFO)
    # TensorFlow reports how long each checkpoint took, in the midst of progress bars.
    logging.get_absl_logger().addFilter(lambda record: record.module != "functional_saver")
    given = [f"--{name}={value}" for name, value in presets.items()]
    app.run(lambda _: _run_main(command), [program, *given, *words], flags_parser=parse)


def _run_main(command: Any) -> None:
    """Runs the `main` of a command's module, and reports its errors."""
    from pipelines.common import quiet_start

    if "tensorflow" not in sys.modules and hasattr(command, "prepare"):
        command.prepare()
    quiet_start.import_tensorflow()
    try:
        stopping.raise_stopped()
        command.main()
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
    """Ends the process at once, with a line and the status RETRY, from any thread.

    Threads of TensorFlow are not joined, because they may wait forever for a lost worker.
    """
    print(message, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(RETRY)


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


def _unknown(error: arguments.UnknownFlagError, program: str, others: Mapping[str, str]) -> str:
    """The message for an unknown flag: the commands that have it, and the most similar flag."""
    name, ours = error.name.replace("-", "_"), _flags()
    known = [*ours, *(f"no_{other}" for other, flag in ours.items() if flag.boolean)]
    forms = {name, name.removeprefix("no_")}
    owners = [o for o in others if not forms.isdisjoint(flags_of(others[o]))]
    near = flag_types.did_you_mean(name, known, "--{}", likeness=0.8 if owners else 0.6)
    if not owners:
        return f"{error}{near}"
    listed = " and ".join(filter(None, (", ".join(owners[:-1]), owners[-1])))
    return f"{error}, which belongs to {listed}{near}"


def flags_of(module: str) -> dict[str, flags.Flag]:
    """The flags of a command by name, in place of the flags defined before.

    Args:
      module: Module of the command; it is imported again, so that it defines them.
    """
    flags.FLAGS.remove_flag_values(_flags())
    sys.modules.pop(module, None)
    importlib.import_module(module)
    return _flags()


def _flags() -> dict[str, flags.Flag]:
    """The flags of the command, in the order of their definition, without those of absl."""
    owners = ((name, flags.FLAGS.find_module_defining_flag(name) or "") for name in flags.FLAGS)
    return {name: flags.FLAGS[name] for name, owner in owners if owner.startswith(_OURS)}


def pairs(entries: list[str], flag: str) -> dict[str, str]:
    """A list flag of ROLE=VALUE entries as a dict.

    Raises:
      InputError: An entry has another form.
    """
    found = {}
    for entry in entries:
        role, equals, value = entry.partition("=")
        if not equals:
            raise InputError(f"{flag}: {entry!r} is not of the form ROLE=NAME.")
        if role.strip() in found:
            raise InputError(f"{flag}: {role.strip()} is given twice.")
        found[role.strip()] = value.strip()
    return found
