"""Answers in parts: a text as it is generated, as server-sent events."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from bert_tf.serving.server.answers import Answerer, EncodedRequest, signature_of
from bert_tf.serving.server.faults import Fault, RefusalError
from pipelines.common.errors import InputError

_END: Any = None  # after the last part


async def stream(answerer: Answerer, request: EncodedRequest) -> AsyncIterator[bytes]:
    """Begins to answer a request of one text.

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
        loop.call_soon_threadsafe(queue.put_nowait, item)

    def work() -> None:
        try:
            for part in _parts(answerer, request):
                put(part)
                if gone.is_set():
                    break
            put(_END)
        except RefusalError as error:
            put(RefusalError(error.fault, error.message))

    answerer.run(work)
    first = await queue.get()
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


def _parts(answerer: Answerer, request: EncodedRequest) -> Iterator[str]:
    spec = request.parse()
    answerer.check_name(spec.model)
    with answerer.versions.use(spec.version) as version:
        predictor = version.predictor
        assert predictor is not None  # it is available
        name = signature_of(predictor, spec)
        signature = predictor.manifest["signatures"][name]
        inputs = request.inputs(list(signature["inputs"]))
        answerer.limits.check_inputs(inputs, signature.get("sequence_axes", 1))
        texts = [value for values in inputs.values() for value in values]
        if len(texts) != 1 or not isinstance(texts[0], str):
            raise RefusalError(Fault.INVALID, "A stream has one text.")
        try:
            yield from predictor.stream(name, texts[0])
        except InputError as error:
            raise RefusalError(Fault.INVALID, str(error)) from error
