"""Ctrl-C and SIGTERM: one message and one exit status at any time.

While a command starts, a signal ends it at once. Later it raises `Stopped` in the main thread, so
that partial files are removed; the training loop handles signals itself during its steps.
"""

import os
import signal
import sys
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Descriptor for the message: standard error, or a copy of it while it is redirected.
_stderr = 2


class Stopped(BaseException):
    """A signal stopped the command; finished work is kept.

    Like KeyboardInterrupt it is not an Exception, so that no handler of errors catches it.

    Attributes:
      status: The exit status, 128 plus the number of the signal, as in shells.
    """

    def __init__(self, signal_number: int, where: str = ""):
        super().__init__(f"stopped{where}; run the same command again to resume.")
        self.signal_number = signal_number
        self.status = 128 + signal_number


def end_at_once(stderr: int = 2) -> None:
    """From now on, a signal ends the process at once; its message goes to a descriptor."""
    global _stderr
    _stderr = stderr
    _handle_with(_leave)


def leave(status: int) -> NoReturn:
    """Ends the process at once, from any thread.

    The interpreter would wait for TensorFlow's threads, perhaps forever, and take its graphs apart,
    for half a minute.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def raise_stopped() -> None:
    """From now on, the first signal raises `Stopped`; the second one ends the process at once."""
    _handle_with(_raise)


def _handle_with(handler: Any) -> None:
    for number in SIGNALS:
        signal.signal(number, handler)


def _raise(number: int, _: Any) -> NoReturn:
    _handle_with(_leave)
    raise Stopped(number)


def _leave(number: int, _: Any) -> NoReturn:
    stop = Stopped(number)
    os.write(_stderr, f"{stop}\n".encode())
    os._exit(stop.status)
