"""Requests to the REST interface without a network."""

import asyncio


async def post(app, method, body, meanwhile=lambda: None):
    """The status and the body of an answer to a POST request to a method, or a path.

    `meanwhile` happens before the body arrives.
    """
    sent = []
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive():
        if (message := next(messages, None)) is None:
            await asyncio.Event().wait()  # the client stays
        meanwhile()
        return message

    async def send(event):
        sent.append(event)

    path = method if method.startswith("/") else f"/v1/models/bert:{method}"
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": [], "http_version": "1.1", "scheme": "http",
        "root_path": "",
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(event.get("body", b"") for event in sent[1:])
