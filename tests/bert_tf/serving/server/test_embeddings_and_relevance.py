"""Embeddings as of OpenAI's interface, and texts in the order of their relevance."""

import base64
import json

import numpy as np
import pytest

from bert_tf.serving import relevance

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
    np.testing.assert_allclose([item["embedding"] for item in found["data"]], wanted, atol=1e-5)
    _, text = served.get(
        "/v1/embeddings", json.dumps({**body, "encoding_format": "base64"}).encode()
    )
    coded = [base64.b64decode(item["embedding"]) for item in json.loads(text)["data"]]
    np.testing.assert_allclose([np.frombuffer(c, "<f4") for c in coded], wanted, atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"top_n": 2, "return_documents": True}], ids=str)
def test_texts_in_the_order_of_their_relevance(served, predictor, more):
    texts = ["the small model", "a kernel", "every shard is here"]
    body = {"model": "bert", "query": "a model", "documents": [texts[0], {"text": texts[1]}]}
    body["documents"].append(texts[2])
    _, text = served.get("/v1/rerank", json.dumps(body | more).encode())
    found = json.loads(text)["results"]
    scores = predictor("pick", context=["a model"], choices=[texts])["probabilities"][0]
    order = np.argsort(-scores).tolist()[: more.get("top_n")]
    assert [item["index"] for item in found] == order
    np.testing.assert_allclose(
        [item["relevance_score"] for item in found], scores[order], atol=1e-5
    )
    if more:
        assert found[0]["document"] == {"text": texts[order[0]]}


def test_the_relevant_label_is_entailment_or_the_second():
    assert relevance.label({"labels": ["entailment", "not_entailment"]}) == 0
    assert relevance.label({"labels": ["0", "1"]}) == 1


def test_a_task_of_choices_ranks_before_others(predictor):
    manifest = predictor.manifest
    choices = relevance.signature(manifest)
    assert manifest["signatures"][choices]["inputs"].keys() == {"context", "choices"}
    others = {k: v for k, v in manifest["signatures"].items() if "choices" not in v["inputs"]}
    found = relevance.signature({**manifest, "signatures": others})
    assert manifest["signatures"][found]["inputs"].keys() == {"text_a", "text_b"}


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
    ("path", "body", "status", "words"),
    [
        ("/v1/rerank", b'{"model": "gpt", "query": "x", "documents": []}', 404, "Unknown model"),
        ("/v1/rerank", b'{"model": "bert", "query": "x"}', 400, "field `documents`"),
        (
            "/v1/rerank",
            b'{"model": "bert", "query": "x", "documents": []}',
            400,
            '"documents" must be a list of texts',
        ),
        ("/v1/embeddings", b'{"model": "gpt", "input": "x"}', 404, "Unknown model 'gpt'"),
        ("/v1/embeddings", b'{"model": "bert"}', 400, "missing required field `input`"),
        ("/v1/embeddings", b'{"model": "bert", "input": []}', 400, '"input" must be a text'),
        (
            "/v1/embeddings",
            b'{"model": "bert", "input": "x", "dimensions": 99}',
            400,
            '"dimensions" must be at most 32',
        ),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(served, path, body, status, words):
    served.check_refusal(path, body, status, words)
