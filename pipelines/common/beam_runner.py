"""Runs the steps of plans by Apache Beam, on whatever the options of its pipeline name.

Each step is a pipeline: its things are spread over the workers, which write the files of the step,
and what is small of it, the results, as files beside the output. So nothing large passes through
Beam, a step needs no more than storage that all workers share, and a command that is run again goes
on from what is finished, as it does on one machine.

Beam may do a thing twice, one after the other or both at once: where a worker was lost or is slow.
Functions are pure, and what they write appears in one piece, so that changes nothing.
"""

import collections
import contextlib
import logging
import os
import queue
import shlex
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from absl import logging as absl_logging

from pipelines.common import files, optional, stopping
from pipelines.common.errors import InputError
from pipelines.common.runners import ResultT, Runner, ThingT, Workers

_PARTS = 64  # files of results, at the most
_ATTEMPTS = 4
_DONE = "DONE"  # Beam's word
_LOST = "LOST"
_KEEPER = "run_worker"  # the thread that Beam starts for each worker process of this machine


class BeamRunner(Runner):
    """Runs on what options of a pipeline say.

    Args:
      options: of Apache Beam, as on a command line.

    Raises:
      InputError: Apache Beam is not installed.
    """

    def __init__(self, options: Sequence[str] = ()):
        if not optional.is_there("apache_beam"):
            raise InputError(
                "apache_beam is not installed, which --runner=beam needs: pip install -r "
                "requirements-beam.txt, into an environment of its own (make tfrecords RUNNER=beam "
                "makes it)."
            )
        self._options = tuple(options)

    @contextlib.contextmanager
    def started(self, place: str, module: str) -> Iterator[Workers]:
        """See `Runner`; workers are those of each pipeline."""
        del module  # functions are sent by name
        logging.getLogger("apache_beam").setLevel(logging.WARNING)
        with files.working_folder(place) as folder:
            yield _Pipelines(self._options, folder)


class _Pipelines(Workers):
    """A pipeline for each step.

    Args:
      options: of Beam.
      folder: for results.
    """

    def __init__(self, options: Sequence[str], folder: str):
        self._options, self._folder = options, folder
        self._count = 0

    def map(
        self,
        function: Callable[[ThingT], ResultT],
        things: Sequence[ThingT],
        reads_only: bool = False,
    ) -> Iterator[tuple[ThingT, ResultT]]:
        """See `Workers`; all results come when all things are done."""
        del reads_only  # the corpus may be larger than one machine reads
        folder = self._next_folder()
        with self._running(function, things) as outcomes:
            _gather(outcomes, f"{folder}/outcomes")
        for index, result in _results(folder, len(things)):
            yield things[index], result

    def count(
        self,
        function: Callable[[ThingT], Mapping[bytes, int]],
        things: Sequence[ThingT],
        done: Callable[[], object],
    ) -> collections.Counter[bytes]:
        """See `Workers`; counts are combined on the workers."""
        import apache_beam as beam

        folder = self._next_folder()
        with self._running(function, things) as outcomes:
            sums = outcomes | beam.FlatMap(_counts_of) | beam.CombinePerKey(sum)
            _gather(sums, f"{folder}/sums")
            _gather(outcomes | beam.Map(_without_counts), f"{folder}/outcomes")
        for _ in _results(folder, len(things)):
            done()
        return collections.Counter(dict(_read(f"{folder}/sums")))

    def _next_folder(self) -> str:
        self._count += 1
        return f"{self._folder}/{self._count}"

    @contextlib.contextmanager
    def _running(
        self, function: Callable[[ThingT], Any], things: Sequence[ThingT]
    ) -> Iterator[Any]:
        """Yields the numbers of things with their outcomes; runs it all when the block ends."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        try:
            options = PipelineOptions(list(self._options))
            options.get_all_options()  # else what is wrong would be found later
        except SystemExit as error:  # Beam has said what is wrong
            raise InputError(f"Beam does not take {shlex.join(self._options)}.") from error
        pipeline = beam.Pipeline(options=options)
        numbered = pipeline | beam.Create(list(enumerate(things))) | beam.Reshuffle()
        yield numbered | beam.Map(_attempt, function)
        _run(pipeline)


def _run(pipeline: Any) -> None:
    """Runs a pipeline to its end, anew where a worker process of this machine was lost.

    Raises:
      InputError: it failed.
    """
    for _ in range(_ATTEMPTS):
        state = _run_once(pipeline)
        if state == _DONE:
            return
        if state != _LOST:
            raise _failure(f"it is {state}")
        absl_logging.warning("a worker of Beam was killed; what it did not finish is done anew.")
    raise _failure(f"{_ATTEMPTS} times a worker was killed, most likely for want of memory")


def _run_once(pipeline: Any) -> str:
    """Runs a pipeline in a thread, which is left to itself if a worker of it was lost.

    Runners on clusters begin lost work anew. Beam's own, on this machine, waits for ever for a
    worker process that is gone; but the thread that looks after the process ends with an error.

    Returns:
      The state that the pipeline ended in, or `_LOST`.

    Raises:
      InputError: it failed.
    """
    ends: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(pipeline.run())
            ends.put(results[0].wait_until_finish())
        except BaseException as error:
            ends.put(error)

    def noted(hook: Any) -> None:
        if hook.thread is not None and hook.thread.name == _KEEPER:
            ends.put(_LOST)
        else:
            before(hook)

    before, threading.excepthook = threading.excepthook, noted
    try:
        threading.Thread(target=run, daemon=True).start()
        end = ends.get()
    except (stopping.Stopped, KeyboardInterrupt):
        for result in results:
            result.cancel()
        raise
    finally:
        threading.excepthook = before
    if isinstance(end, BaseException):
        raise _failure(str(end)) from end
    return end


def _failure(reason: str) -> InputError:
    last = (reason.strip().splitlines() or ["no reason is known"])[-1].rstrip(".")
    return InputError(
        f"Beam's pipeline failed: {last}. Finished work is kept: run the same command again."
    )


# What follows is run by workers, and a thing's outcome is its result and what was wrong with the
# input. The latter is an outcome, because a worker that raised it would be asked again.
_Outcome = tuple[Any, str]


def _attempt(entry: tuple[int, Any], function: Callable[[Any], Any]) -> tuple[int, _Outcome]:
    number, thing = entry
    try:
        return number, (function(thing), "")
    except InputError as error:
        return number, (None, str(error))


def _counts_of(entry: tuple[int, _Outcome]) -> Iterable[tuple[bytes, int]]:
    return (entry[1][0] or {}).items()


def _without_counts(entry: tuple[int, _Outcome]) -> tuple[int, _Outcome]:
    number, (_, refused) = entry
    return number, (None, refused)


def _gather(pairs: Any, folder: str) -> None:
    """Adds to a pipeline that pairs of a key and a value are written to a few files."""
    import apache_beam as beam

    name = os.path.basename(folder)
    _ = (
        pairs
        | f"{name}: part" >> beam.Map(_with_part)
        | f"{name}: group" >> beam.GroupByKey()
        | f"{name}: write" >> beam.Map(_write_part, folder)
    )


def _with_part(pair: tuple[Any, Any]) -> tuple[int, tuple[Any, Any]]:
    return zlib.crc32(msgspec.msgpack.encode(pair[0])) % _PARTS, pair


def _write_part(group: tuple[int, Iterable[tuple[Any, Any]]], folder: str) -> None:
    part, pairs = group
    data = msgspec.msgpack.encode(sorted(pairs, key=lambda pair: pair[0]))
    path = f"{folder}/{part:02d}"
    with files.write_aside(path, shared=True) as partial, files.gfile.GFile(partial, "wb") as file:
        file.write(data)


def _read(folder: str) -> Iterator[tuple[Any, Any]]:
    """The pairs that were gathered in a folder."""
    for path in files.matching(folder, "[0-9][0-9]"):
        with files.open_binary(path) as file:
            yield from msgspec.msgpack.decode(file.read(), type=list[tuple[Any, Any]])


def _results(folder: str, count: int) -> list[tuple[int, Any]]:
    """The results of so many things by their numbers.

    Raises:
      InputError: of the first thing that was refused; or what workers wrote is not here.
    """
    outcomes = sorted(_read(f"{folder}/outcomes"), key=lambda pair: pair[0])
    if len(outcomes) != count:
        raise InputError(
            f"{folder}: {len(outcomes)} of {count} results are here. Name paths on storage that "
            "the workers of Beam share with this command."
        )
    for _, (_, refused) in outcomes:
        if refused:
            raise InputError(refused)
    return [(number, result) for number, (result, _) in outcomes]
