"""TensorFlow Serving's REST interface, the page, and the paths for supervisors."""

import dataclasses
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
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
from bert_tf.serving.server.openai import EmbeddingsRequest, NamedModelRequest
from bert_tf.serving.server.rerank import RerankRequest
from bert_tf.tasks.signatures import Method

_METHODS = {
    "predict": Method.PREDICT,
    "classify": Method.CLASSIFY,
    "regress": Method.REGRESS,
}
_BY_NAME: dict[str, type[NamedModelRequest[Any]]] = {
    "/v1/embeddings": EmbeddingsRequest,
    "/v1/rerank": RerankRequest,
}
_PLACES = ("/v1/models/{model}", "/v1/models/{model}/versions/{version}")
# A body that states up to so many times the bytes allowed is read before it is refused: a client
# that still sends when the connection is closed does not see the answer.
_MAX_READ = 16
_MAX_VERSION = 2**63 - 1
_BASIC = 'Basic realm="any user; the token as the password"'
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_JSON = "application/json"
Handler = Callable[[Request], Awaitable[Response]]


def check_site(names: frozenset[str], method: str, headers: Mapping[str, str]) -> None:
    """Refuses a request that another website makes a browser send.

    A browser sends requests wherever a website tells it to, with the rights of its user: to a
    server that listens to this machine only, for example. Browsers name the website in a header,
    other programs do not.

    Args:
      names: of this machine; empty: any.
      method: of HTTP.
      headers: by lower-case names.

    Raises:
      RefusalError: the host is a name of another machine (DNS rebinding), the origin is another
        website, or a browser posts a content type that a form of any website can have.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    name, _, port = host.rpartition(":")
    if host and names and (name if port.isdecimal() else host).lower() not in names:
        raise RefusalError(
            Fault.FORBIDDEN,
            f"{host!r} is not a name of this machine; use localhost, or let a proxy send that as "
            "the Host.",
        )
    allowed = (f"http://{host.lower()}", f"https://{host.lower()}") if host else ()
    if origin is not None and origin.lower() not in allowed:
        raise RefusalError(Fault.FORBIDDEN, f"Pages of {origin!r} may not use this server.")
    by_browser = origin is not None or "sec-fetch-site" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method == "POST" and by_browser and kind != _JSON:
        raise RefusalError(
            Fault.MEDIA_TYPE, f"Browsers must send JSON, with Content-Type: {_JSON}."
        )


def local_names(host: str) -> frozenset[str]:
    """The names of this machine for itself; empty if the server listens to others, too."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host.lower() == "localhost"
    own = f"[{host}]" if ":" in host else host
    return frozenset((*_LOCAL, own.lower())) if local else frozenset()


class _RestRequest(EncodedRequest):
    """A request for `predict`, `classify` or `regress`: its path, and its body in JSON."""

    def __init__(self, spec: ModelSpec, body: bytes, limits: RequestLimits):
        super().__init__(body, limits)
        self._spec = spec

    def parse(self) -> ModelSpec:
        try:
            self._body = msgspec.json.decode(self.take(), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"The request is not a JSON object: {error}"
            raise RefusalError(Fault.INVALID, message) from error
        name = self._body.get("signature_name", "")
        if not isinstance(name, str):
            raise RefusalError(Fault.INVALID, '"signature_name" must be a string.')
        self.limits.check_rows(rest_values.rows_of(self._body))
        return dataclasses.replace(self._spec, signature=name)

    def inputs(self, names: Sequence[str]) -> Mapping[str, Any]:
        if self._spec.method is Method.PREDICT:
            return rest_values.inputs_of(self._body, names)
        rows = rest_values.rows_of(self._body)
        self.limits.check_context(rest_values.context_size(self._body), rows)
        return {"inputs": rest_values.examples_of(self._body)}

    def encode(self, answer: ModelResponse) -> bytes:
        if self._spec.method is Method.PREDICT:
            by_rows = rest_values.is_by_rows(self._body)
            return msgspec.json.encode(rest_values.predictions_of(answer.outputs, by_rows))
        classify = self._spec.method is Method.CLASSIFY
        encoded = rest_values.classes_of if classify else rest_values.numbers_of
        return msgspec.json.encode(encoded(answer.outputs))


def make_app(answerer: Answerer, identity: Identity, host: str) -> Starlette:
    """The ASGI application of a server that listens to a host."""
    return _RestInterface(answerer, identity, local_names(host)).app()


@dataclasses.dataclass(frozen=True)
class _RestInterface:
    """Answers over HTTP."""

    answerer: Answerer
    identity: Identity
    names: frozenset[str]

    def app(self) -> Starlette:
        routes = [
            Route("/", self._guarded(self._page, by_browser=True)),
            Route("/healthz", self._guarded(self._health, secret=False)),
            Route("/metrics", self._guarded(self._metrics)),
            *(
                Route(path, self._guarded(self._by_name(kind)), methods=["POST"])
                for path, kind in _BY_NAME.items()
            ),
        ]
        for place in _PLACES:
            routes += [
                Route(f"{place}:stream", self._guarded(self._stream), methods=["POST"]),
                Route(f"{place}:{{method}}", self._guarded(self._answer), methods=["POST"]),
                Route(f"{place}/metadata", self._guarded(self._metadata)),
                Route(place, self._guarded(self._status)),
            ]
        return Starlette(routes=routes)

    def _guarded(self, handler: Handler, secret: bool = True, by_browser: bool = False) -> Handler:
        """A handler that checks the client, and answers refusals with their status.

        A secret one requires the token; for `by_browser`, a browser may ask its user for it.
        """

        async def guarded(request: Request) -> Response:
            try:
                check_site(self.names, request.method, request.headers)
                if secret:
                    self._check_token(request, by_browser)
                return await handler(request)
            except RefusalError as error:
                response = JSONResponse({"error": error.message}, error.fault.http)
                if error.fault is Fault.UNAUTHORIZED:
                    response.headers["www-authenticate"] = _BASIC if by_browser else "Bearer"
                return response
            except ClientDisconnect:
                return Response()  # which nobody receives

        return guarded

    def _check_token(self, request: Request, by_browser: bool) -> None:
        given = request.headers.get("authorization", "")
        if self.identity.admits(given) or (by_browser and self.identity.admits(given, "Basic")):
            return
        raise RefusalError(Fault.UNAUTHORIZED, "This server requires a bearer token.")

    async def _answer(self, request: Request) -> Response:
        method = _METHODS.get(request.path_params["method"])
        if method is None:
            raise RefusalError(Fault.NOT_FOUND, f"Methods are {', '.join(_METHODS)}.")
        spec = ModelSpec(request.path_params["model"], _version(request), method=method)
        receive = self._receiver(request, spec)
        return Response(await self.answerer.answer(receive), media_type=_JSON)

    def _by_name(self, kind: type[NamedModelRequest[Any]]) -> Handler:
        """A handler of requests that name the model in their body."""

        async def answer(request: Request) -> Response:
            async def receive() -> EncodedRequest:
                body, answerer = await self._body(request), self.answerer
                with answerer.versions.use(None) as version:
                    assert version.predictor is not None  # it is available
                    manifest = version.predictor.manifest
                return kind(body, answerer.limits, manifest, answerer.check_name)

            return Response(await self.answerer.answer(receive), media_type=_JSON)

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
        return _json_response(rpc.status(self.answerer, spec))

    async def _metadata(self, request: Request) -> Response:
        spec = ModelSpec(request.path_params["model"], _version(request))
        return _json_response(rpc.metadata(self.answerer, spec))

    async def _page(self, request: Request) -> Response:
        with self.answerer.versions.use(None) as version:
            assert version.predictor is not None  # it is available
            return HTMLResponse(page.render(version.predictor.manifest, self.answerer.name))

    async def _health(self, request: Request) -> Response:
        ready = self.answerer.versions.ready
        return PlainTextResponse("ok" if ready else "loading", 200 if ready else 503)

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


def _json_response(message: Any) -> Response:
    return Response(msgspec.json.encode(rpc.as_json(message)), media_type=_JSON)
