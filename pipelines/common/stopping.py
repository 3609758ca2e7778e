"""Ctrl-C and SIGTERM: one message and one exit status, whenever they come.

While a command starts, nothing is begun, so it ends at once. Later the signal is
raised where the main thread is, as `Stopped`, so that what is half-written is
removed; the training loop takes over for the time of its steps.
"""

import os
import signal
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Of a copy of standard error, which stays where it is when that is redirected.
_stderr = 2


class Stopped(BaseException):
    """A signal stopped the command; what was finished is kept.

    No Exception, as KeyboardInterrupt is none: nothing that mends errors may swallow it.

    Attributes:
      status: the exit status, the shell's own for the signal.
    """

    def __init__(self, signal_number: int, where: str = ""):
        super().__init__(f"stopped{where}; run the same command again to go on.")
        self.signal_number = signal_number
        self.status = 128 + signal_number


def end_at_once(stderr: int = 2) -> None:
    """From now on a signal ends the process at once.

    Args:
      stderr: where its message goes.
    """
    global _stderr
    _stderr = stderr
    _handle_with(_leave)


def raise_stopped() -> None:
    """From now on the first signal raises `Stopped`; the second one ends the process at once."""
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
