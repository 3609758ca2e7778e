"""Texts in parts, as server-sent events; whatever fails ends the stream."""

import asyncio
import json
import time

import pytest

from bert_tf.serving.credentials import Identity
from bert_tf.serving.server import rest, streaming
from bert_tf.serving.server.answers import Answerer, Metrics, RequestLimits
from bert_tf.serving.server.faults import Fault
from bert_tf.serving.server.versions import Version, Versions, VersionState
from bert_tf.tasks.signatures import Method
from pipelines.common.errors import InputError
from tests.bert_tf.serving.server import asgi


class _Predictor:
    """Streams the characters of its text; some characters fail."""

    manifest = {  # noqa: RUF012
        "signatures": {
            "generate": {"method": Method.PREDICT, "inputs": {"text": ["string", [None]]}}
        }
    }

    def stream(self, signature, /, text):
        if len(text) != 1:
            raise InputError(f"{signature}: a stream has one text, not {len(text)}.")
        return self._parts(text[0])

    def _parts(self, text):
        for part in text:
            if part == "!":
                raise ValueError("a failure")
            if part == "~":
                time.sleep(0.3)
            yield part

    def close(self):
        pass


@pytest.fixture
def answerer(tmp_path):
    versions = Versions(str(tmp_path), 1, None)
    versions._known[1] = Version(1, VersionState.AVAILABLE, predictor=_Predictor())
    found = Answerer({"bert": versions}, RequestLimits(8, 1000, 4, 0.2), Metrics(lambda: 0))
    yield found
    found.close()


def _stream(answerer, text, **changes):
    app = rest.RestInterface(answerer, Identity(), "127.0.0.1")
    body = {"signature_name": "generate", "inputs": {"text": text}, **changes}
    status, content = asyncio.run(asgi.post(app, "stream", json.dumps(body).encode()))
    if status != 200:
        return status, json.loads(content)["error"]
    events = content.decode().removesuffix("\n\n").split("\n\n")
    return [json.loads(event.removeprefix("data: ")) for event in events if event]


def test_parts_arrive_as_events(answerer):
    assert _stream(answerer, ["abé"]) == [{"text": "a"}, {"text": "b"}, {"text": "é"}]
    assert 'bert_tf_request_seconds_count{model="bert",signature="generate"} 1.0' in (
        answerer.metrics.text().decode()
    )


def test_failures_end_the_stream_and_free_its_place(answerer):
    (first, last) = _stream(answerer, ["a!b"])
    assert first == {"text": "a"} and last["error"].startswith("The server failed")
    assert _stream(answerer, ["!"]) == (500, "The server failed; its log has the reason.")
    assert _stream(answerer, ["~ab"])[-1] == {"error": "No answer within 0.2 s."}
    assert _stream(answerer, ["a", "b"]) == (400, "generate: a stream has one text, not 2.")
    status, error = _stream(answerer, ["a"], signature_name="other")
    assert status == 404 and "Unknown signature 'other'" in error
    assert _stream(answerer, ["a"]) == [{"text": "a"}]


def test_bodies_that_do_not_arrive_have_places_and_an_end(answerer):
    async def receive():
        await asyncio.sleep(60)

    async def streams():
        begun = [streaming.stream(answerer, receive) for _ in range(answerer.limits.requests + 1)]
        return await asyncio.gather(*begun, return_exceptions=True)

    faults = [error.fault for error in asyncio.run(streams())]
    assert sorted(faults, key=str) == [Fault.BUSY, *[Fault.TIMEOUT] * answerer.limits.requests]
    assert _stream(answerer, ["a"]) == [{"text": "a"}]
