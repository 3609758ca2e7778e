"""Bodies of requests, mutated: an answer with finite numbers, or a refusal in one line.

The interfaces are called without a network: REST as an ASGI application, gRPC by its methods.
"""

import asyncio
import functools
import json
import math
import os

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2

from bert_tf.export import saved_model
from bert_tf.serving.credentials import Identity
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server import rest, rpc
from bert_tf.serving.server.answers import Answerer, Metrics, RequestLimits
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.versions import Versions
from tests import strategies
from tests.bert_tf.serving.server import asgi

_BODIES = [
    {"instances": ["a good film"]},
    {"signature_name": "mood", "instances": [{"text": "a good film"}, {"text": "bad"}]},
    {"signature_name": "mood", "inputs": {"text": ["a good film", ""]}},
    {"signature_name": "tags", "inputs": {"words": [["a", "film"]]}},
    {"signature_name": "tags", "instances": [{"b64": "YSBmaWxt"}]},
    {"signature_name": "mood_ids", "inputs": {"input_word_ids": [[2, 7, 3]],
                                              "input_mask": [[1, 1, 1]],
                                              "input_type_ids": [[0, 0, 0]]}},
    {"signature_name": "mood_classify", "examples": [{"text": "a good film"}]},
    {"signature_name": "mood_classify", "context": {"text": "bad"}, "examples": [{}, {}]},
]  # fmt: skip
_NESTED = st.integers(1, 3000).map(lambda n: b'{"inputs":' + b"[" * n + b"]" * n + b"}")
_JSON_BODIES = st.one_of(
    *[strategies.mutated_json(_BODIES)] * 2,
    strategies.file_contents([json.dumps(body).encode() for body in _BODIES]),
    _NESTED,
)


@pytest.fixture(scope="module")
def answerer(two_tasks):
    """Answers requests by the export of two tasks."""
    predictor = Predictor(two_tasks)
    versions = Versions(os.path.dirname(two_tasks), 1, lambda path: predictor)
    versions.refresh()
    answerer = Answerer("bert", versions, RequestLimits(64, 1 << 20, 8, 60), Metrics(lambda: 0))
    yield answerer
    answerer.close()


def _check_finite(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _check_finite(item)
    assert not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize("method", ["predict", "classify"])
@given(body=_JSON_BODIES)
def test_rest(answerer, method, body):
    app = rest.RestInterface(answerer, Identity(), "127.0.0.1")
    status, content = asyncio.run(asgi.post(app, method, body))
    found = json.loads(content)
    if status == 200:
        _check_finite(found)
    else:
        assert status < 500 and len(found["error"].splitlines()) == 1, found


@functools.cache
def _messages(export):
    """Real requests over gRPC by method: the warm-up requests of the export."""
    found = {"predict": [], "classify": []}
    path = f"{export}/{saved_model.EXTRA}/tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        kind = "classify" if log.HasField("classify_log") else "predict"
        request = getattr(log, f"{kind}_log").request
        request.model_spec.name = "bert"
        found[kind].append(request.SerializeToString())
    return found


@pytest.mark.parametrize(
    ("method", "request_type", "response"),
    [
        ("predict", rpc.Predict, predict_pb2.PredictResponse),
        ("classify", rpc.Classify, classification_pb2.ClassificationResponse),
    ],
)
@given(data=st.data())
def test_grpc(answerer, two_tasks, method, request_type, response, data):
    body = data.draw(strategies.file_contents(_messages(two_tasks)[method]))

    async def receive():
        return request_type(body, answerer.limits)

    try:
        encoded = asyncio.run(answerer.answer(receive))
    except RefusalError as error:
        assert error.fault is not Fault.INTERNAL and len(error.message.splitlines()) == 1, error
        return
    for value in getattr(response.FromString(encoded), "outputs", {}).values():
        _check_finite(list(value.float_val))
