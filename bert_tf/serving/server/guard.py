"""Who may use the REST interface, and how many requests at once."""

import ipaddress
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bert_tf.serving.credentials import Identity
from bert_tf.serving.server.answers import Answerer
from bert_tf.serving.server.faults import Fault, RefusalError

HEALTH, PAGE, EMBEDDINGS = "/healthz", "/", "/v1/embeddings"
JSON_TYPE = "application/json"
_BASIC = 'Basic realm="any user; the token as the password"'
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """The outermost layer: answers of the framework itself, such as 404, pass through it, too.

    Only `HEALTH` is open to everybody, and needs no place among the requests.
    """

    def __init__(self, app: ASGIApp, answerer: Answerer, identity: Identity, host: str):
        self._app, self._answerer, self._identity = app, answerer, identity
        self._names = local_names(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_whole(message: Message) -> None:
            """Sends; the end of an answer only when the client has received most of the rest."""
            if message["type"] == "http.response.body" and not message.get("more_body"):
                await send({**message, "more_body": True})
                message = {"type": "http.response.body"}
            await send(message)

        headers, path = Headers(scope=scope), scope["path"]
        try:
            check_site(self._names, scope["method"], headers)
            if path == HEALTH:
                return await self._app(scope, receive, send)
            self._check_token(headers.get("authorization", ""), path)
            release = self._answerer.take_place()
        except RefusalError as error:
            response = refusal(error, path)
            if error.fault is Fault.UNAUTHORIZED:
                response.headers["www-authenticate"] = _BASIC if path == PAGE else "Bearer"
            return await response(scope, receive, send)
        try:
            await self._app(scope, receive, send_whole)
        finally:
            release()

    def _check_token(self, given: str, path: str) -> None:
        """Raises RefusalError without the token; for the page, a browser asks its user for it."""
        admits = self._identity.admits
        if not admits(given) and not (path == PAGE and admits(given, "Basic")):
            raise RefusalError(Fault.UNAUTHORIZED, "This server requires a bearer token.")


def refusal(error: RefusalError, path: str) -> JSONResponse:
    """The answer to a request that is refused; clients of OpenAI expect an object."""
    found = {"message": error.message, "type": error.fault.name.lower()}
    return JSONResponse({"error": found if path == EMBEDDINGS else error.message}, error.fault.http)


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
    if method == "POST" and by_browser and kind != JSON_TYPE:
        raise RefusalError(
            Fault.MEDIA_TYPE, f"Browsers must send JSON, with Content-Type: {JSON_TYPE}."
        )


def local_names(host: str) -> frozenset[str]:
    """The names of this machine for itself; empty if the server listens to others, too."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host.lower() == "localhost"
    own = f"[{host}]" if ":" in host else host
    return frozenset((*_LOCAL, own.lower())) if local else frozenset()
