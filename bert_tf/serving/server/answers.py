"""Requests of all protocols, answered within limits.

Parsing, conversion and computation happen in threads: the event loop only receives and sends bytes,
so that it answers others whatever a request contains.
"""

import abc
import asyncio
import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from absl import logging

from bert_tf.serving import scheduler
from bert_tf.serving.predictor import Outputs, Predictor
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.metrics import Metrics
from bert_tf.serving.server.versions import Versions
from bert_tf.tasks.signatures import Method
from pipelines.common.errors import InputError
from pipelines.common.machine import cores

_UNKNOWN = "unknown"  # counts a request before its signature is known
# Short and long texts of one request are padded to the longest: how many times the bytes that a
# request may have.
_MAX_PADDING = 4


@dataclasses.dataclass(frozen=True)
class RequestLimits:
    """What a client may ask for.

    Attributes:
      rows: of one request.
      bytes: of one request.
      requests: that are answered or wait at once.
      seconds: from the first byte of a body to the encoded answer.
    """

    rows: int
    bytes: int
    requests: int
    seconds: float

    def check_rows(self, count: int) -> None:
        """Raises RefusalError where a request has too many rows."""
        if count > self.rows:
            raise RefusalError(
                Fault.TOO_LARGE,
                f"A batch of {count:,} is too large; send at most {self.rows:,} at once.",
            )

    def check_context(self, size: int, count: int) -> None:
        """Raises RefusalError where a context is too large to be repeated in each example.

        Args:
          size: bytes of the context.
          count: examples.
        """
        if size * count > self.bytes:
            raise RefusalError(
                Fault.TOO_LARGE,
                f'"context" would have {size * count:,} bytes in {count:,} examples; at most '
                f"{self.bytes:,} are allowed: send fewer examples at once.",
            )

    def check_inputs(self, inputs: Mapping[str, Any], sequence_axes: int) -> None:
        """Raises RefusalError where inputs take far more memory, or time, than they have bytes.

        Args:
          inputs: of a signature, by name.
          sequence_axes: of the signature.
        """
        for name, value in inputs.items():
            self.check_rows(_sequences(value, sequence_axes))
            lengths = [len(text) for text in _items(value) if isinstance(text, str | bytes)]
            padded = len(lengths) * max(lengths, default=0)
            if padded > _MAX_PADDING * self.bytes:
                raise RefusalError(
                    Fault.TOO_LARGE,
                    f"{name}: {len(lengths):,} texts, padded to the longest, have {padded:,} bytes;"
                    f" at most {_MAX_PADDING * self.bytes:,} are allowed: send long texts alone.",
                )


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """What a request asks for.

    Attributes:
      model: the name of the model.
      version: its number; None: the newest.
      signature: its name; "": the first one.
      method: the interface that is used.
    """

    model: str
    version: int | None = None
    signature: str = ""
    method: Method = Method.PREDICT


@dataclasses.dataclass(frozen=True)
class ModelResponse:
    """The answer of a version.

    Attributes:
      version: its number.
      signature: the name of the signature.
      outputs: by name.
    """

    version: int
    signature: str
    outputs: Outputs


class EncodedRequest(abc.ABC):
    """A request in the encoding of its protocol; the methods are called once each, in this order.

    All of them run in threads, and may raise RefusalError.
    """

    @abc.abstractmethod
    def parse(self, limits: RequestLimits) -> ModelSpec:
        """Parses the request, and refuses too many rows before anything is converted."""

    @abc.abstractmethod
    def inputs(self, names: Sequence[str]) -> Mapping[str, Any]:
        """The inputs for a signature.

        Args:
          names: of the signature's inputs.
        """

    @abc.abstractmethod
    def encode(self, answer: ModelResponse) -> bytes:
        """The response."""


class _Job:
    """A request that is being answered.

    Args:
      seconds: that it may take.

    Attributes:
      begin: the time at which it began.
      end: the time at which nobody waits for it any more.
      signature: what it asks for, once that is known.
    """

    def __init__(self, seconds: float):
        self.begin = time.monotonic()
        self.end = self.begin + seconds
        self.signature = _UNKNOWN


class Answerer:
    """Answers requests with the versions of one model.

    Args:
      name: of the model.
      versions: of it.
      limits: see there.
      metrics: count what is asked.
    """

    def __init__(self, name: str, versions: Versions, limits: RequestLimits, metrics: Metrics):
        self.name, self.versions, self.limits, self.metrics = name, versions, limits, metrics
        # Each waits for its sequences; as many as there may be requests.
        self._threads = ThreadPoolExecutor(limits.requests, "request")
        self._places = threading.BoundedSemaphore(limits.requests)
        # Bounds the memory of parsed requests, and how many threads compete with the event loop.
        self._conversions = threading.BoundedSemaphore(cores())

    def check_name(self, model: str) -> None:
        """Raises RefusalError where a model is not this one."""
        if model != self.name:
            raise RefusalError(
                Fault.NOT_FOUND, f"There is no model {model!r}; there is {self.name!r}."
            )

    async def answer(self, receive: Callable[[], Awaitable[EncodedRequest]]) -> bytes:
        """Answers a request.

        Args:
          receive: waits for the whole request.

        Returns:
          The encoded answer.

        Raises:
          RefusalError: it is refused, or took too long.
        """
        job = _Job(self.limits.seconds)
        try:
            encoded = await self._answer(job, receive)
        except RefusalError as error:
            self.metrics.refused(job.signature, error.fault)
            raise
        self.metrics.answered(job.signature, time.monotonic() - job.begin)
        return encoded

    async def _answer(self, job: _Job, receive: Callable[[], Awaitable[EncodedRequest]]) -> bytes:
        if not self._places.acquire(blocking=False):
            raise RefusalError(Fault.BUSY, "Too many requests at once; ask again later.")
        try:
            async with asyncio.timeout(self.limits.seconds):
                try:
                    work = self._threads.submit(self._work, job, await receive())
                except BaseException:
                    self._places.release()
                    raise
                # The thread keeps the place until it ends, even if nobody waits any more.
                work.add_done_callback(lambda _: self._places.release())
                found = await asyncio.wrap_future(work)
        except TimeoutError:
            raise self._late() from None
        if isinstance(found, RefusalError):
            raise found
        return found

    def _late(self) -> RefusalError:
        return RefusalError(Fault.TIMEOUT, f"No answer within {self.limits.seconds:g} s.")

    def _work(self, job: _Job, question: EncodedRequest) -> bytes | RefusalError:
        """Answers a request, in a thread; a refusal is returned.

        Raised, its traceback would be part of a cycle, which keeps the request in memory until the
        next garbage collection.
        """
        try:
            return self._computed(job, question)
        except RefusalError as error:
            return RefusalError(error.fault, error.message)
        except TimeoutError:
            return self._late()
        except Exception:  # details go to the log only
            logging.exception("%s failed.", job.signature)
            return RefusalError(Fault.INTERNAL, "The server failed; its log says how.")

    def _computed(self, job: _Job, question: EncodedRequest) -> bytes:
        with contextlib.ExitStack() as using:
            with self._converting(job):
                asked = question.parse(self.limits)
                self.check_name(asked.model)
                # Chosen once: a newer version may come at any moment.
                version = using.enter_context(self.versions.use(asked.version))
                predictor = version.predictor
                assert predictor is not None  # it is available
                job.signature = signature_of(predictor, asked)
                signature = predictor.manifest["signatures"][job.signature]
                inputs = question.inputs(list(signature["inputs"]))
                self.limits.check_inputs(inputs, signature.get("sequence_axes", 1))
            try:
                with scheduler.deadline(job.end):
                    outputs = predictor(job.signature, **inputs)
            except InputError as error:
                raise RefusalError(Fault.INVALID, str(error)) from error
            answer = ModelResponse(version.number, job.signature, outputs)
        with self._converting(job):
            return question.encode(answer)

    @contextlib.contextmanager
    def _converting(self, job: _Job) -> Iterator[None]:
        """One of the places for conversions."""
        if not self._conversions.acquire(timeout=job.end - time.monotonic()):
            raise self._late()
        try:
            yield
        finally:
            self._conversions.release()

    def close(self) -> None:
        """Ends when all was answered."""
        self._threads.shutdown()
        self.versions.close()


def signature_of(predictor: Predictor, asked: ModelSpec) -> str:
    """The signature that is asked for.

    Raises:
      RefusalError: there is none, or it has another interface.
    """
    known = predictor.manifest["signatures"]
    name = asked.signature
    if name in ("", "serving_default"):
        wanted = (n for n, s in known.items() if s["method"] == asked.method)
        name = next(wanted, name)
    if name not in known:
        raise RefusalError(
            Fault.NOT_FOUND, f"There is no signature {name!r}; there are {', '.join(known)}."
        )
    if known[name]["method"] != asked.method:
        interface = str(known[name]["method"]).rpartition("/")[2]
        raise RefusalError(Fault.INVALID, f"The signature {name!r} is for {interface}.")
    return name


def _sequences(value: Any, axes: int) -> int:
    """Number of sequences in an input, over its leading axes; 0 for what is not a batch."""
    if isinstance(value, np.ndarray):
        return math.prod(value.shape[:axes]) if value.ndim else 0
    if not isinstance(value, list):
        return 0
    rows = [row for row in value if isinstance(row, list)] if axes > 1 else []
    return max(len(value), sum(map(len, rows)))


def _items(value: Any) -> Sequence[Any]:
    """The rows of a batch; nothing of what is not one, or of numbers."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim == 1 and value.dtype == object else ()
    return value if isinstance(value, list) else ()
