"""Exports: what is stored, from which models, and what fails."""

import dataclasses
import datetime
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from bert_tf import weights
from bert_tf.export import saved_model, sources, warmup
from bert_tf.export.module import Assembly
from bert_tf.serving.predictor import Predictor
from pipelines.common import locks
from pipelines.common.errors import InputError
from tests import commands
from tests.bert_tf import exported
from tests.bert_tf.helpers import with_one_segment


def test_no_variable_is_stored_twice(export):
    reader = tf.train.load_checkpoint(f"{export}/variables/variables")
    arrays = [
        reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.endswith("VARIABLE_VALUE")
    ]
    contents = [array.tobytes() for array in arrays]
    assert len(set(contents)) == len(contents)
    manifest = saved_model.read_manifest(export)
    assert sum(array.size for array in arrays) == manifest["parameters"]
    assert manifest["encoders"] == 9  # mood and tags share one


def test_signatures_that_compute_the_same_share_a_function(folders):
    names = ("mood", "tags", "same")
    module = Assembly(sources.find([f"{name}={folders[name]}" for name in names]), "float32")
    called = {}
    for name, function in module.functions().items():
        nodes = function.graph.as_graph_def().node
        called[name] = {
            node.attr["f"].func.name for node in nodes if node.attr["f"].HasField("func")
        }
    (logits,) = called["mood"] & called["mood_ids"] & called["mood_classify"]
    assert "compute" in logits and all(len(functions) == 3 for functions in called.values())
    assert called["mood_ids"].isdisjoint(called["tags_ids"] | called["same_ids"])


def test_inputs_and_outputs_are_int32_float32_or_strings(export):
    for name, signature in exported.read_proto(export).meta_graphs[0].signature_def.items():
        if not name.startswith("__"):
            for info in [*signature.inputs.values(), *signature.outputs.values()]:
                assert tf.as_dtype(info.dtype) in (tf.int32, tf.float32, tf.string)
                assert info.tensor_shape.dim[0].size == -1


def test_card_manifest_labels_and_warm_up_are_there(export):
    manifest = saved_model.read_manifest(export)
    with open(f"{export}/README.md", encoding="utf-8") as file:
        card = file.read()
    for name, signature in manifest["signatures"].items():
        assert f"| `{name}` |" in card
        assert all(f"| `{output}` |" in card for output in signature["outputs"])
    assert f"Made on {manifest['date']} with tensorflow" in card
    assert datetime.date.fromisoformat(manifest["date"])
    assert manifest["signatures"]["mood"]["outputs"]["probabilities"] == ["float32", [None, 3]]
    for text in (card, json.dumps(manifest)):
        assert (
            os.path.dirname(export) not in text and "/tmp" not in text and os.getcwd() not in text
        )
    with open(f"{export}/assets.extra/labels.json", encoding="utf-8") as file:
        assert json.load(file)["mood"] == ["bad", "good", "so-so"]
    asked = set()
    records = tf.data.TFRecordDataset(f"{export}/{saved_model.EXTRA}/{warmup.FILE}")
    for record in records.as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        found = getattr(log, log.WhichOneof("log_type")).request
        asked.add((found.model_spec.signature_name, log.WhichOneof("log_type")))
    assert asked == {
        (name, f"{signature['method'].rpartition('/')[2]}_log")
        for name, signature in manifest["signatures"].items()
    }


def test_the_card_names_the_data_and_its_licence(folders, tmp_path):
    model = sources.find([f"mood={folders['mood']}"])[0]
    data = {"source": "Film reviews", "license": "CC BY 4.0", "examples": {"train": 1200, "dev": 9}}
    known = dataclasses.replace(model, data={"mood": data})
    path = saved_model.export([known], f"{tmp_path}/out")
    card = Path(path, "README.md").read_text()
    assert "Data of `mood`: Film reviews, licence CC BY 4.0 (examples: 1,200 train, 9 dev)." in card


@pytest.mark.more
def test_the_card_has_the_scores_of_the_weights_that_it_is_of(folders, tmp_path):
    """Of several seeds and several tasks."""
    folder = shutil.copytree(folders["mood"], f"{tmp_path}/joint")
    by_seed = {
        str(seed): {"mood/accuracy": score, "tags/f1": 0.5}
        for seed, score in enumerate((0.6, 0.9, 0.7), 1)
    }
    median = by_seed["3"]
    report = {"metrics": {"by_seed": by_seed, "median": median}, "seed": 2}
    Path(folder, "report.json").write_text(json.dumps(report))
    (model,) = sources.find([f"mood={folder}"])
    card = Path(saved_model.export([model], f"{tmp_path}/out"), "README.md").read_text()
    assert '- Scores on dev: {"accuracy": 0.9}.' in card
    assert '- Scores on dev, the median of all seeds: {"accuracy": 0.7}.' in card
    report["metrics"] = {"by_seed": {"2": {}}, "median": {}}  # without dev data
    Path(folder, "report.json").write_text(json.dumps(report))
    (model,) = sources.find([f"mood={folder}"])
    path = saved_model.export([model], f"{tmp_path}/out")
    assert "Scores on" not in Path(path, "README.md").read_text()


def test_versions_count_up_and_none_is_overwritten(folders, tmp_path):
    found = sources.find([f"mood={folders['mood']}"])
    folder = f"{tmp_path}/bert"
    assert saved_model.export(found, folder) == f"{folder}/1"
    assert saved_model.export(found, folder) == f"{folder}/2"
    os.makedirs(f"{folder}/9223372036854775807")
    with pytest.raises(InputError, match="bert/9223372036854775808: is not an int64"):
        saved_model.export(found, folder)
    os.rmdir(f"{folder}/9223372036854775807")
    assert saved_model.newest(folder) == f"{folder}/2"


def test_a_failed_export_leaves_nothing_to_load(folders, tmp_path, monkeypatch):
    found = sources.find([f"mood={folders['mood']}"])

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(saved_model.warmup, "write", fail)
    with pytest.raises(InputError, match="no space left"):
        saved_model.export(found, f"{tmp_path}/bert")
    assert saved_model.versions(f"{tmp_path}/bert") == []


def test_a_version_that_cannot_be_read_back_does_not_appear(folders, tmp_path, monkeypatch):
    """Whatever is wrong with it: a name of a task here that got past all that looks at names."""
    (model,) = sources.find([f"mood={folders['mood']}"])
    model = dataclasses.replace(model, task=dataclasses.replace(model.task, name="the mood"))
    with pytest.raises(InputError, match="manifest.json: 'the mood' is not a task name"):
        saved_model.export([model], f"{tmp_path}/bert")
    assert os.listdir(f"{tmp_path}/bert") == []


def test_bfloat16_halves_the_weights_and_keeps_the_answers(bfloat16_export, predictor):
    texts = exported.TEXTS
    half, full = Predictor(bfloat16_export)("mood", text=texts), predictor("mood", text=texts)
    np.testing.assert_allclose(half["probabilities"], full["probabilities"], atol=0.1)
    assert half["probabilities"].dtype == np.float32
    reader = tf.train.load_checkpoint(f"{bfloat16_export}/variables/variables")
    dtypes = set(reader.get_variable_to_dtype_map().values())
    assert tf.bfloat16 in dtypes


def test_a_joint_folder_stands_for_all_its_tasks(folders):
    found = sources.find([f"tags+mood={folders['mood']}", " "])
    assert [source.task.name for source in found if source.task] == ["tags", "mood"]
    assert len({source.encoder_key() for source in found}) == 1


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["nothing"], "savedmodels/finetuned/nothing: no such folder"),
        (["mood=/nowhere"], "/nowhere: no such folder"),
        (["mood={mood}", "mood={mood}"], "mood is to be exported twice"),
        (["tags mood={mood}"], "'tags mood' is not a task name"),
        (["mood+a:b={mood}"], "'a:b' is not a task name"),
        (["other={pretrained}"], "has no task; export it as the pre-trained model"),
    ],
)
def test_what_cannot_be_exported_is_said(entries, message, folders):
    with pytest.raises(InputError, match=message):
        sources.find([entry.format(**folders) for entry in entries])


def test_an_export_that_comes_second_overwrites_nothing(folders, tmp_path, monkeypatch):
    found = sources.find([f"mood={folders['mood']}"])
    path = f"{tmp_path}/bert/1"

    def meanwhile(*_):
        os.makedirs(path)
        with open(f"{path}/whole", "w") as file:
            file.write("by another")

    monkeypatch.setattr(saved_model.warmup, "write", meanwhile)
    with pytest.raises(InputError, match="bert/1: exists already"):
        saved_model.export(found, f"{tmp_path}/bert")
    assert os.listdir(path) == ["whole"]
    assert os.listdir(f"{tmp_path}/bert") == ["1"]


def test_only_folders_of_versions_take_versions(folders, tmp_path):
    found = sources.find([f"mood={folders['mood']}"])
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="is not of exported versions: it has thesis.txt"):
        saved_model.export(found, str(mine))
    assert os.listdir(mine) == ["thesis.txt"]
    versions = tmp_path / "versions"
    (versions / "3").mkdir(parents=True)
    (versions / "batching.config").touch()
    with locks.held(str(versions)), pytest.raises(InputError, match="another process is writing"):
        saved_model.export(found, str(versions))
    assert saved_model.export(found, str(versions)) == f"{versions}/4"


@pytest.fixture(scope="module")
def small_export(folders, tmp_path_factory) -> str:
    """An export of one task."""
    found = sources.find([f"mood={folders['mood']}"])
    return saved_model.export(found, f"{tmp_path_factory.mktemp('small')}/bert")


@pytest.mark.more
@pytest.mark.parametrize("name", ["vocab.txt", "labels.json"])
def test_what_is_beside_an_export_is_checked_too(small_export, tmp_path, name):
    copy = Path(shutil.copytree(small_export, tmp_path / "1"))
    (copy / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"")  # of the user's
    Predictor(str(copy))
    file = copy / "assets.extra" / name
    data = bytearray(file.read_bytes())
    data[-4] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match=f"{re.escape(str(file))}: is damaged, or was changed"):
        Predictor(str(copy))


@pytest.mark.parametrize(
    "name",
    ["parts/saved_model.pb", "variables/variables.index", "manifest.json", "variables/*data*"],
)
def test_a_damaged_export_is_one_line(small_export, tmp_path, name):
    """By its checksums; of exports without them, by what cannot be loaded."""
    copy = Path(shutil.copytree(small_export, tmp_path / "1"))
    (file,) = copy.glob(name)
    data, manifest = file.read_bytes(), copy / "manifest.json"
    sealed = manifest.read_text()
    for spoilt in (data[: len(data) // 2], b"\0" * len(data), b""):
        for text in (sealed, sealed.replace('"sha256"', '"unsealed"').replace('"files"', '"were"')):
            manifest.write_text(text)
            file.write_bytes(spoilt)
            with pytest.raises(
                InputError, match=f"{re.escape(str(copy))}.*(writ|damaged|JSON)"
            ) as e:
                Predictor(str(copy))
            assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"name": "mood"', '"name": "../../mood"', "'../../mood' is not a task name"),
        ('"models"', '"m0dels"', "lacks the field models"),
        ('"labels": [],', '"labels": [7],', r"labels\[0\]: expected text, got a whole number"),
    ],
)
def test_a_damaged_manifest_is_named(export, tmp_path, old, new, message):
    text = Path(f"{export}/manifest.json").read_text()
    assert old in text
    changed = text.replace(old, new).replace('"sha256"', '"unsealed"')
    (tmp_path / "manifest.json").write_text(changed)
    with pytest.raises(InputError, match=message):
        saved_model.read_manifest(str(tmp_path))


@pytest.mark.more
def test_tasks_may_be_in_folders_with_blanks(folders, tmp_path):
    place = tmp_path / "my models" / "a, b"
    shutil.copytree(folders["mood"], place)
    commands.done("export", f"--tasks=mood={place}", f"--output={tmp_path}/an export")
    assert saved_model.versions(f"{tmp_path}/an export") == [1]


def test_pairs_need_two_segments(folders, tmp_path):
    narrow = with_one_segment(weights.read(folders["qa"]))
    weights.write(narrow, f"{tmp_path}/qa", weights.formats.Format.BERT_TF)
    with pytest.raises(InputError, match="qa: has sequences of 2 segments"):
        sources.find([f"qa={tmp_path}/qa"])
