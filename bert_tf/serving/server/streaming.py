"""Answers in parts: a text as it is generated, as server-sent events."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec

from bert_tf.serving.server.answers import Answerer, EncodedRequest, RunningRequest
from bert_tf.serving.server.faults import Fault, RefusalError
from pipelines.common.errors import InputError

_END: Any = None  # after the last part


async def stream(
    answerer: Answerer, receive: Callable[[], Awaitable[EncodedRequest]]
) -> AsyncIterator[bytes]:
    """Begins to answer a request of one text, for which `receive` waits.

    Returns:
      Events, `data: {"text": part}`; an error after the first part is `data: {"error": reason}`.
      The parts join to the output that `predict` gives.

    Raises:
      RefusalError: the request is refused, before the first part.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Any] = asyncio.Queue()
    gone = threading.Event()  # nobody listens any more

    def put(item: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(queue.put_nowait, item)

    await answerer.begin(
        receive,
        lambda job, request: _send(answerer, request, job, put, gone),
        lambda refusal: put(_END if refusal is None else refusal),
    )
    try:
        first = await queue.get()
    except asyncio.CancelledError:
        gone.set()
        raise
    if isinstance(first, RefusalError):
        raise first

    async def events() -> AsyncIterator[bytes]:
        item = first
        try:
            while item is not _END:
                failed = isinstance(item, RefusalError)
                shown = {"error": item.message} if failed else {"text": item}
                yield b"data: " + msgspec.json.encode(shown) + b"\n\n"
                item = _END if failed else await queue.get()
        finally:
            gone.set()

    return events()


def _send(
    answerer: Answerer,
    request: EncodedRequest,
    job: RunningRequest,
    put: Any,
    gone: threading.Event,
) -> None:
    """Passes the parts of an answer to `put`."""
    with answerer.addressed(job, request) as (_, predictor, inputs):
        try:
            for part in _until(predictor.stream(job.signature, **inputs), job.end, gone):
                put(part)
        except InputError as error:
            raise RefusalError(Fault.INVALID, str(error)) from error


def _until(parts: Iterator[str], end: float, gone: threading.Event) -> Iterator[str]:
    """The parts until nobody listens; raises TimeoutError at the end of the time."""
    for part in parts:
        yield part
        if gone.is_set():
            return
        if time.monotonic() > end:
            raise TimeoutError
