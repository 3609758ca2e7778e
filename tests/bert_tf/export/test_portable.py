"""Exports for LiteRT and ONNX Runtime."""

import dataclasses
import json

import numpy as np
import pytest

from bert_tf import weights
from bert_tf.export import portable, saved_model, sources
from pipelines.tokenizers import registry
from tests import commands

pytestmark = pytest.mark.more

NAMES = ("mood", "qa", "pick")


@pytest.fixture(scope="module")
def written(folders, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("portable"))
    found = sources.find([f"{name}={folders[name]}" for name in (*NAMES, "pretrained")])
    return folder, portable.export(found, folder, list(portable.TARGETS), check)


def check(path):
    """Scores of which those of ONNX Runtime are kept."""
    assert saved_model.is_export(path)
    return [{"engine": "onnxruntime", "task": name, "score": 0.5} for name in NAMES]


def test_all_are_written_and_compared(folders, written):
    folder, report = written
    every = (*NAMES, "next_sentence", "embed", "embed_layers")  # fill_mask has a loop
    assert {name for name in report if "int8" not in name} == {
        f"{name}_ids{ending}" for name in every for ending in (".tflite", ".onnx")
    }
    kept = {f"{name}_ids.int8.onnx" for name in NAMES}
    assert {name for name in report if "int8" in name} == kept
    with open(f"{folder}/report.json") as file:
        assert json.load(file) == report
    for name, entry in report.items():
        bound = 0.3 if "int8" in name else 1e-4
        assert max(entry["largest_difference"].values()) < bound, name
        assert min(entry["cosine"].values()) > (0.99 if "int8" in name else 0.999999), name
        assert ("score" in entry) == ("int8" in name)
    with open(f"{folder}/mood/tasks.json") as file:
        assert json.load(file) == [sources.find([f"mood={folders['mood']}"])[0].task.describe()]
    text = registry.load_tokenizer(f"{folder}/mood").tokenize(["the deep layer"])
    assert (
        text.to_list()
        == weights.read(folders["mood"]).tokenizer().tokenize(["the deep layer"]).to_list()
    )
    assert report["mood_ids.int8.onnx"]["bytes"] < report["mood_ids.onnx"]["bytes"]


def test_other_batches_and_lengths_run_too(written, predictor):
    folder, _ = written
    inputs = {
        "input_word_ids": np.array([[2, 9, 7, 11, 3, 0]] * 3, np.int32),
        "input_mask": np.array([[1, 1, 1, 1, 1, 0]] * 3, np.int32),
        "input_type_ids": np.zeros((3, 6), np.int32),
    }
    wanted = predictor("mood_ids", **inputs)["probabilities"]
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(f"{folder}/mood_ids.tflite").get_signature_runner()
    np.testing.assert_allclose(runner(**inputs)["probabilities"], wanted, atol=1e-5)
    import onnxruntime

    session = onnxruntime.InferenceSession(f"{folder}/mood_ids.onnx")
    found = session.run(["probabilities"], inputs)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_difference_is_an_error(written):
    values = {"logits": np.ones(4, np.float32)}
    with pytest.raises(portable.InputError, match=r"x.onnx: logits differs from the original by 1"):
        portable._compare("x.onnx", values, {"logits": np.zeros(4, np.float32)}, rounded=True)


def test_two_models_cannot_write_one_file(folders, tmp_path):
    found = sources.find([f"{name}={folders['qa']}" for name in ("qa", "other")])
    twice = [dataclasses.replace(each, task=found[0].task) for each in found]
    with pytest.raises(portable.InputError, match="two signatures would have this name"):
        portable.export(twice, f"{tmp_path}/o", list(portable.TARGETS))
    assert not (tmp_path / "o").exists()


def test_scores_are_for_lower_precisions():
    for command in ("export", "export-portable"):
        message = commands.error(command, "--tasks=a", "--dev=a=dev.tsv", "--output=none")
        assert "--dev: is for a lower --precision" in message


def test_nothing_is_overwritten(written, folders, tmp_path):
    found = sources.find([f"mood={folders['mood']}"])
    (tmp_path / "report.json").write_text("of a run")
    with pytest.raises(portable.InputError, match="exists already"):
        portable.export(found, str(tmp_path), list(portable.TARGETS))
    assert (tmp_path / "report.json").read_text() == "of a run"
