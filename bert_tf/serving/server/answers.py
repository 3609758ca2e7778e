"""Requests of all protocols, answered within limits.

Parsing, conversion and computation happen in threads: the event loop only receives and sends bytes,
so that it serves other clients whatever a request contains.
"""

import abc
import asyncio
import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import prometheus_client as prometheus
from absl import logging

from bert_tf.serving import scheduler
from bert_tf.serving.engines import Outputs
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.versions import Versions
from bert_tf.tasks.signatures import Method
from pipelines.common.errors import InputError
from pipelines.common.machine import cores

_T = TypeVar("_T")
# Texts of one request are padded to the longest: the padded batch may have so many times the bytes
# of a request.
_MAX_PADDING = 4
_UNKNOWN = "unknown"  # model and signature of a request before it is parsed
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # seconds


@dataclasses.dataclass(frozen=True)
class RequestLimits:
    """Limits of requests."""

    rows: int  # of one request
    bytes: int  # of one request
    requests: int  # that are being answered or wait at once
    seconds: float  # from the first byte of a body to the encoded answer

    def check_rows(self, count: int) -> None:
        """Raises RefusalError if a request has too many rows."""
        if count > self.rows:
            raise RefusalError(
                Fault.TOO_LARGE,
                f"A batch of {count:,} is too large; send at most {self.rows:,} at once.",
            )

    def check_context(self, size: int, count: int) -> None:
        """Raises RefusalError if a context of `size` bytes is too large for `count` copies."""
        if size * count > self.bytes:
            raise RefusalError(
                Fault.TOO_LARGE,
                f'"context" would have {size * count:,} bytes in {count:,} examples; at most '
                f"{self.bytes:,} are allowed: send fewer examples at once.",
            )

    def check_inputs(self, inputs: Mapping[str, Any], sequence_axes: int) -> None:
        """Raises RefusalError if a signature's inputs take far more memory than their bytes."""
        for name, value in inputs.items():
            self.check_rows(_sequences(value, sequence_axes))
            flat = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype == object
            rows = value if flat or isinstance(value, list) else ()
            lengths = [len(text) for text in rows if isinstance(text, str | bytes)]
            padded = len(lengths) * max(lengths, default=0)
            if padded > _MAX_PADDING * self.bytes:
                raise RefusalError(
                    Fault.TOO_LARGE,
                    f"{name}: {len(lengths):,} texts, padded to the longest, have {padded:,} bytes;"
                    f" at most {_MAX_PADDING * self.bytes:,} are allowed: send long texts alone.",
                )
            # In a request of gRPC, one text may stand for all that follow.
            table = isinstance(value, np.ndarray) and value.ndim > 1 and value.dtype == object
            size = sum(map(len, value.ravel())) if table else 0
            if size > self.bytes:
                raise RefusalError(
                    Fault.TOO_LARGE,
                    f"{name}: {value.size:,} texts have {size:,} bytes; at most {self.bytes:,} are "
                    "allowed: send fewer at once.",
                )


def _sequences(value: Any, axes: int) -> int:
    """Number of sequences in an input, over its leading axes; 0 if it is not a batch."""
    if isinstance(value, np.ndarray):
        return math.prod(value.shape[:axes]) if value.ndim else 0
    if not isinstance(value, list):
        return 0
    rows = [row for row in value if isinstance(row, list)] if axes > 1 else []
    return max(len(value), sum(map(len, rows)))


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """The model, version and signature that a request names."""

    model: str
    version: int | None = None  # None: the newest
    signature: str = ""  # "": the first one with this interface
    method: Method = Method.PREDICT


@dataclasses.dataclass(frozen=True)
class ModelResponse:
    """The answer of a version: the outputs of a signature by name."""

    version: int
    signature: str
    outputs: Outputs
    tokens: int  # that the model has read


class EncodedRequest(abc.ABC):
    """A request in the encoding of its protocol.

    `parse`, `inputs` and `encode` are called once each, in this order, in a thread. All of them may
    raise RefusalError.
    """

    def __init__(self, encoded: bytes, limits: RequestLimits):
        self._encoded, self.limits = encoded, limits

    def take(self) -> bytes:
        """Returns the encoded request, and does not keep it."""
        encoded, self._encoded = self._encoded, b""
        return encoded

    @abc.abstractmethod
    def parse(self) -> ModelSpec:
        """Parses the request, and refuses too many rows before anything is converted."""

    @abc.abstractmethod
    def inputs(self, names: Sequence[str]) -> Mapping[str, Any]:
        """The inputs for a signature with inputs of these names."""

    @abc.abstractmethod
    def encode(self, answer: ModelResponse) -> bytes:
        """The encoded response."""


# Waits for a request, or raises RefusalError.
Receive = Callable[[], Awaitable[EncodedRequest]]


class RunningRequest:
    """A request that is being answered, with its times and, once known, its model and signature."""

    def __init__(self, seconds: float):
        self.begin, self.seconds = time.monotonic(), seconds
        self.end = self.begin + seconds
        self.model, self.signature, self.counted = _UNKNOWN, _UNKNOWN, False

    def late(self) -> RefusalError:
        """The refusal at the end of its time."""
        return RefusalError(Fault.TIMEOUT, f"No answer within {self.seconds:g} s.")


class Metrics:
    """Counts of requests by model and signature, for Prometheus; `waiting` counts sequences."""

    def __init__(self, waiting: Callable[[], int]):
        self._registry = prometheus.CollectorRegistry()
        self.answered = prometheus.Histogram(
            "bert_tf_request_seconds",
            "Time of requests that were answered.",
            ["model", "signature"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.refused = prometheus.Counter(
            "bert_tf_refused_requests",
            "Requests that were not answered, by the reason.",
            ["model", "signature", "reason"],
            registry=self._registry,
        )
        prometheus.Gauge(
            "bert_tf_waiting_sequences",
            "Sequences that wait to be computed.",
            registry=self._registry,
        ).set_function(waiting)

    def text(self) -> bytes:
        """All counts, in Prometheus' format."""
        return prometheus.generate_latest(self._registry)


class Answerer:
    """Answers requests with the versions of models, by the names of these."""

    def __init__(self, models: Mapping[str, Versions], limits: RequestLimits, metrics: Metrics):
        self.models, self.limits, self.metrics = models, limits, metrics
        # One for each request, as each waits for its sequences.
        self._threads = ThreadPoolExecutor(limits.requests, "request")
        # A request has a place until its answer was sent, and a thread until it was computed: one
        # that is late is answered while its thread goes on.
        self._places = threading.BoundedSemaphore(limits.requests)
        self._free_threads = threading.BoundedSemaphore(limits.requests)
        # Bounds the memory of parsed requests, and how many threads compete with the event loop.
        self._conversions = threading.BoundedSemaphore(cores())

    @property
    def ready(self) -> bool:
        """Whether a model has an available version, and so has each other that can be loaded.

        One that cannot must not keep the others from their users.
        """
        models = self.models.values()
        return any(each.ready for each in models) and all(each.settled for each in models)

    def versions(self, model: str) -> Versions:
        """The versions of a model; raises RefusalError if there is none of this name."""
        if model not in self.models:
            known = ", ".join(map(repr, self.models))
            raise RefusalError(
                Fault.NOT_FOUND, f"Unknown model {model!r}; this server has {known}."
            )
        return self.models[model]

    def take_place(self, admitted: bool) -> Callable[[], None]:
        """Takes a place for a request; returns what gives it back when the answer was sent.

        Raises:
          RefusalError: there is none, or the client does not have the token.
        """
        try:
            if not admitted:
                raise RefusalError(Fault.UNAUTHORIZED, "This server requires a bearer token.")
            _take(self._places)
        except RefusalError as error:
            self._count(RunningRequest(0), error)
            raise
        return self._places.release

    async def answer(self, receive: Receive, seconds: float | None = None) -> bytes:
        """The encoded answer to a request.

        Args:
          receive: waits for the request.
          seconds: for which the client waits for the answer, if they are known.

        Raises:
          RefusalError: the request is refused, or took too long.
        """
        most = self.limits.seconds
        job = RunningRequest(most if seconds is None else min(most, seconds))
        done = await self.begin(job, receive, self._compute)
        found = await self._in_time(job, asyncio.wrap_future(done))
        if isinstance(found, RefusalError):
            raise found
        return found

    async def begin(
        self,
        job: RunningRequest,
        receive: Receive,
        work: Callable[[RunningRequest, EncodedRequest], _T],
    ) -> "Future[_T | RefusalError]":
        """Receives a request, and begins to work on it in a thread.

        Returns:
          The result of `work`, or the refusal if the request was refused, or failed. If it were
          raised, its traceback would be part of a cycle, which keeps the request in memory until
          the next garbage collection.

        Raises:
          RefusalError: the request is refused before the work begins, or was not received in time.
        """
        try:
            _take(self._free_threads)
            try:
                request = self._in_time(job, receive())
                done = self._threads.submit(self._work, job, work, await request)
            except BaseException:
                self._free_threads.release()
                raise
        except RefusalError as error:
            self._count(job, error)
            raise
        done.add_done_callback(lambda _: self._free_threads.release())
        return done

    def _work(
        self,
        job: RunningRequest,
        work: Callable[[RunningRequest, EncodedRequest], _T],
        request: EncodedRequest,
    ) -> _T | RefusalError:
        try:
            found = work(job, request)
            self._count(job)
            return found
        except RefusalError as error:
            refusal = RefusalError(error.fault, error.message)
        except TimeoutError:
            refusal = job.late()
        except Exception:  # details only go to the log
            logging.exception("%s failed.", job.signature)
            refusal = RefusalError(Fault.INTERNAL, "The server failed; its log has the reason.")
        self._count(job, refusal)
        return refusal

    async def _in_time(self, job: RunningRequest, result: Awaitable[_T]) -> _T:
        """Waits for a result; raises RefusalError at the end of the time."""
        try:
            async with asyncio.timeout(job.end - time.monotonic()):
                return await result
        except TimeoutError:
            self._count(job, job.late())
            raise job.late() from None  # a variable for it would make a cycle

    def _count(self, job: RunningRequest, refusal: RefusalError | None = None) -> None:
        """Counts a request once: the work of one that was late may still end."""
        if job.counted:
            return
        job.counted = True
        if refusal is None:
            seconds = time.monotonic() - job.begin
            self.metrics.answered.labels(job.model, job.signature).observe(seconds)
        else:
            reason = refusal.fault.name.lower()
            self.metrics.refused.labels(job.model, job.signature, reason).inc()

    def _compute(self, job: RunningRequest, request: EncodedRequest) -> bytes:
        with self.addressed(job, request) as (version, predictor, inputs):
            try:
                with scheduler.deadline(job.end):
                    outputs, tokens = predictor.counted(job.signature, **inputs)
            except InputError as error:
                raise RefusalError(Fault.INVALID, str(error)) from error
            answer = ModelResponse(version, job.signature, outputs, tokens)
        with self._converting(job):
            return request.encode(answer)

    @contextlib.contextmanager
    def addressed(
        self, job: RunningRequest, request: EncodedRequest
    ) -> Iterator[tuple[int, Predictor, Mapping[str, Any]]]:
        """The number and the predictor of the version that a request is for, and its inputs."""
        with contextlib.ExitStack() as using:
            with self._converting(job):
                spec = request.parse()
                versions = self.versions(spec.model)
                # Chosen once: a newer version may become available at any moment.
                version, predictor = using.enter_context(versions.use(spec.version))
                job.model = spec.model
                job.signature = signature_of(predictor, spec)
                signature = predictor.manifest["signatures"][job.signature]
                inputs = request.inputs(list(signature["inputs"]))
                self.limits.check_inputs(inputs, signature.get("sequence_axes", 1))
            yield version, predictor, inputs

    @contextlib.contextmanager
    def _converting(self, job: RunningRequest) -> Iterator[None]:
        """Waits for one of the places for conversions."""
        left = job.end - time.monotonic()
        if left <= 0 or not self._conversions.acquire(timeout=left):
            raise job.late()
        try:
            yield
        finally:
            self._conversions.release()

    def close(self) -> None:
        """Waits until all requests are answered."""
        self._threads.shutdown()
        for versions in self.models.values():
            versions.close()


def _take(places: threading.BoundedSemaphore) -> None:
    if not places.acquire(blocking=False):
        raise RefusalError(Fault.BUSY, "Too many requests at once; ask again later.")


def signature_of(predictor: Predictor, spec: ModelSpec) -> str:
    """The name of the signature that a request names.

    Raises:
      RefusalError: it is unknown, or has another interface.
    """
    known, name = predictor.manifest["signatures"], spec.signature
    if name in ("", "serving_default"):
        name = next((n for n, s in known.items() if s["method"] == spec.method), name)
    if not name:
        interface = spec.method.rpartition("/")[2]
        raise RefusalError(Fault.NOT_FOUND, f"There is no signature for {interface}.")
    if name not in known:
        listed = ", ".join(known)
        raise RefusalError(Fault.NOT_FOUND, f"Unknown signature {name!r}; there are {listed}.")
    if known[name]["method"] != spec.method:
        interface = str(known[name]["method"]).rpartition("/")[2]
        raise RefusalError(Fault.INVALID, f"The signature {name!r} is for {interface}.")
    return name
