"""What every command shares: how it runs, stops and reports bad input."""

import sys
from collections.abc import Callable

from absl import app, logging

from pipelines.errors import InputError

# Exit statuses: bad input, and the shell's own for a stop by Ctrl-C.
BAD_INPUT = 2
INTERRUPTED = 130


def run(main: Callable[[], None]) -> None:
    """Parses flags, runs `main` and turns an InputError into one line and exit status 2."""

    def guarded(argv: list[str]) -> None:
        if len(argv) > 1:
            raise app.UsageError(f"unexpected argument: {argv[1]}")
        try:
            main()
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(BAD_INPUT)
        except KeyboardInterrupt:
            print("stopped; run the same command again to go on.", file=sys.stderr)
            sys.exit(INTERRUPTED)

    logging.set_verbosity(logging.INFO)
    app.run(guarded)
