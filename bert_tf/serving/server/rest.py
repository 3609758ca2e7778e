"""TensorFlow Serving's REST interface, the page, and the paths for supervisors."""

import dataclasses
import datetime
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from bert_tf.serving.credentials import Identity
from bert_tf.serving.demo import page
from bert_tf.serving.server import rest_values, rpc, streaming
from bert_tf.serving.server.answers import (
    Answerer,
    EncodedRequest,
    ModelResponse,
    ModelSpec,
    RequestLimits,
)
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.guard import EMBEDDINGS, HEALTH, JSON_TYPE, PAGE, Guard, refusal
from bert_tf.serving.server.openai import EmbeddingsRequest, NamedModelRequest
from bert_tf.serving.server.rerank import RerankRequest
from bert_tf.tasks.signatures import Method

_METHODS = {
    "predict": Method.PREDICT,
    "classify": Method.CLASSIFY,
    "regress": Method.REGRESS,
}
_BY_NAME: dict[str, type[NamedModelRequest[Any]]] = {
    EMBEDDINGS: EmbeddingsRequest,
    "/v1/rerank": RerankRequest,
}
_PLACES = ("/v1/models/{model}", "/v1/models/{model}/versions/{version}")
# A body that states up to so many times the bytes allowed is read before it is refused: a client
# that still sends when the connection is closed does not see the answer.
_MAX_READ = 16
_MAX_VERSION = 2**63 - 1
Handler = Callable[[Request], Awaitable[Response]]


class _RestRequest(EncodedRequest):
    """A request for `predict`, `classify` or `regress`: its path, and its body in JSON."""

    def __init__(self, spec: ModelSpec, body: bytes, limits: RequestLimits):
        super().__init__(body, limits)
        self._spec = spec

    def parse(self) -> ModelSpec:
        self._body = rest_values.decoded(self.take(), dict[str, Any])
        name = self._body.get("signature_name", "")
        if not isinstance(name, str):
            raise RefusalError(Fault.INVALID, '"signature_name" must be a string.')
        self.limits.check_rows(rest_values.rows_of(self._body))
        return dataclasses.replace(self._spec, signature=name)

    def inputs(self, names: Sequence[str]) -> Mapping[str, Any]:
        body, self._body = self._body, {}  # not kept during the computation
        if self._spec.method is Method.PREDICT:
            self._by_rows = rest_values.is_by_rows(body)
            return rest_values.inputs_of(body, names)
        self.limits.check_context(rest_values.context_size(body), rest_values.rows_of(body))
        return {"inputs": rest_values.examples_of(body)}

    def encode(self, answer: ModelResponse) -> bytes:
        if self._spec.method is Method.PREDICT:
            return msgspec.json.encode(rest_values.predictions_of(answer.outputs, self._by_rows))
        classify = self._spec.method is Method.CLASSIFY
        encoded = rest_values.classes_of if classify else rest_values.numbers_of
        return msgspec.json.encode(encoded(answer.outputs))


def make_app(answerer: Answerer, identity: Identity, host: str) -> Guard:
    """The ASGI application of a server that listens to a host."""
    return Guard(_RestInterface(answerer).app(), answerer, identity, host)


@dataclasses.dataclass(frozen=True)
class _RestInterface:
    """Answers over HTTP."""

    answerer: Answerer

    def app(self) -> Starlette:
        routes = [
            Route(PAGE, self._page),
            Route(HEALTH, self._health),
            Route("/metrics", self._metrics),
            Route("/v1/models", self._models),
            *(
                Route(path, self._by_name(kind), methods=["POST"])
                for path, kind in _BY_NAME.items()
            ),
        ]
        for place in _PLACES:
            routes += [
                Route(f"{place}:stream", self._stream, methods=["POST"]),
                Route(f"{place}:{{method}}", self._answer, methods=["POST"]),
                Route(f"{place}/metadata", self._metadata),
                Route(place, self._status),
            ]
        handlers = {RefusalError: _refused, HTTPException: _failed, ClientDisconnect: _gone}
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False
        return app

    async def _answer(self, request: Request) -> Response:
        method = _METHODS.get(request.path_params["method"])
        if method is None:
            raise RefusalError(Fault.NOT_FOUND, f"Methods are {', '.join(_METHODS)}.")
        spec = ModelSpec(request.path_params["model"], _version(request), method=method)
        receive = self._receiver(request, spec)
        return Response(await self.answerer.answer(receive), media_type=JSON_TYPE)

    def _by_name(self, kind: type[NamedModelRequest[Any]]) -> Handler:
        """A handler of requests that name the model in their body."""

        async def answer(request: Request) -> Response:
            async def receive() -> EncodedRequest:
                body, answerer = await self._body(request), self.answerer
                with answerer.versions.use(None) as version:
                    assert version.predictor is not None  # it is available
                    manifest = version.predictor.manifest
                return kind(body, answerer.limits, manifest, answerer.name)

            return Response(await self.answerer.answer(receive), media_type=JSON_TYPE)

        return answer

    async def _stream(self, request: Request) -> Response:
        spec = ModelSpec(request.path_params["model"], _version(request), method=Method.PREDICT)
        events = await streaming.stream(self.answerer, self._receiver(request, spec))
        return StreamingResponse(events, media_type="text/event-stream")

    def _receiver(
        self, request: Request, spec: ModelSpec
    ) -> Callable[[], Awaitable[EncodedRequest]]:
        """A function that waits for the body of a request to this model."""
        self.answerer.check_name(spec.model)

        async def receive() -> EncodedRequest:
            return _RestRequest(spec, await self._body(request), self.answerer.limits)

        return receive

    async def _body(self, request: Request) -> bytes:
        most = self.answerer.limits.bytes
        parts, size, stated = [], 0, int(request.headers.get("content-length", 0))
        if stated <= _MAX_READ * most:
            async for part in request.stream():
                size += len(part)
                if size <= most:
                    parts.append(part)
                elif not stated:
                    break
        if max(size, stated) > most:
            raise RefusalError(Fault.TOO_LARGE, f"A request may have {most:,} bytes.")
        return b"".join(parts)

    async def _status(self, request: Request) -> Response:
        method = request.url.path.rpartition(":")[2]
        if method in (*_METHODS, "stream"):
            raise RefusalError(Fault.INVALID, f"Ask for {method} by POST.")
        spec = ModelSpec(request.path_params["model"], _version(request))
        found = rpc.as_json(rpc.status(self.answerer, spec))
        if spec.version is None and self.answerer.versions.ready:
            found |= self._entry()  # where clients of OpenAI look for it
        return _json_response(found)

    async def _metadata(self, request: Request) -> Response:
        spec = ModelSpec(request.path_params["model"], _version(request))
        return _json_response(rpc.as_json(rpc.metadata(self.answerer, spec)))

    async def _page(self, request: Request) -> Response:
        with self.answerer.versions.use(None) as version:
            assert version.predictor is not None  # it is available
            return HTMLResponse(page.render(version.predictor.manifest, self.answerer.name))

    async def _health(self, request: Request) -> Response:
        ready = self.answerer.versions.ready
        return PlainTextResponse("ok" if ready else "loading", 200 if ready else 503)

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._entry()]})

    def _entry(self) -> dict[str, Any]:
        """The model, as clients of OpenAI list it."""
        with self.answerer.versions.use(None) as version:
            assert version.predictor is not None  # it is available
            manifest: Mapping[str, Any] = version.predictor.manifest
        made = datetime.datetime.fromisoformat(f"{manifest['date']}T00Z")
        entry = {"id": self.answerer.name, "object": "model", "created": int(made.timestamp())}
        return entry | {"owned_by": "bert-tf"}

    async def _metrics(self, request: Request) -> Response:
        return Response(self.answerer.metrics.text(), media_type="text/plain; version=0.0.4")


def _version(request: Request) -> int | None:
    """The version in a path; None: the newest."""
    text = request.path_params.get("version")
    if text is None:
        return None
    # The length first: converting thousands of digits takes long, and Python refuses it.
    if text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_VERSION)):
        number = int(text)
        if number <= _MAX_VERSION:
            return number
    raise RefusalError(Fault.NOT_FOUND, f"There is no version {text!r}.")


def _json_response(found: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(found), media_type=JSON_TYPE)


async def _refused(request: Request, error: Any) -> Response:
    return refusal(error, request.scope["path"])


async def _failed(request: Request, error: Any) -> Response:
    """The answer to a path or a method that there is not."""
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _gone(request: Request, error: Any) -> Response:
    return Response()  # which nobody receives
