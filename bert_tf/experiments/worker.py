"""A process that does jobs one after the other, so that TensorFlow starts once.

What a job prints goes to a log in its folder. A signal stops a job at its next checkpoint.
"""

import contextlib
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from absl import logging

from pipelines.common import process_pool, quiet_start, stopping
from pipelines.common.errors import InputError


class Result(NamedTuple):
    """What came of a call: its value, or the error, told in a line."""

    value: Any = None
    error: str | None = None
    stopped: bool = False


class Worker:
    """A process; it begins when it is made.

    Args:
      environment: variables that it has besides, such as CUDA_VISIBLE_DEVICES.
    """

    def __init__(self, environment: dict[str, str]):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        try:
            self._process = context.Process(target=_serve, args=(theirs,), daemon=False)
            self._process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        theirs.close()
        self.calls = 0

    def begin(self, log: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Begins a call, whose value can be pickled; what it prints goes to a log."""
        self.calls += 1
        self.connection.send((log, function, arguments))

    def result(self) -> Result:
        """Waits for what comes of the call."""
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode
            killed = " (it may have taken more memory than there is)" if code == -9 else ""
            return Result(error=f"the process ended with status {code}{killed}")

    def stop(self) -> None:
        """Asks the call that runs to end, as Ctrl-C would."""
        if self._process.pid is not None and self._process.is_alive():
            self._process.terminate()

    def close(self) -> None:
        """Ends the process, which has nothing to do any more."""
        with contextlib.suppress(OSError):
            self.connection.send(None)
        self._process.join()
        self.connection.close()

    @property
    def alive(self) -> bool:
        """Whether it can do anything."""
        return self._process.is_alive()


def _serve(connection: Connection) -> None:
    """Does calls until there are none any more."""
    os.setsid()  # Ctrl-C is for the parent, which asks for a stop once
    process_pool.end_with_parent()
    quiet_start.import_silently()
    logging.set_verbosity(logging.INFO)
    stopping.raise_stopped()
    while True:
        try:
            request = connection.recv()
        except (EOFError, stopping.Stopped):
            return
        if request is None:
            return
        result = _call(*request)
        connection.send(result)
        if result.stopped:
            return


def _call(log: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Result:
    with _logged(log):
        try:
            return Result(function(*arguments))
        except stopping.Stopped:
            return Result(error="stopped", stopped=True)
        except InputError as error:
            return Result(error=str(error))
        except Exception as error:  # of our own code: the log has where
            traceback.print_exc()
            return Result(error=f"{type(error).__name__}: {error} (see {log})")


@contextlib.contextmanager
def _logged(path: str) -> Any:
    """Sends what is printed to a file, at its end."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    kept = [os.dup(number) for number in (1, 2)]
    with open(path, "ab") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
