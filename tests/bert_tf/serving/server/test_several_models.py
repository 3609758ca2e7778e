"""One server for several exports, and pages of other websites that may use it."""

import json
import shutil
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from bert_tf.export import saved_model, sources
from bert_tf.serving import client
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.server.settings import ServerSettings, check_name
from bert_tf.serving.server.versions import models_in
from pipelines.common.errors import InputError
from tests.bert_tf.serving.server.served import Served

pytestmark = pytest.mark.more
SITE = "https://example.org"


@pytest.fixture(scope="module")
def exports(folders, tmp_path_factory):
    """A folder of two exports, one of which has the signature of the other, too."""
    folder = str(tmp_path_factory.mktemp("exports"))
    saved_model.export(sources.find([f"mood={folders['mood']}"]), f"{folder}/feelings")
    pair = [f"mood={folders['mood']}", f"vector={folders['vector']}"]
    saved_model.export(sources.find(pair), f"{folder}/vectors")
    shutil.copytree(f"{folder}/feelings/1/assets", f"{folder}/notes")
    return folder


@pytest.fixture(scope="module")
def served(exports):
    server = Served(exports, f"--allow_origin={SITE}").wait()
    yield server
    server.stop()


def test_folders_of_versions_are_models(exports):
    expected = {name: f"{exports}/{name}" for name in ("feelings", "vectors")}
    assert models_in(exports, None) == expected
    assert models_in(f"{exports}/vectors", "v") == {"v": f"{exports}/vectors"}
    assert models_in(f"{exports}/vectors/1", None) == {"bert": f"{exports}/vectors/1"}
    with pytest.raises(InputError, match="has feelings, vectors; they have the names of their"):
        models_in(exports, "v")
    with pytest.raises(InputError, match="has no exported version"):
        models_in(f"{exports}/notes", None)
    for name in ("", "a/b", "a:predict", "a?b", "a%2Fb", "a b"):
        with pytest.raises(InputError, match="is a part of URLs; give a name without"):
            check_name(name, "--name=")
    check_name("모델-1.5_b", "--name=")


def test_a_model_that_cannot_be_read_leaves_the_others_and_is_served_when_it_can(exports, tmp_path):
    for name in ("feelings", "vectors"):
        shutil.copytree(f"{exports}/{name}", tmp_path / "models" / name)
    manifest = tmp_path / "models/feelings/1/manifest.json"
    manifest.rename(tmp_path / "manifest.json")
    server = Served(tmp_path / "models", "--poll_seconds=0.1").wait()
    try:
        assert client.connect(server.rest, "vectors").predict("mood", text=["short"])
        (tmp_path / "manifest.json").rename(manifest)
        end = time.monotonic() + 60
        while b"feelings" not in server.get("/v1/models")[1].encode():
            assert time.monotonic() < end
            time.sleep(0.1)
        assert client.connect(server.rest, "feelings").predict("mood", text=["short"])
    finally:
        server.stop()


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_each_model_answers_by_its_name(served, exports, protocol):
    for name in ("feelings", "vectors"):
        ask = client.connect(getattr(served, protocol), name).predict
        found = ask("mood", text=["short"])["probabilities"]
        expected = Predictor(f"{exports}/{name}")("mood", text=["short"])["probabilities"]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    with pytest.raises(InputError, match="Unknown model 'bert'; this server has 'feelings', 'vec"):
        client.connect(getattr(served, protocol), "bert").predict("mood", text=["short"])


def test_lists_and_pages_name_all_models(served):
    status, text = served.get("/v1/models")
    assert status == 200
    assert [each["id"] for each in json.loads(text)["data"]] == ["feelings", "vectors"]
    assert served.get("/v1/models/vectors/metadata")[0] == 200
    for path, shown in (("/", "feelings"), ("/?model=vectors", "vectors")):
        status, text = served.get(path)
        assert status == 200 and f"<title>{shown}: demo" in text
        assert '"models":["feelings","vectors"]' in text.replace(", ", ",").replace(": ", ":")
    assert served.get("/?model=bert")[0] == 404


def test_clients_of_openai_choose_the_model(served):
    body = {"input": "short", "model": "vectors"}
    status, text = served.get("/v1/embeddings", json.dumps(body).encode())
    assert status == 200 and json.loads(text)["model"] == "vectors"
    refused = json.dumps(body | {"model": "text-embedding-3-small"}).encode()
    served.check_refusal("/v1/embeddings", refused, 404, "this server has 'feelings', 'vectors'")
    refused = json.dumps(body | {"model": "feelings"}).encode()
    served.check_refusal("/v1/embeddings", refused, 404, "This model has no embeddings")


def test_counts_are_by_model(served):
    for name in ("feelings", "vectors"):
        client.connect(served.rest, name).predict("mood", text=["short"])
    _, text = served.get("/metrics")
    for name in ("feelings", "vectors"):
        assert f'bert_tf_request_seconds_count{{model="{name}",signature="mood"}}' in text


def test_pages_of_named_sites_may_ask(served):
    body = json.dumps({"signature_name": "mood", "inputs": ["short"]}).encode()
    path, json_type = "/v1/models/feelings:predict", {"Content-Type": "application/json"}
    assert served.get(path, body, Origin=SITE, **json_type)[0] == 200
    status, text = served.get(path, body, Origin="https://evil.example", **json_type)
    assert status == 403 and "may not use this server" in text


def test_browsers_are_told_which_site_may_read(served):

    def headers(site, method="OPTIONS"):
        asked = {"Access-Control-Request-Method": "POST", "Origin": site}
        # As clients of OpenAI in a browser.
        asked["Access-Control-Request-Headers"] = "authorization,content-type,x-stainless-lang"
        request = urllib.request.Request(f"{served.rest}/v1/models", headers=asked, method=method)
        with urllib.request.urlopen(request) as response:
            return response.headers

    assert headers(SITE)["access-control-allow-origin"] == SITE
    assert headers(SITE, "GET")["access-control-allow-origin"] == SITE
    with pytest.raises(urllib.error.HTTPError, match="400"):
        headers("https://evil.example")


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "example.org",
        "https://example.org/",
        "https://*.org",
        "https://a.org:443",
        "http://A.org",
    ],
)
def test_an_origin_is_a_website(origin):
    with pytest.raises(InputError, match=r"--allow_origin=.*such as https://example.org"):
        ServerSettings(allow_origin=[origin]).check()
