"""What every command shares: how it runs, stops and reports bad input."""

import sys
from collections.abc import Callable

from absl import app, flags, logging

from pipelines.errors import InputError

# Exit statuses: bad input, and the shell's own for a stop by Ctrl-C.
BAD_INPUT = 2
INTERRUPTED = 130


def run(main: Callable[[], None]) -> None:
    """Parses flags, runs `main` and turns an InputError into one line and exit status 2."""

    def guarded(argv: list[str]) -> None:
        try:
            if len(argv) > 1:
                raise InputError(f"unexpected argument: {argv[1]} (--help lists the flags)")
            main()
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(BAD_INPUT)
        except KeyboardInterrupt:
            print("stopped; run the same command again to go on.", file=sys.stderr)
            sys.exit(INTERRUPTED)

    logging.set_verbosity(logging.INFO)
    # TensorFlow reports how long each checkpoint took, in the midst of progress bars.
    logging.get_absl_logger().addFilter(lambda record: record.module != "functional_saver")
    app.run(guarded, flags_parser=_parse)


def _parse(argv: list[str]) -> list[str]:
    """Parses flags; a bad one is one line and exit status 2, as other bad input."""
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        print(f"error: {error} (--help lists the flags)", file=sys.stderr)
        sys.exit(BAD_INPUT)


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
