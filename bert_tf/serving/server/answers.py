"""Requests of all protocols, answered within limits."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from absl import logging

from bert_tf.serving.predictor import Outputs, Predictor
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.metrics import Metrics
from bert_tf.serving.server.versions import Versions
from bert_tf.tasks.signatures import Method
from pipelines.common.errors import InputError

_UNKNOWN = "unknown"  # counts a request for no signature that there is


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a client may ask for.

    Attributes:
      rows: of one request.
      bytes: of one request.
      requests: that are answered or wait at once.
      seconds: that one may take.
    """

    rows: int
    bytes: int
    requests: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request.

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
class Answer:
    """What a version answered.

    Attributes:
      version: its number.
      signature: the name of the signature.
      outputs: by name.
    """

    version: int
    signature: str
    outputs: Outputs


class Answerer:
    """Answers requests with the versions of one model.

    Args:
      name: of the model.
      versions: of it.
      limits: see there.
      metrics: count what is asked.
    """

    def __init__(self, name: str, versions: Versions, limits: Limits, metrics: Metrics):
        self.name, self.versions, self.limits, self.metrics = name, versions, limits, metrics
        # Each waits for its sequences; as many as there may be requests.
        self._threads = ThreadPoolExecutor(limits.requests, "request")
        self._asking = 0

    def check_name(self, model: str) -> None:
        """Raises RefusalError where a model is not this one."""
        if model != self.name:
            raise RefusalError(
                Fault.NOT_FOUND, f"There is no model {model!r}; there is {self.name!r}."
            )

    async def answer(self, asked: Asked, inputs: Mapping[str, Any]) -> Answer:
        """Answers a request.

        Args:
          asked: what is asked for.
          inputs: as the signature has them.

        Raises:
          RefusalError: it is refused, or took too long.
        """
        begin, signature = time.perf_counter(), _UNKNOWN
        try:
            with self._place(), self.versions.use(self._number(asked)) as version:
                predictor = version.predictor
                assert predictor is not None  # it is available
                signature = signature_of(predictor, asked)
                self._check_rows(inputs)
                outputs = await self._compute(predictor, signature, inputs)
        except RefusalError as error:
            self.metrics.refused(signature, error.fault)
            raise
        self.metrics.answered(signature, time.perf_counter() - begin)
        return Answer(version.number, signature, outputs)

    def _number(self, asked: Asked) -> int | None:
        self.check_name(asked.model)
        return asked.version

    @contextlib.contextmanager
    def _place(self) -> Iterator[None]:
        """One of the places for requests."""
        if self._asking >= self.limits.requests:
            raise RefusalError(Fault.BUSY, "Too many requests at once; ask again later.")
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1

    async def _compute(
        self, predictor: Predictor, signature: str, inputs: Mapping[str, Any]
    ) -> Outputs:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, lambda: _outputs(predictor, signature, inputs))
        try:
            return await asyncio.wait_for(work, self.limits.seconds)
        except TimeoutError as error:
            raise RefusalError(
                Fault.TIMEOUT, f"No answer within {self.limits.seconds:g} seconds."
            ) from error

    def _check_rows(self, inputs: Mapping[str, Any]) -> None:
        most = max(map(_rows, inputs.values()), default=0)
        if most > self.limits.rows:
            raise RefusalError(
                Fault.TOO_LARGE,
                f"A batch of {most:,} is too large; send at most {self.limits.rows:,} at once.",
            )

    def close(self) -> None:
        """Ends when all was answered."""
        self._threads.shutdown()
        self.versions.close()


def signature_of(predictor: Predictor, asked: Asked) -> str:
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


def _rows(value: Any) -> int:
    """The rows of an input; 0 of what is no batch, of which the signature tells."""
    if isinstance(value, np.ndarray):
        return value.shape[0] if value.ndim else 0
    return len(value) if isinstance(value, list) else 0


def _outputs(predictor: Predictor, signature: str, inputs: Mapping[str, Any]) -> Outputs:
    try:
        return predictor(signature, **inputs)
    except InputError as error:
        raise RefusalError(Fault.INVALID, str(error)) from error
    except Exception as error:  # the client is told no more than that
        logging.exception("%s failed.", signature)
        raise RefusalError(Fault.INTERNAL, "The server failed; its log says how.") from error
