"""TensorFlow Serving's REST interface, the page, and what a supervisor asks."""

import dataclasses
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bert_tf.serving.demo import page
from bert_tf.serving.server import descriptions, rest_values
from bert_tf.serving.server.answers import Answerer, Asked, signature_of
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.tasks.signatures import Method

_METHODS = {
    "predict": Method.PREDICT,
    "classify": Method.CLASSIFY,
    "regress": Method.REGRESS,
}
_PLACES = ("/v1/models/{model}", "/v1/models/{model}/versions/{version:int}")
Handler = Callable[[Request], Awaitable[Response]]


@dataclasses.dataclass(frozen=True)
class RestInterface:
    """Answers over HTTP.

    Attributes:
      answerer: of the model.
      token: that clients must know; None: nobody is asked.
    """

    answerer: Answerer
    token: str | None = None

    def app(self) -> Starlette:
        """The ASGI application."""
        routes = [
            Route("/", self._page),
            Route("/healthz", self._health),
            Route("/metrics", self._guarded(self._metrics)),
        ]
        for place in _PLACES:
            routes += [
                Route(f"{place}:{{method}}", self._guarded(self._answer), methods=["POST"]),
                Route(f"{place}/metadata", self._guarded(self._metadata)),
                Route(place, self._guarded(self._status)),
            ]
        return Starlette(routes=routes)

    def _guarded(self, handler: Handler) -> Handler:
        """A handler that knows who asks, and whose refusals are answers."""

        async def guarded(request: Request) -> Response:
            try:
                self._check_token(request)
                return await handler(request)
            except RefusalError as error:
                return JSONResponse({"error": error.message}, error.fault.http)

        return guarded

    def _check_token(self, request: Request) -> None:
        if self.token is None:
            return
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            raise RefusalError(Fault.UNAUTHORIZED, "This server wants a bearer token.")

    async def _answer(self, request: Request) -> Response:
        method = _METHODS.get(request.path_params["method"])
        if method is None:
            raise RefusalError(Fault.NOT_FOUND, f"Methods are {', '.join(_METHODS)}.")
        body = await self._body(request)
        name = body.get("signature_name", "")
        if not isinstance(name, str):
            raise RefusalError(Fault.INVALID, '"signature_name" must be a string.')
        version = request.path_params.get("version")
        asked = Asked(request.path_params["model"], version, name, method)
        if method is not Method.PREDICT:
            examples = {"inputs": rest_values.examples_of(body)}
            outputs = (await self.answerer.answer(asked, examples)).outputs
            shown = rest_values.classes_of if method is Method.CLASSIFY else rest_values.numbers_of
            return _json(shown(outputs))
        inputs = rest_values.inputs_of(body, self._input_names(asked))
        outputs = (await self.answerer.answer(asked, inputs)).outputs
        return _json(rest_values.predictions_of(outputs, rest_values.is_by_rows(body)))

    async def _body(self, request: Request) -> dict[str, Any]:
        """The JSON object of a request.

        Raises:
          RefusalError: it is too large, or is none.
        """
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self.answerer.limits.bytes:
                raise RefusalError(
                    Fault.TOO_LARGE, f"A request may have {self.answerer.limits.bytes:,} bytes."
                )
            parts.append(part)
        try:
            return msgspec.json.decode(b"".join(parts), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RefusalError(Fault.INVALID, f"The request is no JSON object: {error}") from error

    def _input_names(self, asked: Asked) -> list[str]:
        self.answerer.check_name(asked.model)
        with self.answerer.versions.use(asked.version) as version:
            assert version.predictor is not None  # it is available
            name = signature_of(version.predictor, asked)
            return list(version.predictor.manifest["signatures"][name]["inputs"])

    async def _status(self, request: Request) -> Response:
        self.answerer.check_name(request.path_params["model"])
        wanted = request.path_params.get("version")
        known = [v for v in self.answerer.versions.known if wanted in (None, v.number)]
        if not known:
            raise RefusalError(Fault.NOT_FOUND, f"There is no version {wanted}.")
        return _json(descriptions.as_json(descriptions.statuses(known)))

    async def _metadata(self, request: Request) -> Response:
        self.answerer.check_name(request.path_params["model"])
        with self.answerer.versions.use(request.path_params.get("version")) as version:
            assert version.predictor is not None  # it is available
            found = descriptions.metadata(self.answerer.name, version.number, version.predictor)
        return _json(descriptions.as_json(found))

    async def _page(self, request: Request) -> Response:
        try:
            with self.answerer.versions.use(None) as version:
                assert version.predictor is not None  # it is available
                return HTMLResponse(page.render(version.predictor.manifest, self.answerer.name))
        except RefusalError as error:
            return PlainTextResponse(error.message, error.fault.http)

    async def _health(self, request: Request) -> Response:
        ready = self.answerer.versions.ready
        return PlainTextResponse("ok" if ready else "loading", 200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        return Response(self.answerer.metrics.text(), media_type="text/plain; version=0.0.4")


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
