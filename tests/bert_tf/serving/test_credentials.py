"""Tokens and certificates from files, and files that hold something else."""

import base64
import ssl

import pytest
import trustme

from bert_tf.serving.credentials import Access, Identity
from pipelines.common.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("credentials")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(path / "authority.pem")
    for name in ("one", "other"):
        found = authority.issue_cert("127.0.0.1")
        found.private_key_pem.write_to_path(path / f"{name}.key")
        found.cert_chain_pems[0].write_to_path(path / f"{name}.pem")
    (path / "token").write_text("secret\n")
    (path / "empty").write_text(" \n")
    (path / "lines").write_text("one\ntwo\n")
    (path / "bytes").write_bytes(b"\xff\xfe")
    return path


def test_what_files_hold(folder):
    found = Identity.of_files(f"{folder}/token", f"{folder}/one.pem", f"{folder}/one.key")
    assert found.token == "secret"
    assert found.pair == ((folder / "one.key").read_bytes(), (folder / "one.pem").read_bytes())
    assert Identity.of_files(None, None, None) == Identity()
    access = Access.of_files(f"{folder}/token", f"{folder}/authority.pem")
    assert access.headers == {"authorization": "Bearer secret"}
    assert access.certificates() == (folder / "authority.pem").read_bytes()
    assert isinstance(access.ssl_context(), ssl.SSLContext) and Access().certificates() is None


@pytest.mark.parametrize(
    ("certificate", "key"),
    [("one.pem", "other.key"), ("one.pem", "bytes"), ("token", "one.key"), ("none", "one.key")],
)
def test_certificates_and_keys_that_do_not_go_together_are_named(folder, certificate, key):
    words = f"{certificate}: cannot be read|{certificate}, --key=.*{key}: are not a certificate"
    with pytest.raises(InputError, match=words):
        Identity.of_files(None, f"{folder}/{certificate}", f"{folder}/{key}")


@pytest.mark.parametrize("name", ["empty", "bytes", "lines", "none"])
def test_files_without_a_token_are_named(folder, name):
    with pytest.raises(
        InputError, match=f"{name}: (is empty|has several lines|does not contain|cannot be read)"
    ):
        Access.of_files(f"{folder}/{name}", None)


@pytest.mark.parametrize("name", ["token", "bytes", "none"])
def test_authorities_that_are_none_are_named(folder, name):
    access = Access(authority=f"{folder}/{name}")
    for function in (access.ssl_context, access.certificates):
        with pytest.raises(
            InputError, match=f"{name}: cannot be read, or does not contain certificates"
        ):
            function()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_token_is_known_by_any_case_of_its_scheme(scheme):
    identity = Identity("secret")
    for given in (f"{scheme} secret", f"{scheme} secret".encode()):
        assert identity.admits(given)
    for given in ("", "secret", scheme, f"{scheme} ", f"{scheme} Secret", f"{scheme} secret2"):
        assert not identity.admits(given)
    assert Identity().admits("")


def test_a_browser_gives_the_token_as_a_password():
    identity, given = Identity("secret"), "Basic " + base64.b64encode(b"any:secret").decode()
    assert identity.admits(given, "Basic") and identity.admits(given.replace("B", "b", 1), "Basic")
    assert not identity.admits(given)
    for other in ("Basic", "Basic ?", "Basic c2VjcmV0", "Basic Onh4", "Bearer secret", "Basic é"):
        assert not identity.admits(other, "Basic")
