"""Each request is answered by one version, even if others are loaded or removed meanwhile."""

import asyncio
import json
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2

from bert_tf.serving.credentials import Identity
from bert_tf.serving.server import rest, rpc
from bert_tf.serving.server.answers import (
    Answerer,
    EncodedRequest,
    Metrics,
    ModelSpec,
    RequestLimits,
)
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.versions import Version, Versions, VersionState
from bert_tf.tasks.signatures import Method
from tests.bert_tf.serving.server import asgi


class _Predictor:
    """Returns the name of its input; `meanwhile` happens before each of its steps."""

    def __init__(self, name, meanwhile=lambda step: None):
        self._name, self._meanwhile = name, meanwhile

    @property
    def manifest(self):
        self._meanwhile("signature")
        signature = {"method": Method.PREDICT, "inputs": {self._name: ["string", [None]]}}
        return {"signatures": {"only": signature}}

    def counted(self, signature, /, **inputs):
        self._meanwhile("computation")
        assert signature == "only" and [*inputs] == [self._name]
        return {"output": np.array([name.encode() for name in inputs], object)}, 7

    def close(self):
        pass


class _Request(EncodedRequest):
    """Asks the newest version; `meanwhile` happens before its inputs are converted."""

    def __init__(self, meanwhile):
        self._meanwhile = meanwhile

    def parse(self):
        return ModelSpec("bert")

    def inputs(self, names):
        self._meanwhile()
        return {name: ["x"] for name in names}

    def encode(self, answer):
        return f"{answer.version} {answer.outputs['output'].tolist()}".encode()


def _add(answerer, number, predictor):
    version = Version(number, VersionState.AVAILABLE, predictor=predictor)
    answerer.models["bert"]._known[number] = version


@pytest.fixture
def answerer(tmp_path):
    """Answers one request at a time, with version 1."""
    versions = Versions(str(tmp_path), 1, None)
    answerer = Answerer({"bert": versions}, RequestLimits(8, 1000, 1, 1.0), Metrics(lambda: 0))
    _add(answerer, 1, _Predictor("first"))
    yield answerer
    answerer.close()


async def _ask(answerer, meanwhile=lambda: None):
    async def receive():
        return _Request(meanwhile)

    return await answerer.answer(receive)


async def _rest(answerer, name):
    """The answer over REST, where a single input needs no name."""
    app = rest.RestInterface(answerer, Identity(), "127.0.0.1")
    status, content = await asgi.post(app, "predict", b'{"inputs": ["x"]}')
    assert status == 200, content
    return json.loads(content)["outputs"]


async def _grpc(answerer, name):
    """The answer over gRPC."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "bert"
    request.inputs[name].CopyFrom(tf.make_tensor_proto(["x"]))

    async def receive():
        return rpc.Predict(request.SerializeToString(), answerer.limits)

    response = predict_pb2.PredictResponse.FromString(await answerer.answer(receive))
    assert response.model_spec.version.value == {"first": 1, "second": 2}[name]
    return [value.decode() for value in tf.make_ndarray(response.outputs["output"])]


@pytest.mark.parametrize("ask", [_rest, _grpc])
@pytest.mark.parametrize("moment", ["signature", "computation"])
def test_a_version_is_chosen_once(answerer, ask, moment):
    """A newer version with another input becomes available while a request is answered."""

    def newer(step):
        if step == moment:
            _add(answerer, 2, _Predictor("second"))

    _add(answerer, 1, _Predictor("first", newer))
    assert asyncio.run(ask(answerer, "first")) == ["first"]
    assert asyncio.run(ask(answerer, "second")) == ["second"]


def test_a_place_is_free_when_its_thread_is(answerer):
    done = threading.Event()

    def fault():
        with pytest.raises(RefusalError) as raised:
            asyncio.run(_ask(answerer, lambda: done.wait(60)))
        return raised.value.fault

    assert fault() is Fault.TIMEOUT
    assert fault() is Fault.BUSY  # nobody waits for the first, which is still computing
    done.set()
    answerer._threads.submit(lambda: None).result(60)
    assert asyncio.run(_ask(answerer)) == b"1 [b'first']"


def test_a_request_that_does_not_arrive_leaves_its_place(answerer):
    async def never():
        await asyncio.sleep(60)

    with pytest.raises(RefusalError) as raised:
        asyncio.run(answerer.answer(never))
    assert raised.value.fault is Fault.TIMEOUT
    assert asyncio.run(_ask(answerer)) == b"1 [b'first']"


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_client_that_waits_no_longer_is_not_answered(answerer, seconds):
    computed = []

    async def receive():
        return _Request(lambda: computed.append(1))

    with pytest.raises(RefusalError) as raised:
        asyncio.run(answerer.answer(receive, seconds))
    assert raised.value.fault is Fault.TIMEOUT
    answerer._threads.submit(lambda: None).result(60)
    assert not computed and asyncio.run(_ask(answerer)) == b"1 [b'first']"


class _Embedder(_Predictor):
    manifest = {  # noqa: RUF012
        "models": [],
        "signatures": {
            "vectors": {
                "method": Method.PREDICT,
                "inputs": {"text": ["string", [None]]},
                "outputs": {"embedding": ["float32", [None, 2]]},
            }
        },
    }

    def counted(self, signature, /, **inputs):
        return {"embedding": np.ones([1, 2], np.float32)}, 7


@pytest.mark.parametrize("moment", ["before the body arrives", "before the answer"])
def test_a_model_named_in_a_body_may_be_replaced(answerer, moment):
    def replaced():
        _add(answerer, 2, _Embedder("text"))
        answerer.models["bert"]._known[1].state = VersionState.END

    class Replaced(_Embedder):
        @property
        def manifest(self):
            replaced()
            return _Embedder.manifest

    arrives = moment == "before the body arrives"
    if not arrives:
        answerer.models["bert"]._known[1].predictor = Replaced("text")
    app = rest.RestInterface(answerer, Identity(), "127.0.0.1")
    body = b'{"model": "bert", "input": "x"}'
    meanwhile = replaced if arrives else lambda: None
    assert asyncio.run(asgi.post(app, "/v1/embeddings", body, meanwhile))[0] == 200


@pytest.mark.parametrize(("kind", "values"), [("DT_INT8", "int_val"), ("DT_HALF", "half_val")])
def test_numbers_that_a_type_does_not_have_are_refused(answerer, kind, values):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "bert"
    tensor = request.inputs["first"]
    tensor.dtype = getattr(types_pb2, kind)
    getattr(tensor, values).append(100_000)
    tensor.tensor_shape.dim.add().size = 1

    async def receive():
        return rpc.Predict(request.SerializeToString(), answerer.limits)

    with pytest.raises(RefusalError) as raised:
        asyncio.run(answerer.answer(receive))
    assert raised.value.fault is Fault.INVALID
