"""Embeddings as of OpenAI's interface, and texts in the order of their relevance."""

import base64
import datetime
import json

import numpy as np
import pytest

from bert_tf.serving import relevance
from bert_tf.serving.server.answers import ModelResponse, RequestLimits
from bert_tf.serving.server.openai import EmbeddingsRequest
from bert_tf.serving.server.rerank import RerankRequest
from bert_tf.tasks import signatures

_TEXTS = ["The small model reads every layer.", "short"]


@pytest.mark.parametrize("dimensions", [None, 8])
def test_embeddings_as_of_openai(served, predictor, dimensions):
    body = {"model": "bert", "input": _TEXTS}
    body |= {"dimensions": dimensions} if dimensions else {}
    _, text = served.get("/v1/embeddings", json.dumps(body).encode())
    found = json.loads(text)
    wanted = predictor("vector", text=_TEXTS)["embedding"][:, :dimensions]
    wanted = wanted / np.linalg.norm(wanted, axis=-1, keepdims=True)
    assert [item["index"] for item in found["data"]] == [0, 1] and found["model"] == "bert"
    tokens = sum(
        len(ids) + 2 for ids in predictor._loaded["vector"].plain.tokenizer.tokenize(_TEXTS)
    )
    assert found["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    np.testing.assert_allclose([item["embedding"] for item in found["data"]], wanted, atol=1e-5)
    _, text = served.get(
        "/v1/embeddings", json.dumps({**body, "encoding_format": "base64"}).encode()
    )
    coded = [base64.b64decode(item["embedding"]) for item in json.loads(text)["data"]]
    np.testing.assert_allclose([np.frombuffer(c, "<f4") for c in coded], wanted, atol=1e-5)


def test_as_many_inputs_as_clients_of_openai_send_by_any_name(served):
    body = {"model": "text-embedding-3-small", "input": ["x"] * 2048, "user": "y"}
    status, text = served.get("/v1/embeddings", json.dumps(body).encode())
    found = json.loads(text)
    assert status == 200 and len(found["data"]) == 2048 and found["model"] == "bert"
    body["input"].append("x")
    served.check_refusal("/v1/embeddings", json.dumps(body).encode(), 413, "at most 2,048 at once")


def test_models_as_of_openai(served, predictor):
    status, text = served.get("/v1/models")
    (model,) = json.loads(text)["data"]
    made = datetime.datetime.fromtimestamp(model.pop("created"), datetime.UTC)
    assert made.date().isoformat() == predictor.manifest["date"]
    assert status == 200 and model == {"id": "bert", "object": "model", "owned_by": "bert-tf"}
    _, text = served.get("/v1/models/bert")
    found = json.loads(text)
    assert found.pop("model_version_status")[0]["state"] == "AVAILABLE"  # of TensorFlow Serving
    assert datetime.datetime.fromtimestamp(found.pop("created"), datetime.UTC) == made
    assert found == model
    served.check_refusal("/v1/models/text-embedding-3-small", None, 404, "Unknown model")


def _vectors(**task):
    task["name"] = "vector"
    signature = {"inputs": {"text": 0}, "outputs": {"embedding": 0}}
    manifest = {"models": [{"tasks": [task]}], "signatures": {"vector": signature}}
    limits = RequestLimits(8, 1000, 1, 1.0)
    request = EmbeddingsRequest(
        b'{"input": "x", "dimensions": 2}', limits, lambda _: ("bert", manifest)
    )
    assert request.parse().signature == "vector"
    outputs = {"embedding": np.array([[3, 4, 5]], np.float32)}
    encoded = request.encode(ModelResponse(1, "vector", outputs, 7))
    return json.loads(encoded)["data"][0]["embedding"]


def test_vectors_of_dot_products_keep_their_length():
    assert _vectors(normalize=False, similarity="dot") == [3, 4]
    for task in ({}, {"normalize": True, "similarity": "dot"}, {"normalize": False}):
        assert _vectors(**task) == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize(("activation", "scale"), [(None, 1), ("sigmoid", 0), ("identity", 0)])
def test_scores_of_one_label_pass_one_activation(activation, scale):
    task = {"name": "rank", "shape": "regression", "labels": []}
    task |= {"activation": activation} if activation else {}
    signature = {"inputs": {"text_a": 0, "text_b": 0}, "outputs": {"score": 0}}
    manifest = {"models": [{"tasks": [task]}], "signatures": {"rank": signature}}
    body = b'{"query": "x", "documents": ["a", "b", "c", "d"]}'
    request = RerankRequest(body, RequestLimits(8, 1000, 1, 1.0), lambda _: ("bert", manifest))
    assert request.parse().signature == "rank"
    logits = np.array([-11.5, 20.25, -11.0, 20.5], np.float32)  # negative ones do not tie
    found = json.loads(request.encode(ModelResponse(1, "rank", {"score": logits}, 7)))
    assert [result["index"] for result in found["results"]] == [3, 1, 2, 0]
    assert found["usage"] == {"total_tokens": 7}
    scores = np.array([result["relevance_score"] for result in found["results"]])
    wanted = logits[[3, 1, 2, 0]].astype(float)
    if scale:
        wanted = 1 / (1 + np.exp(-wanted))
        assert (np.diff(scores) < 0).all() and scores[-1] > 0 and scores[0] < 1
    np.testing.assert_allclose(scores, wanted, rtol=1e-12)


def test_an_empty_text_is_not_an_absent_choice():
    assert relevance.inputs(["context", "choices"], "x", ["a", ""]) == {
        "context": ["x"],
        "choices": [["a", signatures.EMPTY_TEXT]],
    }


@pytest.mark.parametrize(
    "more",
    [{}, {"top_n": 2, "return_documents": True}, {"top_n": None, "return_documents": None}],
    ids=str,
)
def test_texts_in_the_order_of_their_relevance(served, predictor, more):
    texts = ["the small model", "a kernel", "every shard is here"]
    body = {"model": "bert", "query": "a model", "documents": [texts[0], {"text": texts[1]}]}
    body["documents"].append(texts[2])
    _, text = served.get("/v1/rerank", json.dumps(body | more).encode())
    assert served.get("/v2/rerank", json.dumps(body | more).encode())[1] == text
    found = json.loads(text)["results"]
    scores = predictor("pick", context=["a model"], choices=[texts])["probabilities"][0]
    order = np.argsort(-scores).tolist()[: more.get("top_n")]
    assert [item["index"] for item in found] == order
    np.testing.assert_allclose(
        [item["relevance_score"] for item in found], scores[order], atol=1e-5
    )
    if more.get("return_documents"):
        assert found[0]["document"] == {"text": texts[order[0]]}


@pytest.mark.parametrize(
    ("labels", "relevant"),
    [
        ("0 1", 1), ("0 10", 1), ("no yes", 1), ("not_duplicate duplicate", 1),
        ("entailment not_entailment", 0), ("entailment contradiction", 0), ("follows random", 0),
        ("duplicate not_duplicate", 0), ("relevant irrelevant", 0), ("related unrelated", 0),
    ],
)  # fmt: skip
def test_the_relevant_label_is_the_one_that_says_so_or_the_second(labels, relevant):
    assert relevance.label({"labels": labels.split()}) == relevant


def test_a_task_of_choices_ranks_before_others(predictor):
    manifest = predictor.manifest
    choices = relevance.signature(manifest)
    assert manifest["signatures"][choices]["inputs"].keys() == {"context", "choices"}
    others = {k: v for k, v in manifest["signatures"].items() if "choices" not in v["inputs"]}
    found = relevance.signature({**manifest, "signatures": others})
    assert manifest["signatures"][found]["inputs"].keys() == {"text_a", "text_b"}
    pairs = {"inputs": {"text_a": 0, "text_b": 0}}
    for last in ("next_sentence", "z"):
        tasks = [
            {"name": name, "shape": "classification", "labels": ["a", "b"]} for name in (last, "y")
        ]
        signatures = {task["name"]: pairs for task in tasks}
        first = relevance.signature({"models": [{"tasks": tasks}], "signatures": signatures})
        assert first == ("y" if last == "next_sentence" else "z")


def test_relevance_by_a_model_of_choices(predictor):
    texts = ["the small model", "a kernel", "every shard is here"]
    signatures = predictor.manifest["signatures"]
    manifest = {**predictor.manifest, "signatures": {"pick": signatures["pick"]}}
    assert relevance.signature(manifest) == "pick"
    asked = relevance.inputs(list(signatures["pick"]["inputs"]), "a model", texts)
    found = predictor("pick", **asked)
    scores = relevance.scores(found, {"shape": "choice"})
    np.testing.assert_array_equal(scores, found["probabilities"][0])
    assert scores.shape == (3,)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("rerank", {"query": "x", "documents": ["y"], "rank_fields": []}, "`rank_fields`"),
        ("rerank", {"query": "x", "documents": [{"text": "y", "title": "z"}]}, "`title`"),
        ("rerank", {"model": "bert", "query": "x"}, "field `documents`"),
        ("rerank", {"query": "x", "documents": []}, '"documents" must be a list of texts'),
        ("embeddings", {"input": [1, 2]}, "check_embedding_ctx_length=False"),
        ("embeddings", {"input": [[1, 2], [3]]}, "token ids"),
        ("embeddings", {"input": "x", "task": "y"}, "unknown field `task`"),
        ("embeddings", {"input": "x", "prompt_name": "y"}, "this model are none"),
        ("embeddings", {"input": "x", "encoding_format": "z"}, "$.encoding_format"),
        ("embeddings", {"input": "x", "dimensions": 0}, "$.dimensions"),
        ("embeddings", {"model": "bert"}, "missing required field `input`"),
        ("embeddings", {"model": "bert", "input": []}, '"input" must be a text'),
        ("embeddings", {"input": "x", "dimensions": 99}, '"dimensions" must be at most 32'),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(served, path, body, words):
    served.check_refusal(f"/v1/{path}", json.dumps(body).encode(), 400, words)


def test_wrong_paths_and_encodings_are_told_as_clients_of_openai_expect_it(served):
    for path, body, headers, status, kind in (
        ("/v1/chat/completions", b"{}", {}, 404, "not_found"),
        ("/v1/embeddings", None, {}, 405, "invalid"),
        ("/v1/embeddings", b"x", {"Content-Encoding": "gzip"}, 415, "media_type"),
    ):
        found, text = served.get(path, body, **headers)
        error = json.loads(text)["error"]
        assert (found, error["type"]) == (status, kind) and error["message"]
    # As TensorFlow Serving.
    found, text = served.get("/v1/models/bert:predict", b"x", **{"Content-Encoding": "gzip"})
    assert found == 415 and json.loads(text)["error"].startswith("Content-Encoding gzip is not")
