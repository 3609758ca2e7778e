"""Exports for LiteRT and ONNX Runtime."""

import dataclasses
import json
import os
import pathlib

import numpy as np
import onnxruntime
import pytest
import tokenizers

from bert_tf import tasks, weights
from bert_tf.export import portable, saved_model, sources
from bert_tf.generation.settings import GenerationSettings
from bert_tf.tasks.model import HeadShape
from bert_tf.weights.formats import Format
from pipelines.tokenizers import registry
from pipelines.tokenizers.packing import MODEL_INPUTS
from tests import commands
from tests.bert_tf import exported

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


HUB = ("mood", "same", "score", "qa", "tags", "topics", "vector", "pretrained")


@pytest.fixture(scope="module")
def hub(folders, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("hub"))
    found = sources.find([f"{name}={folders[name]}" for name in HUB])
    return folder, portable.export(found, folder, [portable.HUGGING_FACE], check)


@pytest.mark.parametrize("name", HUB)
def test_folders_are_those_of_the_hub(name, hub, folders):
    """With the ids of their tokenizer.json, the model has the outputs that transformers names."""
    folder, report = hub
    place = f"{folder}/huggingface/{name}"
    assert report[f"huggingface/{name}/onnx/model.onnx"]["bytes"] > 0
    assert (f"huggingface/{name}/onnx/model_quantized.onnx" in report) == (name in NAMES)
    assert (pathlib.Path(place) / "onnx/model_quantized.onnx").exists() == (name in NAMES)
    assert not os.path.exists(f"{folder}/{name}")
    config = json.loads(pathlib.Path(place, "config.json").read_text())
    assert config["model_type"] == "bert"
    library = tokenizers.Tokenizer.from_file(f"{place}/tokenizer.json")
    library.enable_padding()
    library.enable_truncation(config["max_position_embeddings"])
    texts = exported.TEXTS[:4]
    encoded = library.encode_batch(
        list(zip(texts, texts, strict=True)) if name == "same" else texts
    )
    inputs = {
        "input_ids": np.array([each.ids for each in encoded]),
        "attention_mask": np.array([each.attention_mask for each in encoded]),
        "token_type_ids": np.array([each.type_ids for each in encoded]),
    }
    session = onnxruntime.InferenceSession(f"{place}/onnx/model.onnx")
    assert {each.name: each.type for each in session.get_inputs()} == dict.fromkeys(
        inputs, "tensor(int64)"
    )
    outputs = [each.name for each in session.get_outputs()]
    found = dict(zip(outputs, session.run(None, inputs), strict=True))
    bundle = weights.read(folders[name])
    rows = dict(zip(MODEL_INPUTS, (x.astype(np.int32) for x in inputs.values()), strict=True))
    wanted = bundle.encoder()(rows, training=False)
    mask = inputs["attention_mask"][..., np.newaxis] > 0
    if name == "vector":
        assert outputs == ["last_hidden_state"]
        np.testing.assert_allclose(
            found["last_hidden_state"] * mask, wanted["sequence_output"] * mask, atol=1e-5
        )
        return
    if name == "qa":
        assert outputs == ["start_logits", "end_logits"]
        logits = np.stack(list(found.values()), -1)
    else:
        assert outputs == ["logits"]
        logits = found["logits"]
    if name == "pretrained":
        assert logits.shape == (*inputs["input_ids"].shape, config["vocab_size"])
        return
    (task,) = (task for task in map(tasks.load, bundle.tasks) if task.name == name)
    head = HeadShape.of(task).make(bundle.config)
    head.build()
    own = {k.removeprefix("heads/"): v for k, v in bundle.weights.items() if f"heads/{name}/" in k}
    weights.assign(head, own, name)
    expected = np.asarray(head(wanted))
    if task.per_token:
        logits, expected = logits * mask, expected * mask
    else:
        assert list(config.get("id2label", {"0": ""}).values()) == list(task.labels or ["LABEL_0"])
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_a_folder_of_the_hub_has_the_class_of_its_file(folders, tmp_path):
    bundle = weights.read(folders["pretrained"])
    kept = {k: v for k, v in bundle.weights.items() if not k.startswith("masked_lm/")}
    assert any(name.startswith("next_sentence/") for name in kept)
    weights.write(dataclasses.replace(bundle, weights=kept), f"{tmp_path}/m", Format.HUGGINGFACE)
    found = [x for x in sources.find([f"pretrained={tmp_path}/m"]) if x.task is None]
    portable.export(found, f"{tmp_path}/out", [portable.HUGGING_FACE])
    place = tmp_path / "out/huggingface/pretrained"
    config = json.loads((place / "config.json").read_text())
    session = onnxruntime.InferenceSession(f"{place}/onnx/model.onnx")
    assert config["architectures"] == ["BertModel"]
    assert [each.name for each in session.get_outputs()] == ["last_hidden_state"]


def test_what_transformers_does_not_run_in_a_browser_is_named(folders, tmp_path):
    found = sources.find([f"pick={folders['pick']}"])
    with pytest.raises(
        portable.InputError, match=r"pick: transformers.js has no class for it \(choice\)"
    ):
        portable.export(found, str(tmp_path / "out"), [portable.HUGGING_FACE])
    found = sources.find([f"pretrained={folders['pretrained']}"])
    found = [dataclasses.replace(each, generation=GenerationSettings()) for each in found]
    found = [each for each in found if each.task is None]
    with pytest.raises(portable.InputError, match=r"no class for it \(it writes texts\)"):
        portable.export(found, str(tmp_path / "out"), [portable.HUGGING_FACE])
