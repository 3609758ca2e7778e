"""A server of our own answers as TensorFlow Serving does, over both protocols."""

import base64
import json
import os
import shutil
import socket
import ssl
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
import trustme
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from bert_tf.serving import client
from bert_tf.serving.credentials import Access
from bert_tf.serving.plan import EngineName, ExecutionPlan
from bert_tf.serving.server import listening, run
from bert_tf.serving.server.run import Address
from bert_tf.serving.server.settings import ServerSettings
from bert_tf.tasks.signatures import Method
from pipelines.common.errors import InputError

_TEXTS = ["The small model reads every layer.", "short", "A deep kernel masks " * 20]


def _same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        if value.dtype == object or not value.size:  # JSON lacks unknown sizes after an empty axis
            assert found[name].ravel().tolist() == value.ravel().tolist()
        else:
            np.testing.assert_allclose(found[name], value, atol=1e-5)


def _post(server, method, body, **headers):
    status, text = server.get(f"/v1/models/bert{method}", json.dumps(body).encode(), **headers)
    return status, json.loads(text)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_our_client_gets_what_the_export_answers(served, predictor, protocol):
    ask = client.connect(getattr(served, protocol)).predict
    for signature, inputs in predictor.samples.items():
        if predictor.manifest["signatures"][signature]["method"] == Method.PREDICT:
            _same(ask(signature, **inputs), predictor(signature, **inputs))
    _same(ask("mood", text=_TEXTS), predictor("mood", text=_TEXTS))


def test_a_version_has_answered_before_clients_ask(export, monkeypatch):
    asked = []

    class Noted:
        samples = {"mood": {"text": ["a"]}, "embed": {"text": ["b"]}}  # noqa: RUF012
        difference = None

        def __init__(self, path, **options):
            pass

        def __call__(self, name, **values):
            asked.append((name, values))

    monkeypatch.setattr(run, "Predictor", Noted)
    run._load(export, ExecutionPlan(EngineName.TENSORFLOW, 1), None, ServerSettings())
    assert sorted(asked) == sorted(Noted.samples.items())


def test_rows_and_columns(served, predictor):
    wanted = predictor("same", text_a=_TEXTS, text_b=_TEXTS[::-1])
    rows = [{"text_a": a, "text_b": b} for a, b in zip(_TEXTS, _TEXTS[::-1], strict=True)]
    status, found = _post(served, ":predict", {"signature_name": "same", "instances": rows})
    assert status == 200
    assert [row["label"].encode() for row in found["predictions"]] == wanted["label"].tolist()
    columns = {"text_a": _TEXTS, "text_b": _TEXTS[::-1]}
    _, found = _post(served, ":predict", {"signature_name": "same", "inputs": columns})
    np.testing.assert_allclose(found["outputs"]["logits"], wanted["logits"], atol=1e-5)
    # One input may go without its name, one output does; bytes are in base64.
    encoded = [{"b64": base64.b64encode(text.encode()).decode()} for text in _TEXTS]
    body = {"signature_name": "embed_layers", "instances": encoded}
    _, found = _post(served, "/versions/1:predict", body)
    wanted = predictor("embed_layers", text=_TEXTS)["layers"]
    np.testing.assert_allclose(found["predictions"], wanted, atol=1e-5)


def test_examples_are_classified_and_scored(served, predictor):
    wanted = predictor("mood", text=["short"])
    body = {"signature_name": "mood_classify", "examples": [{"text": "short"}]}
    _, found = _post(served, ":classify", body)
    labels, scores = zip(*found["results"][0], strict=True)
    np.testing.assert_allclose(scores, wanted["probabilities"][0], atol=1e-5)
    assert labels == ("bad", "good", "so-so")
    wanted = predictor("score", text_a=["x"], text_b=["short"])["score"]
    body = {"context": {"text_a": "x"}, "examples": [{"text_b": "short"}]}
    _, found = _post(served, ":regress", body)
    np.testing.assert_allclose(found["results"], wanted, atol=1e-5)


def test_stock_stubs_of_grpc(served, predictor):
    with grpc.insecure_channel(served.grpc.removeprefix("grpc://")) as channel:
        service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_pb2.PredictRequest(output_filter=["label"])
        request.model_spec.name, request.model_spec.signature_name = "bert", "mood"
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(_TEXTS))
        response = service.Predict(request, 60)
        assert list(response.outputs) == ["label"] and response.model_spec.version.value == 1
        found = tf.make_ndarray(response.outputs["label"])
        assert found.tolist() == predictor("mood", text=_TEXTS)["label"].tolist()

        classify = classification_pb2.ClassificationRequest()
        classify.model_spec.name, classify.model_spec.signature_name = "bert", "mood_classify"
        feature = classify.input.example_list.examples.add().features.feature["text"]
        feature.bytes_list.value.append(b"short")
        classes = service.Classify(classify, 60).result.classifications[0].classes
        assert [each.label for each in classes] == ["bad", "good", "so-so"]
        del classify.input.example_list.examples[:]
        with pytest.raises(grpc.RpcError, match=r"The request has no examples\."):
            service.Classify(classify, 60)

        regress = regression_pb2.RegressionRequest()
        regress.model_spec.name = "bert"
        given = regress.input.example_list_with_context
        given.context.features.feature["text_a"].bytes_list.value.append(b"x")
        example = given.examples.add()
        example.features.feature["text_b"].bytes_list.value.append(b"short")
        value = service.Regress(regress, 60).result.regressions[0].value
        assert value == pytest.approx(
            predictor("score", text_a=["x"], text_b=["short"])["score"][0], abs=1e-5
        )

        metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        metadata.model_spec.name = "bert"
        found = get_model_metadata_pb2.SignatureDefMap()
        service.GetModelMetadata(metadata, 60).metadata["signature_def"].Unpack(found)
        assert found.signature_def["mood"].inputs["text"].dtype == tf.string.as_datatype_enum
        metadata.metadata_field.append("other")
        with pytest.raises(grpc.RpcError, match="Unknown metadata_field 'other'"):
            service.GetModelMetadata(metadata, 60)
        status = get_model_status_pb2.GetModelStatusRequest()
        status.model_spec.name = "bert"
        states = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status, 60)
        assert (
            states.model_version_status[0].State.Name(states.model_version_status[0].state)
            == "AVAILABLE"
        )


def test_what_is_told_of_the_model(served):
    _, text = served.get("/v1/models/bert")
    assert json.loads(text)["model_version_status"][0]["state"] == "AVAILABLE"
    _, text = served.get("/v1/models/bert/versions/1/metadata")
    signatures = json.loads(text)["metadata"]["signature_def"]["signature_def"]
    assert signatures["mood"]["inputs"]["text"]["dtype"] == "DT_STRING"
    assert signatures["serving_default"]["method_name"].endswith("predict")
    served.get("/v1/models/bert:predict", b'{"signature_name": "mood", "instances": ["x"]}')
    _, text = served.get("/metrics")
    assert 'bert_tf_request_seconds_count{model="bert",signature="mood"}' in text
    status, text = served.get("/")
    assert status == 200 and "<title>" in text and "fill_mask" in text


def _asking(signature="mood", **body):
    return json.dumps({"signature_name": signature, **body}).encode()


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("other:predict", b"{}", 404, "Unknown model 'other'"),
        ("bert/versions/7:predict", b'{"instances": ["x"]}', 404, "Version 7"),
        ("bert:predict?signature_name=mood", _asking(), 400, "parameter 'signature_name'; put"),
        ("bert:stream?a", _asking(), 400, "Unknown query parameter 'a'"),
        ("bert:predict", _asking(signatureName="mood"), 400,
         "Unknown key 'signatureName'; there are signature_name, instances, inputs."),
        ("bert:classify", _asking(instances=[]), 400,
         "Unknown key 'instances'; there are signature_name, examples, context."),
        ("bert:regress", _asking(context={}, Examples=[]), 400, "Unknown key 'Examples'"),
        ("bert:stream", _asking(inputs=["x"]), 400, "mood: cannot be streamed; signatures that"),
        ("bert:predict", _asking("no"), 404, "Unknown signature 'no'"),
        ("bert:guess", b"{}", 404, "Methods are"),
        ("bert:predict", None, 400, "Ask for predict by POST"),
        ("bert/versions/7:stream", None, 400, "Ask for stream by POST"),
        ("bert:predict", b"[1", 400, "is invalid"),
        ("bert:predict", b"\xff", 400, "is invalid"),
        ("bert:predict", _asking(), 400, 'either "instances"'),
        ("bert:classify", _asking(examples=[{"text": "x"}]), 400, "is for predict"),
        ("bert:predict", _asking(instances=[{"b64": "?"}]), 400, "with bytes in base64"),
        ("bert:predict", _asking(instances=[1]), 400, "must be an array of string"),
        ("bert:predict", _asking("same", inputs={"text_a": ["x"], "text_b": ["x", "y"]}), 400,
         "must have the same batch size"),
        ("bert:predict", _asking(inputs={"text": "long " * 500}), 400, "is one text; give a batch"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_told_in_a_line(served, path, body, status, words):
    served.check_refusal(f"/v1/models/{path}", body, status, words)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        # One text that stands for two thousand million; and none at all.
        ({"shape": [2_000_000_000], "values": [b"x"]}, "batch of 2,000,000,000 is too large"),
        ({"shape": [1, 2_000_000_000], "values": [b"x"]}, "text: is too large"),
        ({"shape": [1, 1 << 40, 1 << 40], "values": []}, "text: is too large"),
        ({"shape": [], "values": [b"x"]}, "must be an array of string with 1 dimension"),
        ({"dtype": 20, "shape": [1], "values": []}, "text: is not a numeric or string tensor"),
        (
            {"dtype": 0, "name": "a\x1db\nc", "shape": [1], "values": []},
            r"a.*1db.*nc: is not a numeric",
        ),
    ],
)
def test_a_tensor_that_claims_what_it_has_not_is_refused(served, tensor, words):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "bert", "mood"
    given = request.inputs[tensor.get("name", "text")]
    given.dtype = tensor.get("dtype", tf.string.as_datatype_enum)
    given.string_val.extend(tensor["values"])
    for size in tensor["shape"]:
        given.tensor_shape.dim.add(size=size)
    with grpc.insecure_channel(served.grpc.removeprefix("grpc://")) as channel:
        service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError, match=words) as raised:
            service.Predict(request, 60)
    assert len(raised.value.details().splitlines()) == 1


@pytest.mark.more
def test_limits_and_a_token(serve, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    server = serve(f"--token_file={tmp_path}/token", "--max_rows=2", "--max_bytes=2000")
    assert server.get("/healthz")[0] == 200
    body = {"signature_name": "mood", "instances": ["x"]}
    for given in ({}, {"Authorization": "Bearer other"}):
        assert _post(server, ":predict", body, **given)[0] == 401
    with pytest.raises(InputError, match="bearer token"):
        client.connect(server.grpc).predict("mood", text=["x"])
    known = {"Authorization": "Bearer secret"}
    assert _post(server, ":predict", body, **known)[0] == 200
    status, answer = _post(server, ":predict", body | {"instances": ["x"] * 3}, **known)
    assert status == 413 and "at most 2 at once" in answer["error"]
    status, answer = _post(server, ":predict", {"instances": ["x" * 3000]}, **known)
    assert status == 413 and "2,000 bytes" in answer["error"]
    access = Access.of_files(f"{tmp_path}/token", None)
    for address in (server.grpc, server.rest):
        assert client.connect(address, access=access).predict("mood", text=["x"])
    with pytest.raises(InputError, match="at most 2 at once"):
        client.connect(server.grpc, access=access).predict("mood", text=["x"] * 3)


@pytest.mark.more
def test_tls(serve, tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    trust = ssl.create_default_context(cafile=tmp_path / "authority.pem")
    server = serve(
        f"--certificate={tmp_path}/certificate.pem", f"--key={tmp_path}/key.pem", trust=trust
    )
    access = Access(authority=f"{tmp_path}/authority.pem")
    for address in (server.grpc.replace("grpc:", "grpcs:"), server.rest.replace("http", "https")):
        assert client.connect(address, access=access).predict("mood", text=["x"])
        with pytest.raises(InputError, match="(?i)certificate|handshake"):
            client.connect(address, timeout=10).predict("mood", text=["x"])
    with pytest.raises(InputError):
        client.connect(server.grpc, timeout=10).predict("mood", text=["x"])
    for _ in range(listening.max_connections() + 8):  # each leaves its place to the next one
        assert server.get("/healthz", trust=trust) == (200, "ok")
    assert "Traceback" not in server.log


def _wait_for(server, wanted):
    """Waits until the versions have these states."""
    states, end = {}, time.monotonic() + 400
    while states != wanted:
        _, text = server.get("/v1/models/bert")
        told = json.loads(text)["model_version_status"]
        states = {each["version"]: each["state"] for each in told}
        assert time.monotonic() < end, states
        time.sleep(0.1)


@pytest.mark.more
def test_a_new_version_takes_over_while_requests_go_on(serve, tmp_path):
    server = serve("--poll_seconds=0.2")
    ask = client.connect(server.grpc).predict
    stop, failed = threading.Event(), []

    def go_on():
        while not stop.is_set():
            try:
                ask("mood", text=_TEXTS)
            except InputError as error:
                failed.append(str(error))

    threads = [threading.Thread(target=go_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    # A version that is damaged is told, and does not take over.
    shutil.copytree(tmp_path / "bert" / "1", tmp_path / "copy")
    shutil.copytree(tmp_path / "copy", tmp_path / "bad")
    os.remove(tmp_path / "bad" / "saved_model.pb")
    os.rename(tmp_path / "bad", tmp_path / "bert" / "2")
    _wait_for(server, {"1": "AVAILABLE", "2": "END"})
    os.rename(tmp_path / "copy", tmp_path / "bert" / "3")
    _wait_for(server, {"1": "END", "2": "END", "3": "AVAILABLE"})
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert _post(server, "/versions/1:predict", {"instances": ["x"]})[0] == 404


def test_each_protocol_needs_a_port():
    with pytest.raises(
        InputError, match="--grpc_port=8501 and --rest_port=8501: .* a port of its own"
    ):
        Address("127.0.0.1", 8501, 8501).check()


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_bytes", 2**31), ("max_requests", 2**31), ("timeout", 2e6), ("poll_seconds", 1e10)],
)
def test_values_beyond_those_of_grpc_and_threads_are_refused(name, value):
    with pytest.raises(InputError, match=f"^--{name}=.* at most"):
        ServerSettings(**{name: value}).check()


def test_a_port_that_is_taken_is_told_with_its_flag():
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(
            InputError, match=r"^--port=\d+: cannot be opened \(Address already in use\);"
        ),
    ):
        Address("127.0.0.1", taken.getsockname()[1], None, "port").check()


@pytest.mark.more
def test_it_answers_what_was_asked_before_it_ends(serve):
    server = serve()
    answered = []

    def ask():
        answered.append(client.connect(server.grpc).predict("tags", text=["a word " * 20_000]))

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.5)
    ended = server.stop()
    thread.join()
    assert ended.returncode == 0 and len(answered) == 1
