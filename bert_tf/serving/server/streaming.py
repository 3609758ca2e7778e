"""Answers in parts: a text as it is generated, as server-sent events."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from bert_tf.serving.server.answers import Answerer, EncodedRequest, Receive, RunningRequest
from bert_tf.serving.server.faults import Fault, RefusalError
from pipelines.common.errors import InputError

_END: Any = None  # after the last part


async def stream(answerer: Answerer, receive: Receive) -> AsyncIterator[bytes]:
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

    def send(job: RunningRequest, request: EncodedRequest) -> None:
        with answerer.addressed(job, request) as (_, predictor, inputs):
            try:
                for part in predictor.stream(job.signature, **inputs):
                    put(part)
                    if gone.is_set():
                        return
                    if time.monotonic() > job.end:
                        raise TimeoutError
            except InputError as error:
                raise RefusalError(Fault.INVALID, str(error)) from error

    done = await answerer.begin(RunningRequest(answerer.limits.seconds), receive, send)
    done.add_done_callback(lambda done: put(done.result()))  # `_END`, or the refusal
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
