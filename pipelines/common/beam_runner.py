"""Runs the steps of plans with Apache Beam, on the cluster that the options of its pipeline name.

Each step is a pipeline. Its items are distributed over the workers, which write the files of the
step, and its results as small files next to the output. So only small values pass through Beam, a
step only needs storage that all workers share, and a command that is run again resumes as it does
on one machine.

Beam may compute an item twice, even at the same time, if a worker was lost or is slow. This changes
nothing: functions are pure, and their files appear in one piece.
"""

import collections
import contextlib
import logging
import os
import queue
import shlex
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from absl import logging as absl_logging

from pipelines.common import files, optional, stopping
from pipelines.common.errors import InputError, UnfinishedError
from pipelines.common.runners import ItemT, ResultT, Runner, Workers

_MAX_PARTS = 64  # files of results
_ATTEMPTS = 4
_DONE = "DONE"  # a state of Beam
_LOST = "LOST"
_WATCHER = "run_worker"  # the thread that Beam starts for each worker process of this machine


class BeamRunner(Runner):
    """Runs on Apache Beam.

    Args:
      options: Options of the pipeline, as on a command line.

    Raises:
      InputError: Apache Beam is not installed.
    """

    def __init__(self, options: Sequence[str] = ()):
        if not optional.is_there("apache_beam"):
            raise InputError(
                "apache_beam is not installed, which --runner=beam needs: pip install apache-beam "
                "and bert-tf into an environment of its own, as `make beam` does."
            )
        self._options = tuple(options)

    @contextlib.contextmanager
    def started(self, place: str, module: str) -> Iterator[Workers]:
        """See `Runner`; each pipeline starts its own workers."""
        del module  # functions are sent by name
        logging.getLogger("apache_beam").setLevel(logging.WARNING)
        with files.working_folder(place) as folder:
            yield _Pipelines(self._options, folder)


class _Pipelines(Workers):
    """Runs a pipeline for each step; its results are written to a folder."""

    def __init__(self, options: Sequence[str], folder: str):
        self._options, self._folder = options, folder
        self._count = 0

    def map(
        self, function: Callable[[ItemT], ResultT], items: Sequence[ItemT]
    ) -> Generator[tuple[ItemT, ResultT]]:
        """See `Workers`; the first result comes when all items are done."""
        folder = self._next_folder()
        with self._running(function, items) as outcomes:
            _gather(outcomes, f"{folder}/outcomes")
        for index, result in _results(folder, len(items)):
            yield items[index], result

    def count(
        self,
        function: Callable[[ItemT], Mapping[bytes, int]],
        items: Sequence[ItemT],
        done: Callable[[], object],
    ) -> collections.Counter[bytes]:
        """See `Workers`; the workers add up the counts."""
        import apache_beam as beam

        folder = self._next_folder()
        with self._running(function, items) as outcomes:
            sums = outcomes | beam.FlatMap(_counts_of) | beam.CombinePerKey(sum)
            _gather(sums, f"{folder}/sums")
            _gather(outcomes | beam.Map(_without_counts), f"{folder}/outcomes")
        for _ in _results(folder, len(items)):
            done()
        return collections.Counter(dict(_read(f"{folder}/sums")))

    def _next_folder(self) -> str:
        self._count += 1
        return f"{self._folder}/{self._count}"

    @contextlib.contextmanager
    def _running(self, function: Callable[[ItemT], Any], items: Sequence[ItemT]) -> Iterator[Any]:
        """Yields the indices of items with their outcomes; the pipeline runs after the block."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        try:
            options = PipelineOptions(list(self._options))
            options.get_all_options()  # finds errors now
        except SystemExit as error:  # Beam has printed the reason
            raise InputError(f"Beam does not accept {shlex.join(self._options)}.") from error
        pipeline = beam.Pipeline(options=options)
        numbered = pipeline | beam.Create(list(enumerate(items))) | beam.Reshuffle()
        yield numbered | beam.Map(_attempt, function)
        _run(pipeline)


def _run(pipeline: Any) -> None:
    """Runs a pipeline to its end, again if a worker process of this machine was lost.

    Raises:
      InputError: The pipeline failed.
    """
    for _ in range(_ATTEMPTS):
        state = _run_once(pipeline)
        if state == _DONE:
            return
        if state != _LOST:
            raise _failure(f"it is {state}")
        absl_logging.warning("a worker of Beam was killed; its unfinished work is done again.")
    raise _failure(f"a worker ended {_ATTEMPTS} times, and Beam does not report how")


def _run_once(pipeline: Any) -> str:
    """Runs a pipeline in a thread, which is abandoned if a worker was lost.

    Runners on clusters repeat lost work. Beam's own runner, on this machine, waits forever for a
    worker process that is gone, but the thread that watches the process ends with an error.

    Returns:
      The final state of the pipeline, or `_LOST`.

    Raises:
      InputError: The pipeline failed.
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
        if hook.thread is not None and hook.thread.name == _WATCHER:
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
    last = (reason.strip().splitlines() or ["unknown reason"])[-1].rstrip(".")
    return UnfinishedError(
        f"Beam's pipeline failed: {last}. Finished work is kept: run the same command again."
    )


# The functions below run on workers. The outcome of an item is its result, and the message of an
# InputError: if the worker raised it, Beam would repeat the work.
_Outcome = tuple[Any, str]


def _attempt(entry: tuple[int, Any], function: Callable[[Any], Any]) -> tuple[int, _Outcome]:
    index, item = entry
    try:
        return index, (function(item), "")
    except UnfinishedError:  # another attempt may succeed
        raise
    except InputError as error:
        return index, (None, str(error))


def _counts_of(entry: tuple[int, _Outcome]) -> Iterable[tuple[bytes, int]]:
    return (entry[1][0] or {}).items()


def _without_counts(entry: tuple[int, _Outcome]) -> tuple[int, _Outcome]:
    index, (_, refused) = entry
    return index, (None, refused)


def _gather(pairs: Any, folder: str) -> None:
    """Lets a pipeline write pairs of a key and a value to a few files in a folder."""
    import apache_beam as beam

    name = os.path.basename(folder)
    _ = (
        pairs
        | f"{name}: part" >> beam.Map(_with_part)
        | f"{name}: group" >> beam.GroupByKey()
        | f"{name}: write" >> beam.Map(_write_part, folder)
    )


def _with_part(pair: tuple[Any, Any]) -> tuple[int, tuple[Any, Any]]:
    return zlib.crc32(msgspec.msgpack.encode(pair[0])) % _MAX_PARTS, pair


def _write_part(group: tuple[int, Iterable[tuple[Any, Any]]], folder: str) -> None:
    part, pairs = group
    data = msgspec.msgpack.encode(sorted(pairs, key=lambda pair: pair[0]))
    path = f"{folder}/{part:02d}"
    with files.write_aside(path, shared=True) as partial, files.gfile.GFile(partial, "wb") as file:
        file.write(data)


def _read(folder: str) -> Iterator[tuple[Any, Any]]:
    """Reads the pairs that `_gather` wrote."""
    for path in files.matching(folder, "[0-9][0-9]"):
        with files.open_binary(path) as file:
            yield from msgspec.msgpack.decode(file.read(), type=list[tuple[Any, Any]])


def _results(folder: str, count: int) -> list[tuple[int, Any]]:
    """The indices of all items with their results.

    Raises:
      InputError: The error of the first item that has one; or results are missing.
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
    return [(index, result) for index, (result, _) in outcomes]
