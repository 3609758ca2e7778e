"""Who is let in: those who know the token, and no other websites."""

import json
import urllib.error
import urllib.request

import grpc
import pytest

from tests.bert_tf.serving.server import attacks


def test_without_the_token_nothing_is_read(stub):
    server = stub(token="secret", seconds=2)
    body = b"\xff" * (attacks.SIZE - 100)  # which cannot be decoded
    with attacks.method(server, "PredictionService/Predict") as predict:
        for metadata in ((), (("authorization", "Bearer other"),), (("authorization", "secret"),)):
            with pytest.raises(grpc.RpcError, match="bearer token") as raised:
                predict(body, 60, metadata=metadata)
            assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
        for scheme in ("Bearer", "bearer", "BEARER"):
            with pytest.raises(grpc.RpcError, match="not a PredictRequest"):
                predict(body, 60, metadata=(("authorization", f"{scheme} secret"),))
    with attacks.connect(server) as connection:  # refused although the body does not come
        connection.sendall(attacks.request(framing="Content-Length: 1000000"))
        assert b" 401 " in connection.recv(1 << 16)
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert (
            server.get(attacks.PREDICT, attacks.SMALL, Authorization=f"{scheme} secret")[0] == 200
        )
    for other in (
        "secret",
        "Bearer",
        "Basic Onh4",
        "Basic OnNlY3JldA==",
        "Bearer sécret",
        "Basic ?",
    ):
        assert server.get(attacks.PREDICT, attacks.SMALL, Authorization=other)[0] == 401
    _, metrics = server.get("/metrics", None, Authorization="Bearer secret")
    assert 'reason="unauthorized",signature="unknown"} 10.0' in metrics


def test_the_page_is_secret_where_there_is_a_token(stub):
    server = stub(token="secret")
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"{server.rest}/")
    assert raised.value.code == 401 and "classes" not in raised.value.read().decode()
    assert raised.value.headers["www-authenticate"].startswith("Basic")


def test_answers_of_the_framework_are_guarded(stub, usual_stub):
    secret = stub(token="secret")
    kinds = [("/nothing", None, 404), ("/v1/models/bert/", None, 404), ("/", b"", 405)]
    for path, body, status in kinds:
        assert usual_stub.get(path, body)[0] == status
        assert usual_stub.get(path, body, Host="evil.com")[0] == 403
        assert secret.get(path, body)[0] == 401
        found, text = secret.get(path, body, Authorization="Bearer secret")
        assert found == status and json.loads(text)["error"]


def test_other_websites_are_refused(usual_stub):
    here = f"localhost:{usual_stub.rest_port}"
    json_type = {"Content-Type": "application/json"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    wanted = [
        ({}, form, 200),  # curl -d
        ({"Host": "127.0.0.1"}, form, 200),
        ({"Host": "[::1]:9"}, form, 200),
        ({"Host": "LOCALHOST:9"}, form, 200),
        ({"Host": "evil.com"}, form, 403),
        ({"Host": "localhost.evil.com"}, form, 403),
        ({"Host": "127.0.0.1.evil.com:80"}, form, 403),
        ({"Host": here, "Origin": f"http://{here}"}, json_type, 200),
        ({"Host": here, "Origin": f"http://{here}"}, form, 415),
        ({"Host": here, "Origin": f"http://{here}"}, {"Content-Type": "text/plain"}, 415),
        ({"Host": here, "Origin": "http://localhost:1"}, json_type, 403),
        ({"Host": here, "Origin": "http://evil.com"}, json_type, 403),
        ({"Host": here, "Origin": "null"}, json_type, 403),
        ({"Sec-Fetch-Site": "cross-site"}, form, 415),
        ({"Sec-Fetch-Site": "same-origin"}, json_type, 200),
    ]
    for headers, kind, status in wanted:
        assert usual_stub.get(attacks.PREDICT, attacks.SMALL, **headers, **kind)[0] == status, (
            headers
        )
    assert usual_stub.get("/", Host="evil.com")[0] == 403
    request = b"OPTIONS /v1/models/bert:predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nOrigin: http://evil.com\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    assert b"access-control" not in attacks.send(usual_stub, request).lower()
