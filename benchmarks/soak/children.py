"""Cases in a process of their own, so that one that ends it, or hangs, is told and passed over."""

import importlib
import multiprocessing
import os
import traceback
from multiprocessing.connection import Connection

from benchmarks.soak.outcomes import Outcome, Place

_CONTEXT = multiprocessing.get_context("forkserver")
_CASES = 200  # of a process: memory that a case loses is bounded


def preload() -> None:
    """From now on processes are forked from one that has imported what commands import."""
    _CONTEXT.set_forkserver_preload(["pipelines.common.quiet_worker", "benchmarks.soak.warm"])


class Child:
    """Does the cases of a room.

    Args:
      module: of the room.
      place: where.
      limit: seconds that a case may take.
    """

    def __init__(self, module: str, place: Place, limit: float):
        self._module, self._place, self._limit = module, place, limit
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection
        self._done = 0

    def __call__(self, number: int) -> Outcome:
        """Does a case."""
        if self._process is None or self._done >= _CASES:
            self.close()
            self._start()
        self._done += 1
        self._connection.send(number)
        try:
            if self._connection.poll(self._limit):
                return self._connection.recv()
            what = f"no end after {self._limit:g} s"
        except EOFError:
            assert self._process is not None  # it was started
            self._process.join()
            what = f"the process ended with status {self._process.exitcode}"
        self.close()
        return Outcome({}, (what,))

    def _start(self) -> None:
        self._connection, theirs = _CONTEXT.Pipe()
        arguments = (theirs, self._module, self._place, str(self._place.folder / "log.txt"))
        self._process = _CONTEXT.Process(target=_serve, args=arguments)
        self._process.start()
        theirs.close()
        self._done = 0

    def close(self) -> None:
        """Ends the process."""
        if self._process is None:
            return
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._process = None


def _serve(connection: Connection, module: str, place: Place, log: str) -> None:
    """Does cases until there are none any more; what they print goes to a log."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    case = importlib.import_module(module).make(place)
    while True:
        try:
            number = connection.recv()
        except EOFError:
            return
        try:
            connection.send(case(number))
        except Exception as error:
            traceback.print_exc()
            connection.send(Outcome({}, (f"{type(error).__name__}: {str(error)[:300]}",)))
