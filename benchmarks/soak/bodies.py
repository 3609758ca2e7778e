"""Bodies of requests that are not as they should be: answers, or refusals in a line.

The server's own interfaces are asked, REST as ASGI and gRPC by its methods, without the network
between: what comes out must be an answer whose numbers are numbers, or a refusal of the client's
fault with one line.
"""

import asyncio
import functools
import json
import math
from collections.abc import Callable, MutableMapping
from typing import Any

import tensorflow as tf
from hypothesis import strategies as st
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2

from benchmarks.soak import mutations, search, small
from benchmarks.soak.outcomes import Case, Outcome, Place
from benchmarks.soak.search import RIGHT, TOLD, WrongError
from bert_tf.export import saved_model
from bert_tf.serving.credentials import Identity
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server import rpc
from bert_tf.serving.server.answers import Answerer, Limits, Question
from bert_tf.serving.server.faults import Fault, RefusalError
from bert_tf.serving.server.metrics import Metrics
from bert_tf.serving.server.rest import RestInterface
from bert_tf.serving.server.sites import Sites
from bert_tf.serving.server.versions import Versions

ROOM = "bodies"
_BLOCK = 100  # bodies of a case
_NAME = "bert"
_LARGEST = 1 << 20  # bytes of a request
_REAL = (
    {"instances": ["a good film"]},
    {"signature_name": "mood", "instances": [{"text": "a good film"}, {"text": "bad"}]},
    {"signature_name": "mood", "inputs": {"text": ["a good film", ""]}},
    {"signature_name": "tags", "inputs": {"words": [["a", "film"]]}},
    {"signature_name": "fill_mask", "inputs": ["a [MASK] film"]},
    {"signature_name": "embed", "instances": [{"b64": "YSBmaWxt"}]},
    {"signature_name": "mood_ids", "inputs": {"input_word_ids": [[2, 7, 3]],
                                              "input_mask": [[1, 1, 1]],
                                              "input_type_ids": [[0, 0, 0]]}},
    {"signature_name": "mood_classify", "examples": [{"text": "a good film"}]},
    {"signature_name": "mood_classify", "context": {"text": "bad"}, "examples": [{}, {}]},
)  # fmt: skip


class _Interfaces:
    """A server's interfaces without a server.

    Args:
      export: what it answers with.
    """

    def __init__(self, export: str):
        predictor = Predictor(export)
        versions = Versions(export, 1, lambda path: predictor)
        versions.refresh()
        self._answerer = Answerer(_NAME, versions, Limits(64, _LARGEST, 8, 60), Metrics(lambda: 0))
        self._app = RestInterface(self._answerer, Identity(), Sites("127.0.0.1")).app()
        self._loop = asyncio.new_event_loop()

    def rest(self, method: str, body: bytes) -> str:
        """Asks over REST."""
        status, content = self._loop.run_until_complete(self._posted(method, body))
        found = json.loads(content)
        if status == 200:
            _check_numbers(found)
            return RIGHT
        _check_refusal(status < 500, found["error"])
        return TOLD

    async def _posted(self, method: str, body: bytes) -> tuple[int, bytes]:
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(event: MutableMapping[str, Any]) -> None:
            sent.append(event)

        path = f"/v1/models/{_NAME}:{method}"
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
            "query_string": b"", "headers": [], "http_version": "1.1", "scheme": "http",
            "root_path": "",
        }  # fmt: skip
        await self._app(scope, receive, send)
        content = b"".join(event.get("body", b"") for event in sent[1:])
        return sent[0]["status"], content

    def predict(self, body: bytes) -> str:
        """Asks over gRPC for outputs."""
        return self._remote(rpc.Predict, predict_pb2.PredictResponse, body)

    def classify(self, body: bytes) -> str:
        """Asks over gRPC for classes."""
        return self._remote(rpc.Classify, classification_pb2.ClassificationResponse, body)

    def _remote(self, kind: Callable[[bytes], Question], response: Any, body: bytes) -> str:
        async def receive() -> Question:
            return kind(body)

        try:
            encoded = self._loop.run_until_complete(self._answerer.answer(receive))
        except RefusalError as error:
            _check_refusal(error.fault is not Fault.INTERNAL, error.message)
            return TOLD
        found = response.FromString(encoded)
        for value in getattr(found, "outputs", {}).values():
            _check_numbers(list(value.float_val))
        return RIGHT


def _check_numbers(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _check_numbers(item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise WrongError("an answer has what is no number")


def _check_refusal(of_client: bool, text: str) -> None:
    if not of_client:
        raise WrongError(f"the server failed: {text}")
    if len(text.splitlines()) != 1:
        raise WrongError(f"not one line: {text!r}")


def _messages(export: str) -> dict[str, list[bytes]]:
    """Real requests of gRPC, by method: those that the export is warmed up with."""
    found: dict[str, list[bytes]] = {"predict": [], "classify": []}
    path = f"{export}/{saved_model.EXTRA}/tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        kind = "classify" if log.HasField("classify_log") else "predict"
        request = getattr(log, f"{kind}_log").request
        request.model_spec.name = _NAME
        found[kind].append(request.SerializeToString())
    return found


def make(place: Place) -> Case:
    """Gives the cases, each of an interface in turn."""
    export = saved_model.newest(small.make(place.folder).export)
    ask = _Interfaces(export)
    texts = [json.dumps(body).encode() for body in _REAL]
    json_bodies = st.one_of(
        mutations.other_values(_REAL), mutations.other_values(_REAL), mutations.contents(texts),
        st.builds(lambda depth: b'{"inputs":' + b"[" * depth + b"]" * depth + b"}",
                  st.integers(1, 3000)),
    )  # fmt: skip
    trials: list[tuple[str, st.SearchStrategy[bytes], Callable[[bytes], str]]] = [
        ("REST predict", json_bodies, functools.partial(ask.rest, "predict")),
        ("REST classify", json_bodies, functools.partial(ask.rest, "classify")),
    ]
    for name, bodies in _messages(export).items():
        trials.append((f"gRPC {name}", mutations.contents(bodies), getattr(ask, name)))

    def case(number: int) -> Outcome:
        name, bodies, trial = trials[number % len(trials)]
        seed = place.rng(ROOM, number).getrandbits(64)
        return search.search(name, bodies, trial, seed, _BLOCK)

    return case
