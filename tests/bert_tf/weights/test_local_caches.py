"""Models in the caches of other libraries."""

import shutil

import pytest

from bert_tf import weights
from bert_tf.weights import formats, local_caches
from pipelines.common.errors import InputError


def test_names_in_the_caches_of_other_libraries(init, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    with pytest.raises(InputError, match="the caches of Hugging Face and KerasHub have no model"):
        weights.read("bert-base-uncased")
    stored = tmp_path / "hf" / "hub" / "models--google-bert--bert-base-uncased"
    shutil.copytree(init, stored / "snapshots" / "abc")
    assert local_caches.find("bert-base-uncased") is None  # not yet complete
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("abc")
    for name in ("bert-base-uncased", "google-bert/bert-base-uncased"):
        assert weights.read(name).sha256() == weights.read(init).sha256()
    for version in ("9", "10"):
        place = tmp_path / "kaggle" / "models" / "keras" / "bert" / "keras" / "bert_tiny" / version
        shutil.copytree(init, place)
    assert local_caches.find("bert_tiny").endswith("/10")
    assert local_caches.find("../bert_tiny") is None
    assert formats.folder_of("google-bert/bert-base-uncased") == "."  # not a place to write to
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(tmp_path / "hf", tmp_path / "cache/huggingface")
    assert str(tmp_path / "cache") in local_caches.find("bert-base-uncased")
