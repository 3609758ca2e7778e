"""Requests are answered by one version each, whatever comes and goes meanwhile."""

import asyncio
import threading

import numpy as np
import pytest

from bert_tf.serving.server.answers import Answerer, EncodedRequest, ModelSpec, RequestLimits
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.metrics import Metrics
from bert_tf.serving.server.versions import Version, Versions, VersionState
from bert_tf.tasks.signatures import Method


class _Predictor:
    def __init__(self, name):
        self.manifest = {"signatures": {"only": {"method": Method.PREDICT, "inputs": {name: []}}}}

    def __call__(self, signature, /, **inputs):
        assert [*inputs] == [*self.manifest["signatures"][signature]["inputs"]]
        return {"output": np.array([*inputs], object)}

    def close(self):
        pass


class _Request(EncodedRequest):
    """Asks the newest version; `meanwhile` happens before its inputs are converted."""

    def __init__(self, meanwhile):
        self._meanwhile = meanwhile

    def parse(self, limits):
        return ModelSpec("bert")

    def inputs(self, names):
        self._meanwhile()
        return {name: ["x"] for name in names}

    def encode(self, answer):
        return f"{answer.version} {answer.outputs['output'].tolist()}".encode()


@pytest.fixture
def answerer(tmp_path):
    """Answers one request at once, with version 1."""
    versions = Versions(str(tmp_path), 1, None)
    versions._known = {1: Version(1, VersionState.AVAILABLE, predictor=_Predictor("first"))}
    answerer = Answerer("bert", versions, RequestLimits(8, 1000, 1, 1.0), Metrics(lambda: 0))
    yield answerer
    answerer.close()


async def _ask(answerer, meanwhile=lambda: None):
    async def receive():
        return _Request(meanwhile)

    return await answerer.answer(receive)


def test_a_version_is_chosen_once(answerer):
    def newer():
        answerer.versions._known[2] = Version(
            2, VersionState.AVAILABLE, predictor=_Predictor("second")
        )

    assert asyncio.run(_ask(answerer, newer)) == b"1 ['first']"
    assert asyncio.run(_ask(answerer)) == b"2 ['second']"


def test_a_place_is_free_when_its_thread_is(answerer):
    done = threading.Event()

    def fault():
        with pytest.raises(RefusalError) as raised:
            asyncio.run(_ask(answerer, lambda: done.wait(60)))
        return raised.value.fault

    assert fault() is Fault.TIMEOUT
    assert fault() is Fault.BUSY  # nobody waits for the first, which still computes
    done.set()
    answerer._threads.submit(lambda: None).result(60)
    assert asyncio.run(_ask(answerer)) == b"1 ['first']"


def test_a_request_that_does_not_come_leaves_its_place(answerer):
    async def never():
        await asyncio.sleep(60)

    with pytest.raises(RefusalError) as raised:
        asyncio.run(answerer.answer(never))
    assert raised.value.fault is Fault.TIMEOUT
    assert asyncio.run(_ask(answerer)) == b"1 ['first']"
