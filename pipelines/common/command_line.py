"""What every command shares: its flags and their help, how it runs, stops, and reports bad input.

TensorFlow takes seconds to start. So a command's module imports it in its `main` only, when flags
were read: --help and wrong flags are answered at once.
"""

import importlib
import os
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

from pipelines.common import arguments, flag_help, flag_types, stopping, texts
from pipelines.common.arguments import UnknownFlagError
from pipelines.common.errors import InputError, RetryError

# The exit status of bad input; that of a stop is `stopping.Stopped.status`.
BAD_INPUT = 2
RETRY = os.EX_TEMPFAIL  # 75: run again, and it goes on
_LONGEST_MESSAGE = 2000  # characters
_HELP = ("--help", "-help", "-h", "--helpshort", "--helpfull")
_ROOMS = ("bert_tf.", "pipelines.", "benchmarks.")  # whose flags are shown
_NO_OTHERS: Mapping[str, str] = types.MappingProxyType({})


def run(
    program: str, module: str, words: Sequence[str], others: Mapping[str, str] = _NO_OTHERS
) -> None:
    """Runs a command; bad input is one line and exit status 2, what passes by itself status 75.

    Args:
      program: its name, as the user calls it.
      module: which defines its flags, and `main`.
      words: of the command line, after the command.
      others: the modules of all commands by name, so that a flag of another one is told as such.
    """
    stopping.end_at_once()
    command = importlib.import_module(module)
    if any(word in _HELP for word in words):
        about = command.__doc__ or ""
        flag_help.show(flag_help.page(program, about, _flags().values(), flag_help.width()))
        return

    def parse(argv: list[str]) -> list[str]:
        try:
            arguments.parse(argv[1:], flags.FLAGS)
        except UnknownFlagError as error:
            _end(f"error: {_unknown(error, program, others)} (--help lists the flags)")
        except InputError as error:
            _end(f"error: {error} (--help lists the flags)")
        return argv[:1]

    def guarded(_: list[str]) -> None:
        from pipelines.common import quiet_start

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
    app.run(guarded, [program, *words], flags_parser=parse)


def _end(message: str, status: int = BAD_INPUT) -> None:
    stopping.end_at_once()
    message = texts.one_line(message)  # file systems' messages quote names
    if len(message) > _LONGEST_MESSAGE:  # it has text of the user's in it
        message = f"{message[: _LONGEST_MESSAGE // 2]} … {message[-_LONGEST_MESSAGE // 4 :]}"
    print(message, file=sys.stderr)
    sys.exit(status)


def leave(message: str) -> NoReturn:
    """Ends the process at once, with a line and the status RETRY.

    Nothing is waited for: threads of TensorFlow may wait for ever for a worker that was lost. Any
    thread may call it.
    """
    print(message, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(RETRY)


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


def _unknown(error: UnknownFlagError, program: str, others: Mapping[str, str]) -> str:
    """What to say of a flag that there is not: whose it is, and the nearest."""
    name, ours = error.name.replace("-", "_"), _flags()
    known = [*ours, *(f"no_{other}" for other, flag in ours.items() if flag.boolean)]
    mine, forms = program.split()[-1], {name, name.removeprefix("no_")}
    owners = [o for o in others if o != mine and not forms.isdisjoint(flags_of(others[o]))]
    near = flag_types.did_you_mean(name, known, "--{}", likeness=0.8 if owners else 0.6)
    if not owners:
        return f"{error}{near}"
    listed = " and ".join(filter(None, (", ".join(owners[:-1]), owners[-1])))
    return f"{error.place}--{error.name} is a flag of {listed}, not of {mine}{near}"


def flags_of(module: str) -> dict[str, flags.Flag]:
    """The flags of a command by name, in place of those of the command that was there before.

    Args:
      module: of the command; not imported so far.
    """
    flags.FLAGS.remove_flag_values(_flags())
    importlib.import_module(module)
    return _flags()


def _flags() -> dict[str, flags.Flag]:
    """The flags of the command, in the order of their definition, without those of absl."""
    owners = ((name, flags.FLAGS.find_module_defining_flag(name) or "") for name in flags.FLAGS)
    return {name: flags.FLAGS[name] for name, owner in owners if owner.startswith(_ROOMS)}


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
