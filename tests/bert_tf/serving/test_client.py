"""The clients against endpoints that run an export."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.serving import client
from bert_tf.serving.credentials import Access
from pipelines.common.errors import InputError
from pipelines.common.machine import cores
from tests import commands
from tests.bert_tf.serving import endpoint


@pytest.fixture(scope="module")
def addresses(predictor):
    with endpoint.serve(predictor) as found:
        yield found


@pytest.fixture(params=[0, 1], ids=["grpc", "rest"])
def address(request, addresses):
    return addresses[request.param]


def test_answers_are_those_of_the_export(address, predictor):
    connected = client.connect(address)
    requests = {
        "mood": {"text": ["the layer", "naïve ☃", ""]},
        "tags": {"text": tf.constant(["the layer reads"])},
        "same": {"text_a": [], "text_b": []},
        "score": {"text_a": ["the layer", "a"], "text_b": ["b", "c"]},
        "pick": {"context": ["it"], "choices": [["a", "b"]]},
        "mood_ids": {
            "input_word_ids": [[2, 9, 3]],
            "input_mask": [[1, 1, 1]],
            "input_type_ids": [[0, 0, 0]],
        },
    }
    for name, inputs in requests.items():
        wanted, found = predictor(name, **inputs), connected.predict(name, **inputs)
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert found[key].shape == value.shape
            if value.dtype == object:
                assert found[key].tolist() == value.tolist()
            else:
                np.testing.assert_allclose(found[key], value, atol=1e-6)
    assert set(connected.predict(text=[b"\xff bytes"])) == set(predictor(text=["a"]))


def test_signatures_of_a_later_version_are_found(addresses):
    connected = client.connect(addresses[1])
    connected.predict("mood", text=["a"])
    del connected._outputs["score"]  # as if the version that was asked first had none
    assert connected.predict("score", text_a=["a"], text_b=["b"])["score"].shape == (1,)
    kinds = connected._outputs["score"]
    connected._outputs["score"] = {
        **kinds,
        "more": ("DT_FLOAT", [-1]),
    }  # which a later version lacks
    assert connected.predict("score", text_a=["a"], text_b=["b"])["score"].shape == (1,)


def test_refusals_say_why(address):
    connected = client.connect(address)
    with pytest.raises(InputError, match="no signature 'modo'; it has"):
        connected.predict("modo", text=["a"])
    with pytest.raises(InputError, match="takes text, not texts"):
        connected.predict("mood", texts=["a"])
    with pytest.raises(InputError, match="not found"):
        client.connect(address, "other").predict("mood", text=["a"])
    with pytest.raises(InputError, match="all strings or all integers"):
        connected.predict("mood", text=[1.5])
    with pytest.raises(InputError, match="text: is one text; give a batch"):
        connected.predict("mood", text="a")
    with pytest.raises(InputError, match="no answer within 0.3 s"):
        client.connect(address, timeout=0.3).predict(endpoint.SLOW, text=["a"])


def test_a_server_that_is_not_there_is_said():
    for address in ("grpc://localhost:1", "http://localhost:1"):
        with pytest.raises(
            InputError, match="no server can be reached; start one with bert-tf serve"
        ):
            client.connect(address, timeout=5).predict("mood", text=["a"])
    for address in (
        "localhost:8500",
        "tcp://host:8500",
        "grpc://",
        "grpc://h:85000",
        "http://h:abc",
        "http://h:0",
        "http://user:pw@h",
        "http://h?version=1",
        "http://h#part",
        "grpc://h/path",
        "http://[::1",
    ):
        with pytest.raises(InputError, match="not an address of a server"):
            client.connect(address)
    for address in ("grpc://h", "http://h"):
        with pytest.raises(InputError, match="--authority=a.pem: .* is without TLS; use grpcs://"):
            client.connect(address, access=Access(authority="a.pem"))


def test_the_command_asks_and_prints_json(addresses, export):
    for where in (f"--server={addresses[0]}", f"--model={export}"):
        done = commands.done("ask", where, "--signature=mood", '--inputs={"text": ["the layer"]}')
        assert len(json.loads(done.stdout)["probabilities"][0]) == 3


@pytest.mark.parametrize("flag", ["token_file", "authority", "name"])
def test_flags_for_a_server_are_refused_for_an_export(flag):
    given = ("--model=none", '--inputs={"text": ["a"]}', f"--{flag}=x")
    assert f"--{flag}: is for --server" in commands.error("ask", *given)


def test_without_docker_it_says_what_to_install(export):
    done = commands.run(
        "serve", f"--model={export.rsplit('/', 1)[0]}", "--docker", env={"PATH": ""}
    )
    assert done.returncode == 2
    assert "tensorflow_model_server --model_name=bert" in done.stderr.replace("\n", " ")


def test_flags_that_docker_would_ignore_are_refused(export):
    folder = export.rsplit("/", 1)[0]
    given = ("--threads=2", "--name=bert", "--token_file=t", "--certificate=c", "--key=k")
    others = ("--engine=litert", "--precision=int8", "--max_rows=9")
    error = commands.error("serve", f"--model={folder}", "--docker", *given, *others)
    named = "--engine, --precision, --max_rows, --certificate, --key, --token_file: with --docker"
    assert named in error and "reverse proxy" in error
    assert "--threads" not in error and "--name" not in error


@pytest.mark.parametrize("threads", [None, 3])
def test_docker_starts_without_measuring(tmp_path, threads):
    """It measures nothing, so that it serves exports of any kind."""
    version = tmp_path / "bert" / "1"
    version.mkdir(parents=True)
    (version / "manifest.json").write_text("{}")
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    given = [] if threads is None else [f"--threads={threads}"]
    flags = (f"--model={version.parent}", "--docker", *given)
    done = commands.done("serve", *flags, env={"PATH": str(tmp_path)})
    wanted = f"--tensorflow_intra_op_parallelism={threads or cores()}"
    assert f"{wanted} --tensorflow_inter_op_parallelism={cores()}" in done.stdout
    assert "-p 127.0.0.1:8500:8500 -p 127.0.0.1:8501:8501" in done.stdout
    mount = f'type=bind,"source={version.parent}","target=/models/bert",readonly'
    assert mount in done.stdout
    assert "--batching_parameters_file=/models/bert/batching.config" in done.stdout
    config = (version.parent / "batching.config").read_text()
    values = dict(re.findall(r"^(\w+) \{ value: (\d+) \}$", config, re.M))
    assert values["batch_timeout_micros"] == "0" and wanted in config
    assert all(line.startswith("#") or " { value: " in line for line in config.split("\n") if line)


def test_strings_of_answers_may_be_of_base64():
    """As TensorFlow Serving sends outputs whose names end with _bytes."""
    specs = {"x_bytes": ("DT_STRING", [-1])}
    found = client._outputs({"outputs": [{"b64": "/wA="}, "é"]}, specs)
    assert found["x_bytes"].tolist() == [b"\xff\0", "é".encode()]
