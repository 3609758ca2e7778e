"""TensorFlow Serving's REST interface, the page, paths for supervisors; and who may use them."""

import asyncio
import dataclasses
import datetime
import functools
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.datastructures import Headers
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
from starlette.types import Message, Scope, Send
from starlette.types import Receive as ReceiveBody

from bert_tf.export.saved_model import Manifest
from bert_tf.serving.credentials import Identity
from bert_tf.serving.demo import page
from bert_tf.serving.server import rest_values, rpc, streaming
from bert_tf.serving.server.answers import (
    Answerer,
    EncodedRequest,
    ModelResponse,
    ModelSpec,
    Receive,
    RequestLimits,
)
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.openai import EmbeddingsRequest, NamedModelRequest
from bert_tf.serving.server.rerank import RerankRequest
from bert_tf.tasks.signatures import Method

_JSON_TYPE = "application/json"
_HEALTH, _PAGE = "/healthz", "/"
_METHODS = {method.rpartition("/")[2]: method for method in Method}
# Keys of a body.
_PREDICT_KEYS = ("signature_name", "instances", "inputs")
_EXAMPLE_KEYS = ("signature_name", "examples", "context")
_BY_NAME: dict[str, type[NamedModelRequest[Any]]] = {
    "/v1/embeddings": EmbeddingsRequest,
    "/v1/rerank": RerankRequest,
    "/v2/rerank": RerankRequest,  # where newer clients of Cohere ask
}
_PLACES = ("/v1/models/{model}", "/v1/models/{model}/versions/{version}")
# A body that states up to so many times the bytes allowed is read before it is refused: a client
# that still sends when the connection is closed does not see the answer.
_MAX_READ = 16
_MAX_VERSION = 2**63 - 1
_BASIC = 'Basic realm="any user; the token as the password"'
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
# Makes a request of its body.
_Make = Callable[[bytes], EncodedRequest]


class _RestRequest(EncodedRequest):
    """A request for `predict`, `classify` or `regress`: its path, and its body in JSON."""

    def __init__(self, spec: ModelSpec, body: bytes, limits: RequestLimits):
        super().__init__(body, limits)
        self._spec = spec

    def parse(self) -> ModelSpec:
        self._body = rest_values.decoded(self.take(), dict[str, Any])
        known = _PREDICT_KEYS if self._spec.method is Method.PREDICT else _EXAMPLE_KEYS
        if unknown := [key for key in self._body if key not in known]:
            listed = ", ".join(known)
            raise RefusalError(Fault.INVALID, f"Unknown key {unknown[0]!r}; there are {listed}.")
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


class RestInterface:
    """The ASGI application of a server that listens to a host.

    Everything passes `__call__`, answers of the framework itself, such as 404, too. Only `_HEALTH`
    is open to everybody, and needs no place among the requests.
    """

    def __init__(
        self, answerer: Answerer, identity: Identity, host: str, origins: Sequence[str] = ()
    ):
        self._answerer, self._identity, self._names = answerer, identity, _local_names(host)
        self._origins = frozenset(origins)
        routes = [
            Route(_PAGE, self._page),
            Route(_HEALTH, self._health),
            Route("/metrics", self._metrics),
            Route("/v1/models", self._models),
        ]
        for path, kind in _BY_NAME.items():
            answer = functools.partial(self._answer_named, kind)
            routes.append(Route(path, answer, methods=["POST"]))
        for place in _PLACES:
            routes += [
                Route(f"{place}:stream", self._stream, methods=["POST"]),
                Route(f"{place}:{{method}}", self._answer, methods=["POST"]),
                Route(f"{place}/metadata", self._metadata),
                Route(place, self._status),
            ]
        handlers = {RefusalError: _refused, HTTPException: _failed, ClientDisconnect: _gone}
        self._app = Starlette(routes=routes, exception_handlers=handlers)
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: ReceiveBody, send: Send) -> None:
        begun = False

        async def send_whole(message: Message) -> None:
            """Sends; the end of an answer only when the client has received most of the rest."""
            nonlocal begun
            begun = True
            if message["type"] == "http.response.body" and not message.get("more_body"):
                await send({**message, "more_body": True})
                message = {"type": "http.response.body"}
            await send(message)

        headers, path = Headers(scope=scope), scope["path"]
        given, admits = headers.get("authorization", ""), self._identity.admits
        try:
            _check_site(self._names, self._origins, scope["method"], headers)
            if path == _HEALTH:
                return await self._app(scope, receive, send)
            # For the page, a browser asks its user for the token.
            admitted = admits(given) or (path == _PAGE and admits(given, "Basic"))
            release = self._answerer.take_place(admitted)
        except RefusalError as error:
            response = _refusal(error, path)
            if error.fault is Fault.UNAUTHORIZED:
                response.headers["www-authenticate"] = _BASIC if path == _PAGE else "Bearer"
            return await response(scope, receive, send)
        try:
            await self._app(scope, receive, send_whole)
        except asyncio.CancelledError:  # the server ends, and has waited for this request
            if begun:
                raise
            ended = RefusalError(Fault.UNAVAILABLE, "The server ends; ask another one.")
            await _refusal(ended, path)(scope, receive, send)
        finally:
            release()

    async def _answer(self, request: Request) -> Response:
        method = _METHODS.get(request.path_params["method"])
        if method is None:
            raise RefusalError(Fault.NOT_FOUND, f"Methods are {', '.join(_METHODS)}.")
        return await self._answered(self._receiver(request, self._of_model(request, method)))

    async def _answer_named(self, kind: type[NamedModelRequest[Any]], request: Request) -> Response:
        """Answers a request that names the model in its body."""

        def find(model: str) -> tuple[str, Manifest]:
            models = self._answerer.models
            name = next(iter(models)) if len(models) == 1 else model
            return name, self._manifest(name)

        limits = self._answerer.limits
        return await self._answered(self._receiver(request, lambda b: kind(b, limits, find)))

    async def _answered(self, receive: Receive) -> Response:
        return Response(await self._answerer.answer(receive), media_type=_JSON_TYPE)

    async def _stream(self, request: Request) -> Response:
        receive = self._receiver(request, self._of_model(request, Method.PREDICT))
        events = await streaming.stream(self._answerer, receive)
        return StreamingResponse(events, media_type="text/event-stream")

    def _of_model(self, request: Request, method: Method) -> _Make:
        """Makes requests to the model in a path."""
        for name in request.query_params:
            raise RefusalError(
                Fault.INVALID, f"Unknown query parameter {name!r}; put everything into the body."
            )
        spec = _spec(request, method)
        self._answerer.versions(spec.model)  # before the body is read
        return lambda body: _RestRequest(spec, body, self._answerer.limits)

    def _receiver(self, request: Request, make: _Make) -> Receive:
        async def receive() -> EncodedRequest:
            return make(await self._body(request))

        return receive

    async def _body(self, request: Request) -> bytes:
        most = self._answerer.limits.bytes
        if (encoding := request.headers.get("content-encoding", "identity")) != "identity":
            raise RefusalError(
                Fault.MEDIA_TYPE,
                f"Content-Encoding {encoding} is not read; send the body as it is.",
            )
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
        spec = _spec(request)
        found = _as_json(rpc.status(self._answerer, spec))
        if spec.version is None and self._answerer.versions(spec.model).ready:
            found |= self._entry(spec.model)  # where clients of OpenAI look for it
        return _json_response(found)

    async def _metadata(self, request: Request) -> Response:
        return _json_response(_as_json(rpc.metadata(self._answerer, _spec(request))))

    def _manifest(self, model: str) -> Manifest:
        """The manifest of the newest version of a model."""
        with self._answerer.versions(model).use(None) as (_, predictor):
            return predictor.manifest

    async def _page(self, request: Request) -> Response:
        models = list(self._answerer.models)
        chosen = request.query_params.get("model", models[0])
        return HTMLResponse(page.render(self._manifest(chosen), chosen, models))

    async def _health(self, request: Request) -> Response:
        ready = self._answerer.ready
        return PlainTextResponse("ok" if ready else "loading", 200 if ready else 503)

    async def _models(self, request: Request) -> Response:
        found = [self._entry(name) for name, each in self._answerer.models.items() if each.ready]
        return JSONResponse({"object": "list", "data": found})

    def _entry(self, model: str) -> dict[str, Any]:
        """A model, as clients of OpenAI list it."""
        made = datetime.datetime.fromisoformat(f"{self._manifest(model)['date']}T00Z")
        entry = {"id": model, "object": "model", "created": int(made.timestamp())}
        return entry | {"owned_by": "bert-tf"}

    async def _metrics(self, request: Request) -> Response:
        return Response(self._answerer.metrics.text(), media_type="text/plain; version=0.0.4")


def _spec(request: Request, method: Method = Method.PREDICT) -> ModelSpec:
    """The model and the version in a path."""
    model, text = request.path_params["model"], request.path_params.get("version")
    if text is None:
        return ModelSpec(model, method=method)
    # The length first: converting thousands of digits takes long, and Python refuses it.
    if text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_VERSION)):
        number = int(text)
        if number <= _MAX_VERSION:
            return ModelSpec(model, number, method=method)
    raise RefusalError(Fault.NOT_FOUND, f"There is no version {text!r}.")


def _json_response(found: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(found), media_type=_JSON_TYPE)


def _as_json(message: Any) -> dict[str, Any]:
    """A message as TensorFlow Serving's REST interface writes it."""
    found = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    found.get("metadata", {}).get("signature_def", {}).pop("@type", None)
    return found


def _refusal(error: RefusalError, path: str) -> JSONResponse:
    """The answer to a request that is refused."""
    # A browser that is early asks for the page again by itself.
    early = path == _PAGE and error.fault is Fault.UNAVAILABLE
    headers = {"refresh": "2"} if early else None
    return _error(path, error.message, error.fault.name.lower(), error.fault.http, headers)


def _error(
    path: str, message: str, kind: str, status: int, headers: Mapping[str, str] | None
) -> JSONResponse:
    """An error as TensorFlow Serving writes it, or as an object, which clients of OpenAI expect."""
    is_theirs = path.startswith("/v1/models/") or path == _PAGE
    shown = message if is_theirs else {"message": message, "type": kind}
    return JSONResponse({"error": shown}, status, headers)


async def _refused(request: Request, error: Any) -> Response:
    return _refusal(error, request.scope["path"])


async def _failed(request: Request, error: Any) -> Response:
    """The answer to a path or a method that there is not."""
    fault = Fault.NOT_FOUND if error.status_code == Fault.NOT_FOUND.http else Fault.INVALID
    kind, path = fault.name.lower(), request.scope["path"]
    return _error(path, error.detail, kind, error.status_code, error.headers)


async def _gone(request: Request, error: Any) -> Response:
    return Response()  # which nobody receives


def _check_site(
    names: frozenset[str], origins: frozenset[str], method: str, headers: Mapping[str, str]
) -> None:
    """Refuses a request that another website makes a browser send.

    A browser sends requests wherever a website tells it to, with the rights of its user: to a
    server that listens to this machine only, for example. Browsers name the website in a header,
    other programs do not.

    Args:
      names: of this machine; empty: any.
      origins: websites whose pages may use the server.
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
    if origin is not None and origin.lower() not in (*allowed, *origins):
        raise RefusalError(Fault.FORBIDDEN, f"Pages of {origin!r} may not use this server.")
    by_browser = origin is not None or "sec-fetch-site" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method == "POST" and by_browser and kind != _JSON_TYPE:
        raise RefusalError(
            Fault.MEDIA_TYPE, f"Browsers must send JSON, with Content-Type: {_JSON_TYPE}."
        )


def _local_names(host: str) -> frozenset[str]:
    """The names of this machine for itself; empty if the server listens to others, too."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host.lower() == "localhost"
    own = f"[{host}]" if ":" in host else host
    return frozenset((*_LOCAL, own.lower())) if local else frozenset()
