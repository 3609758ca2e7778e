"""Shapes of tasks that other packages bring: from registration to answers."""

import json
import random

import pytest

from bert_tf import Predictor, tasks, weights
from bert_tf.export import saved_model, sources
from bert_tf.finetuning import task_report
from bert_tf.inspection import model_page
from bert_tf.inspection.settings import InspectionSettings
from bert_tf.serving import file_prediction
from bert_tf.serving.demo import page
from bert_tf.tasks import registry
from pipelines.common.errors import InputError
from pipelines.labelled.source import Source
from tests import tokenizers
from tests.bert_tf import labelled_data
from tests.bert_tf.labelled_data import BAD, CONFIG, GOOD, TOKENS
from tests.bert_tf.tasks import counting
from tests.bert_tf.tasks.contract import TaskCase, run_task_test
from tests.html_elements import Elements


@pytest.fixture
def registered():
    tasks.register(counting.SHAPE)
    yield
    del registry._SHAPES[counting.SHAPE.name]


def _make_counts(folder):
    """Texts with none to three good words among bad ones."""
    rng = random.Random(0)
    for split, count in (("train", 256), ("dev", 48)):
        rows = []
        for _ in range(count):
            label = rng.randrange(4)
            words = [rng.choice(GOOD) for _ in range(label)] + rng.choices(BAD, k=3 - label)
            rng.shuffle(words)
            rows.append([" ".join(words), str(label)])
        labelled_data.write_rows(folder / f"{split}.tsv", rows, ["text", "label"])
    return str(folder)


def test_a_shape_from_outside_keeps_to_the_contract(registered):
    texts = ["good film", "a bad story", "fine great nice", "good and sad"]
    examples = [
        counting.CountExample(
            f"key{i}", f"x.tsv: line {i}", text, sum(w in GOOD for w in text.split())
        )
        for i, text in enumerate(texts)
    ]
    unlabelled = [counting.CountExample(e.key, e.place, e.text) for e in examples[:3]]
    case = TaskCase("count", examples, unlabelled)
    run_task_test(case, tokenizers.wordpiece(TOKENS), CONFIG)


@pytest.mark.more
def test_a_shape_from_outside_is_trained_predicted_exported_and_served(tmp_path, init, registered):
    report, output = labelled_data.tune(
        tmp_path, init, "count", _make_counts, epochs=12.0, max_seq_length=16
    )
    assert report["metrics"]["median"]["exact"] > 0.7 > report["baselines"]["exact"]
    assert "exact" in task_report.summary(report)
    (described,) = json.load(open(f"{output}/tasks.json"))
    assert (described["shape"], described["kind"]) == ("count", "count")
    # The same files from the weights, and from an export.
    wanted = open(f"{output}/predictions.dev.tsv").read()
    dev = Source(f"{tmp_path}/data/dev.tsv")
    export = saved_model.export(sources.find([f"number={output}"]), f"{tmp_path}/export")
    for model in (output, export):
        (path,), metrics = file_prediction.predict_file(
            model, dev, f"{tmp_path}/again", labelled=True
        )
        assert open(path).read() == wanted
        assert metrics["exact"] == pytest.approx(report["metrics"]["median"]["exact"])
    # Raw text in, an answer out; and by hand on the demo page.
    found = Predictor(export)(text=["good nice fine", "bad sad poor"])
    assert found["count"].tolist() == [3, 0]
    manifest = saved_model.read_manifest(export)
    (form,) = page.forms(manifest)
    assert (form.name, form.shape, form.sample) == ("number", "count", {"text": ""})
    assert '"number"' in Elements(page.render(manifest, "bert")).scripts["values"]
    assert "| `count` |" in open(f"{export}/README.md").read()
    # What has no place for its head says so.
    with pytest.raises(
        InputError, match="no class for a BERT with a task of the shape count; write it as"
    ):
        weights.write(weights.read(output), f"{tmp_path}/hf", "huggingface")
    # The page of `bert-tf inspect` shows its encoder.
    assert model_page.inspect(output, ["good and bad"], InspectionSettings())


def test_a_shape_that_is_not_registered_is_named(tmp_path, init, registered):
    described = tasks.make("count", "number").describe()
    del registry._SHAPES["count"]
    with pytest.raises(InputError, match="the task 'count' is unknown; there are cola,"):
        tasks.load(described)
    with pytest.raises(InputError, match="the task number is 'count'; known shapes are class"):
        tasks.check_entry(described, "tasks.json")
    tasks.register(counting.SHAPE)


@pytest.mark.parametrize(
    "shape",
    [
        tasks.TaskShape("choice", ("mine",), "nowhere"),
        tasks.TaskShape("mine", ("mine", "mrpc"), "nowhere"),
    ],
)
def test_names_are_registered_once(shape):
    with pytest.raises(ValueError, match=r"(choice|mrpc): registered by another task shape"):
        tasks.register(shape)


def test_kinds_that_a_module_lacks_are_named():
    shape = tasks.TaskShape("mine", ("mine", "count"), counting.__name__)
    with pytest.raises(ValueError, match="counting: lacks a task of {'mine'}"):
        print(shape.tasks)


def test_a_kind_of_another_shape_is_named():
    entry = tasks.make("ner", "names").describe() | {"shape": "classification"}
    with pytest.raises(
        InputError, match=r"names is of the kind 'ner'; of classification there are"
    ):
        tasks.check_entry(entry, "tasks.json")


def test_installed_packages_register_their_shapes(monkeypatch):
    class EntryPoint:
        def load(self):
            return counting.SHAPE

    def entry_points(group):
        assert group == "bert_tf.tasks"
        return [EntryPoint()]

    monkeypatch.setattr(registry.metadata, "entry_points", entry_points)
    monkeypatch.setattr(registry, "_SHAPES", dict(registry._SHAPES))
    registry._register_installed.cache_clear()
    assert "count" in tasks.kinds() and tasks.make("count").units == 4
