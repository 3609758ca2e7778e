"""Exports in less than float32 keep their scores on dev data, or are not written."""

import os
import pathlib
import sys

import numpy as np
import pytest

from bert_tf.export import saved_model, sources
from bert_tf.serving import engines
from bert_tf.serving.plan import EngineName, Precision
from bert_tf.serving.predictor import Predictor
from bert_tf.serving.reduced_precision import ScoreCheck
from pipelines.common.errors import InputError
from tests.bert_tf import exported

pytestmark = pytest.mark.more

_TEXTS = [f"{text or 'x'} {number}" for number in range(6) for text in exported.TEXTS]


@pytest.fixture
def mood(folders):
    return sources.find([f"mood={folders['mood']}"])


@pytest.fixture
def dev(tmp_path, predictor):
    """A file whose labels are what the model says in float32: it scores 1."""
    labels = predictor("mood", text=_TEXTS)["label"]
    path = tmp_path / "dev.tsv"
    rows = [f"{a}\t{b.decode()}" for a, b in zip(map(_line, _TEXTS), labels, strict=True)]
    path.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return str(path)


def _line(text):
    return " ".join(text.split())


def _export(found, folder, precision, dev, max_loss=1.0):
    check = ScoreCheck(found, precision, {"mood": dev}, max_loss)
    stored = "bfloat16" if precision is Precision.BFLOAT16 else "float32"
    return saved_model.export(found, f"{folder}/bert", dtype=stored, check=check)


@pytest.mark.slow
def test_a_model_of_loops_is_scored_in_tensorflow_alone(mood, dev, tmp_path, monkeypatch):
    """Such as ELMo, which other engines cannot read."""
    monkeypatch.setattr(type(mood[0].bundle.config), "portable", False)
    with pytest.raises(InputError, match="mood is computed in TensorFlow, which has no int8"):
        ScoreCheck(mood, Precision.INT8, {"mood": dev}, 1.0)
    path = _export(mood, tmp_path, Precision.BFLOAT16, dev)
    reduced = saved_model.read_manifest(path)["reduced"]
    assert [each["engine"] for each in reduced] == ["tensorflow"]


def test_int8(mood, dev, tmp_path, predictor, engine_cache):
    path = _export(mood, tmp_path, Precision.INT8, dev)
    reduced = saved_model.read_manifest(path)["reduced"]
    assert {each["precision"] for each in reduced} == {"int8"}
    assert {each["engine"] for each in reduced} == {"onnxruntime", "openvino", "litert"}
    assert all(each["full"] == 1.0 and each["score"] > 0.8 for each in reduced)
    card = pathlib.Path(path, "README.md").read_text()
    assert "- `mood` in int8 (onnxruntime): accuracy " in card
    wanted = predictor("mood", text=_TEXTS)["probabilities"]
    for engine in ("onnxruntime", "openvino", "litert"):
        differences = {}
        for precision in (None, "float32"):
            found = Predictor(path, engine, precision=precision, cache=engine_cache)
            answer = found("mood", text=_TEXTS)["probabilities"]
            differences[found.plan.precision] = np.abs(answer - wanted).max()
            found.close()
        assert 1e-4 < differences["int8"] < 0.2 and differences["float32"] < 2e-5, engine
    assert Predictor(path).plan.precision is Precision.FLOAT32


@pytest.mark.slow
def test_bfloat16(mood, dev, tmp_path):
    path = _export(mood, tmp_path, Precision.BFLOAT16, dev)
    kept = saved_model.kept_precisions(path)
    assert kept["tensorflow"] == "bfloat16"
    assert Predictor(path).plan.precision is Precision.BFLOAT16


def test_scores_that_are_lost_stop_it(mood, dev, tmp_path):
    with pytest.raises(InputError, match="mood with tensorflow: accuracy .* instead of 1.0000"):
        _export(mood, tmp_path, Precision.BFLOAT16, dev, max_loss=-0.1)
    assert not os.path.exists(tmp_path / "bert" / "1")


def test_what_has_to_be_named_and_read_before_anything_is_exported(mood, folders, tmp_path):
    with pytest.raises(InputError, match="mood must be scored"):
        ScoreCheck(mood, Precision.BFLOAT16, {}, 0.0)
    with pytest.raises(InputError, match="other is not exported; mood is"):
        ScoreCheck(mood, Precision.BFLOAT16, {"mood": "x", "other": "y"}, 0.0)
    for name, words in (("none.tsv", "no such file"), ("bad.tsv", "has no rows")):
        (tmp_path / "bad.tsv").write_text("one\n")
        with pytest.raises(InputError, match=f"{name}.*({words})"):
            ScoreCheck(mood, Precision.BFLOAT16, {"mood": f"{tmp_path}/{name}"}, 0.0)
    pretrained = sources.find([f"pretrained={folders['pretrained']}"])
    with pytest.raises(InputError, match="a pre-trained model has none"):
        ScoreCheck(pretrained, Precision.BFLOAT16, {}, 0.0)


def test_a_missing_package_is_reported_before_anything_is_exported(mood, dev, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    monkeypatch.setattr(engines, "installed", lambda: [EngineName.TENSORFLOW])
    with pytest.raises(InputError, match=r"ai_edge_litert is not installed.*bert-tf\[litert\]"):
        ScoreCheck(mood, Precision.INT8, {"mood": dev}, 0.0)
