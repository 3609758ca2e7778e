"""Requests over HTTP and gRPC of which bytes are changed and sizes lie.

One server gets all of them, several at once. Each is answered with finite numbers, or refused in
one line with a status below 500, or its connection ends; the time of each and the memory of the
server are bounded, others are answered meanwhile, and the log has no traceback.
"""

import contextlib
import functools
import json
import math
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    predict_pb2,
    prediction_log_pb2,
)

from benchmarks.soak import changes, small_inputs
from benchmarks.soak.outcomes import Case, Outcome, Workspace
from bert_tf.export import saved_model, warmup
from tests.bert_tf.serving.server import attacks
from tests.bert_tf.serving.server.served import Served

CATEGORY = "messages"
MESSAGES = 1000  # of a case
_CLIENTS = 16
_SECONDS = 30.0  # of a message, and of others' meanwhile; most take a thousandth of it
_PATIENCE = 0.1  # seconds until a client ends a request that the server may not see as whole
_MEMORY = 1 << 30  # bytes
_CODES = (
    grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)  # fmt: skip
_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]*\r\n(?:[^\r]+\r\n)*\r\n")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: (\d+)\r\n")
_JSON = re.compile(rb"(?i)\r\ncontent-type: application/json\r\n")
_IDS = {name: [[2, 7, 3]] for name in ("input_word_ids", "input_mask", "input_type_ids")}
_REGRESS = "/v1/models/bert/versions/1:regress"
_REQUESTS: list[tuple[str, Any]] = [  # paths, and bodies if they are posted
    ("/", None),
    ("/healthz", None),
    ("/v1/models/bert", None),
    ("/v1/models/bert/versions/1/metadata", None),
    (attacks.PREDICT, {"instances": ["a good film"]}),
    (attacks.PREDICT, {"signature_name": "mood", "instances": [{"text": "a film"}, {"text": "b"}]}),
    (attacks.PREDICT, {"signature_name": "mood", "inputs": {"text": ["a good film", ""]}}),
    (attacks.PREDICT, {"signature_name": "tags", "inputs": {"words": [["a", "film"]]}}),
    (attacks.PREDICT, {"signature_name": "tags", "instances": [{"b64": "YSBmaWxt"}]}),
    (attacks.PREDICT, {"signature_name": "mood_ids", "inputs": _IDS}),
    (attacks.CLASSIFY, {"signature_name": "mood_classify", "examples": [{"text": "a film"}]}),
    (
        attacks.CLASSIFY,
        {"signature_name": "mood_classify", "context": {"text": "a"}, "examples": [{}, {}]},
    ),
    (_REGRESS, {"examples": [{"text": "a film"}]}),
    ("/v1/embeddings", {"model": "bert", "input": ["a good film"], "dimensions": 8}),
    ("/v1/rerank", {"model": "bert", "query": "film", "documents": ["a film", "b"], "top_n": 1}),
]


@contextlib.contextmanager
def make(workspace: Workspace) -> Iterator[Case]:
    """Yields the cases, each of `MESSAGES` messages to the same server."""
    export = small_inputs.make(workspace.folder).export
    served = Served(export).wait()
    try:
        sender = Sender(served, saved_model.newest(export), workspace)
        yield lambda number: sender.run(number * MESSAGES, (number + 1) * MESSAGES)
    finally:
        served.stop()


class Sender:
    """Sends mutated messages to a server, and checks what it answers.

    Args:
      served: the server.
      export: the version that it serves; its warm-up requests are mutated, too.
      workspace: has the seed.
    """

    def __init__(self, served: Served, export: str, workspace: Workspace):
        self._served, self._workspace = served, workspace
        self._memory = served.memory
        self._messages = _messages(export)

    def run(self, first: int, end: int) -> Outcome:
        """Sends the messages with the numbers from `first` to `end`."""
        counts, failures = Counter(messages=end - first), list[str]()
        address = self._served.grpc.removeprefix("grpc://")
        with (
            self._watched(failures),
            grpc.insecure_channel(address) as channel,
            ThreadPoolExecutor(_CLIENTS) as pool,
        ):
            send = functools.partial(self._send, channel)
            for number, (result, failure) in enumerate(pool.map(send, range(first, end)), first):
                counts[result] += 1
                failures += [f"{number}: {failure}"] if failure else []
        return Outcome(dict(counts), tuple(failures))

    @contextlib.contextmanager
    def _watched(self, failures: list[str]) -> Iterator[None]:
        """Notes whether the server answers others meanwhile, in bounded memory."""
        seconds, memory = [0.0], [0]

        def probe() -> None:
            begin = time.monotonic()
            if (found := self._served.get("/healthz")) != (200, "ok"):
                failures.append(f"/healthz: {found}")
            seconds.append(time.monotonic() - begin)
            memory.append(self._served.memory)
            time.sleep(0.05)

        with attacks.attack(probe):
            yield
        if max(seconds) > _SECONDS:
            failures.append(f"/healthz took {max(seconds):.1f} s")
        if max(memory) > self._memory + _MEMORY:
            failures.append(f"the server took {max(memory) - self._memory:,} bytes")
        if "Traceback" in self._served.log:
            failures.append(f"the log has a traceback: {self._served.log[-1000:]!r}")

    def _send(self, channel: grpc.Channel, number: int) -> tuple[str, str | None]:
        rng = self._workspace.rng(CATEGORY, number)
        if rng.random() < 0.5:
            found, ended = self._answers(_http_request(rng))
            return checked_answers(found, ended)
        method, message = rng.choice(self._messages)
        raw = rng.random() < 0.5
        data = changes.changed_bytes(message.SerializeToString(), rng) if raw else None
        ask = channel.unary_unary(f"/tensorflow.serving.{method}")
        try:
            answer = ask(changes.changed_message(message, rng) if data is None else data, _SECONDS)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            fails = code not in _CODES or len(details.splitlines()) != 1
            return "refused", f"{method}: {code}: {details}" if fails else None
        if method.endswith("/Predict"):
            outputs = predict_pb2.PredictResponse.FromString(answer).outputs.values()
            values = [value for output in outputs for value in tf.make_ndarray(output).ravel()]
            if any(not isinstance(value, bytes) and not math.isfinite(value) for value in values):
                return "answered", f"{method}: an answer is not finite"
        return "answered", None

    def _answers(self, data: bytes) -> tuple[bytes, bool]:
        """What the server answers, and whether the client has ended the request before."""
        found, ended = bytearray(), False
        with attacks.connect(self._served) as connection, contextlib.suppress(ConnectionError):
            connection.settimeout(_SECONDS)
            connection.sendall(data)
            connection.settimeout(_PATIENCE)
            while True:
                try:
                    part = connection.recv(1 << 16)
                except TimeoutError:
                    if ended:
                        raise
                    ended = True
                    connection.shutdown(socket.SHUT_WR)
                    connection.settimeout(_SECONDS)
                    continue
                if not part:
                    break
                found += part
        return bytes(found), ended


def _messages(export: str) -> list[tuple[str, Message]]:
    """Valid messages with their methods: the warm-up requests of an export, and its description."""
    found = list[tuple[str, Message]]()
    path = f"{export}/{saved_model.EXTRA}/{warmup.FILE}"
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        kind = log.WhichOneof("log_type").removesuffix("_log")
        found.append((f"PredictionService/{kind.title()}", getattr(log, f"{kind}_log").request))
    status = get_model_status_pb2.GetModelStatusRequest()
    metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    for method, request in (
        ("ModelService/GetModelStatus", status),
        ("PredictionService/GetModelMetadata", metadata),
    ):
        request.model_spec.name, request.model_spec.version.value = "bert", 1
        found.append((method, request))
    return found


def _http_request(rng: random.Random) -> bytes:
    """A request with changes: in the JSON or the bytes of its body, or in everything."""
    path, body = rng.choice(_REQUESTS)
    kind = rng.randrange(4) if body is not None else 3
    if kind == 0:
        body = changes.changed_json(body, rng)
    content = b"" if body is None else json.dumps(body).encode()
    if kind == 1:
        content = changes.changed_bytes(content, rng)
    whole = _framed(path, content, rng)
    if kind < 2:
        return whole
    if rng.random() < 0.3:  # another one follows
        other, body = rng.choice(_REQUESTS)
        whole = whole.replace(b"Connection: close\r\n", b"")
        whole += _framed(other, b"" if body is None else json.dumps(body).encode(), rng)
    return changes.changed_bytes(whole, rng)


def _framed(path: str, content: bytes, rng: random.Random) -> bytes:
    if not content:
        return attacks.request(path=path).replace(b"POST", b"GET", 1)
    if rng.random() < 0.8:
        return attacks.request(content, path)
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
    return attacks.request(chunk, path, "Transfer-Encoding: chunked")


def checked_answers(data: bytes, ended: bool) -> tuple[str, str | None]:
    """The result of a request over HTTP, and what is wrong with the answers to it.

    Args:
      data: all that came back.
      ended: whether the client has ended the request, so that the last answer may lack its end.
    """
    result = "closed"
    while data:
        head = _HEAD.match(data)
        if not head:
            return result, f"is not an answer: {data[:300]!r}"
        status, data = int(head[1]), data[head.end() :]
        length = _LENGTH.search(head[0])
        size = int(length[1]) if length else len(data)
        body, data = data[:size], data[size:]
        result = "answered" if status < 400 else "refused"
        if len(body) < size:
            return result, None if ended else f"an answer lacks its end: {head[0]!r}"
        if status >= 500:
            return result, f"{status}: {body[:300]!r}"
        if _JSON.search(head[0]):
            try:
                error = json.loads(body, parse_constant=_refuse).get("error", "")
            except ValueError as refused:
                return result, f"is not finite JSON: {refused}: {body[:300]!r}"
            message = error if isinstance(error, str) else error["message"]
            if len(message.splitlines()) > 1:
                return result, f"has several lines: {message!r}"
    return result, None


def _refuse(constant: str) -> None:
    raise ValueError(f"it has {constant}")
