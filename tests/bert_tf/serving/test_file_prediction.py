"""Predictions for a file: by which names they are written, and by which metrics scored."""

import dataclasses
import json
import os
import pathlib

import pytest

from bert_tf import tasks, weights
from bert_tf.serving import file_prediction
from bert_tf.weights.formats import Format
from pipelines.common import locks
from pipelines.common.errors import InputError
from pipelines.labelled.source import Source
from tests.bert_tf import exported


@pytest.mark.parametrize(
    ("kind", "name", "split"),
    [
        ("squad1", "dev-v1.1.json", "dev"),
        ("squad2", "train-v2.0.json", "train"),
        ("squad2", "dev-v1.1.json", "dev-v1.1"),  # of the other version
        ("pos", "en_ewt-ud-dev.conllu", "dev"),
        ("choice", "arc_easy_test.csv", "test"),
        ("mnli", "dev_matched.tsv", "dev_matched"),
        ("classification", "reviews.tsv", "reviews"),
        ("classification", "validation.csv.gz", "dev"),
        ("classification", "Dev.CSV", "dev"),
        ("classification", "reviews.2023.csv.gz", "reviews.2023"),
        ("classification", "test.jsonl.gz", "test"),
        ("classification", "a/dev.csv", "dev"),
        ("classification", "a/val_text.txt", "dev"),
        ("classification", "d.json#validation", "dev"),
        ("classification", "d.json#oos_test", "oos_test"),
        ("classification", "a/test-00000-of-00003.parquet", "test"),
        ("classification", "a/test/data-00000-of-00001.arrow", "test"),
        ("classification", "a/new/data-00000-of-00001.arrow", "data-00000-of-00001"),
    ],
)
def test_files_have_the_splits_of_their_names(kind, name, split):
    assert file_prediction._split_of(f"gs://train/{name}", tasks.make(kind)) == split


def test_the_diagnostic_set_has_metrics_of_its_own(vocab_path, tmp_path):
    task = dataclasses.replace(tasks.make("mnli"), max_seq_length=exported.MAX_LENGTH)
    model = f"{tmp_path}/mnli"
    weights.write(exported.make_bundle(vocab_path, [task], 0), model, Format.BERT_TF)
    rows = ["index\tsentence1\tsentence2\tlabel"]
    rows += [f"{i}\tthe layer {i}\ta token\t{label}" for i, label in enumerate(task.labels * 3)]
    path = tmp_path / "diagnostic.tsv"
    path.write_text("\n".join(rows) + "\n")
    written, metrics = file_prediction.predict_file(
        model, Source(str(path)), f"{tmp_path}/out", kind="ax", labelled=True
    )
    assert sorted(written) == [
        f"{tmp_path}/out/AX.tsv",
        f"{tmp_path}/out/predictions.diagnostic.tsv",
    ]
    assert list(metrics) == ["matthews", "accuracy"]


def _foreign(vocab_path, folder, task, **changes):
    """A model of transformers, which says nothing but shape and labels."""
    weights.write(exported.make_bundle(vocab_path, [task], 0), folder, Format.HUGGINGFACE)
    os.remove(f"{folder}/tasks.json")
    path = pathlib.Path(folder, "config.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def _predict(model, path, columns=None, **how):
    source = Source(str(path), columns or {})
    (written,), metrics = file_prediction.predict_file(model, source, f"{model}/predictions", **how)
    return [line.split("\t") for line in open(written).read().splitlines()], metrics


@pytest.mark.more
def test_models_of_other_programs_take_what_the_file_has(vocab_path, tmp_path):
    task = dataclasses.replace(
        tasks.make("pair", "topics"), labels=("no", "yes"), max_seq_length=exported.MAX_LENGTH
    )
    ours = f"{tmp_path}/ours"
    weights.write(exported.make_bundle(vocab_path, [task], 0), ours, Format.BERT_TF)
    theirs = _foreign(vocab_path, f"{tmp_path}/hf", task)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("sentence1\tsentence2\nthe layer\ta token\nthe layer\tof the model\n")
    expected, _ = _predict(ours, pairs)
    assert expected[1] != expected[2]
    assert _predict(theirs, pairs)[0] == _predict(theirs, pairs, kind="pair")[0] == expected
    single = tmp_path / "single.tsv"
    single.write_text("text\nthe layer\n")
    assert len(_predict(theirs, single)[0]) == 2
    with pytest.raises(InputError, match="the file has single texts, the task topics takes pairs"):
        _predict(ours, single, kind="classification")


@pytest.mark.parametrize(
    ("kind", "names", "labels"),
    [
        ("mnli", ("entailment", "neutral", "contradiction"), None),  # in their order
        ("mrpc", ("LABEL_0", "LABEL_1"), ("0", "1")),
    ],
)
def test_the_kind_of_a_model_of_another_program_may_be_named(
    vocab_path, tmp_path, kind, names, labels
):
    task = dataclasses.replace(
        tasks.make("pair", "topics"), labels=names, max_seq_length=exported.MAX_LENGTH
    )
    model = _foreign(vocab_path, f"{tmp_path}/hf", task)
    header = "index\tsentence1\tsentence2\tgold_label"
    if kind == "mrpc":
        header = "#1 ID\t#1 String\t#2 String\tQuality"
    labels = labels or names
    rows = [f"{i}\tthe layer {i}\ta token\t{label}" for i, label in enumerate(labels)]
    path = tmp_path / "dev_matched.tsv"
    path.write_text("\n".join([header, *rows]) + "\n")
    lines, metrics = _predict(model, path, kind=kind, labelled=True)
    assert "accuracy" in metrics and {line[1] for line in lines[1:]} <= {*labels}
    with pytest.raises(InputError, match=r"topics is classification with the labels"):
        _predict(model, path, kind="rte" if kind == "mnli" else "mnli")


def test_settings_of_a_task_come_back_from_every_format(vocab_path, tmp_path):
    task = dataclasses.replace(
        tasks.make("squad2"),
        max_seq_length=exported.MAX_LENGTH,
        allow_null=True,
        null_threshold=-2.5,
    )
    model = exported.make_bundle(vocab_path, [task], 0)
    config = dataclasses.replace(model.config, hidden_act="gelu")  # which all can express
    model = dataclasses.replace(model, config=config)
    for target in weights.formats.WRITABLE:
        weights.write(model, f"{tmp_path}/{target}", target)
        assert tasks.load(weights.read(f"{tmp_path}/{target}").task()) == task


def test_another_length_may_be_chosen(vocab_path, tmp_path, monkeypatch):
    task = dataclasses.replace(tasks.make("regression"), max_seq_length=9)
    folder = _foreign(vocab_path, f"{tmp_path}/model", task)
    positions = weights.read(folder).config.max_seq_length
    assert file_prediction.open_task(folder)[0].max_seq_length == 9 < positions
    assert file_prediction.open_task(folder, max_seq_length=20)[0].max_seq_length == 20
    with pytest.raises(InputError, match=f"{positions + 1} tokens exceed the {positions} pos"):
        file_prediction.open_task(folder, max_seq_length=positions + 1)
    monkeypatch.setattr(file_prediction.saved_model, "is_export", lambda model: True)
    with pytest.raises(
        InputError, match="--max_seq_length: is part of an export .*; export the model"
    ):
        file_prediction.open_task(folder, max_seq_length=20)


def test_a_file_of_another_layout_gets_a_hint(vocab_path, tmp_path):
    task = dataclasses.replace(tasks.make("mrpc"), max_seq_length=exported.MAX_LENGTH)
    model = f"{tmp_path}/mrpc"
    weights.write(exported.make_bundle(vocab_path, [task], 0), model, Format.BERT_TF)
    path = tmp_path / "mine.csv"
    path.write_text("sentence1,sentence2\nthe layer,\n")
    with pytest.raises(InputError, match=r"name its layout with --kind=classification"):
        _predict(model, path)
    assert len(_predict(model, path, kind="classification")[0]) == 2


def test_what_is_odd_is_said(vocab_path, tmp_path, caplog):
    task = dataclasses.replace(
        tasks.make("classification"), labels=("a", "b"), max_seq_length=exported.MAX_LENGTH
    )
    model = f"{tmp_path}/ours"
    task = dataclasses.replace(task, columns=(("text", "opinion"),))
    weights.write(exported.make_bundle(vocab_path, [task], 0), model, Format.BERT_TF)
    path = tmp_path / "mine.csv"
    path.write_text("opinion,comment\nthe layer,x\n,y\n")
    assert len(_predict(model, path)[0]) == 3
    (written,), _ = file_prediction.predict_file(f"{model}/checkpoint", Source(str(path)))
    assert written == f"{model}/predictions/classification/predictions.mine.tsv"
    assert "mine examples with a problem" in caplog.text and "line 3: the text_a" in caplog.text


@pytest.mark.parametrize(
    ("kind", "labels", "expected"),
    [
        ("mrpc", ["LABEL_0", "LABEL_1"], ["0", "1"]),
        ("mrpc", ["1", "0"], ["1", "0"]),
        ("mrpc", ["equivalent", "not_equivalent"], None),
        ("rte", ["LABEL_0", "LABEL_1"], ["entailment", "not_entailment"]),
        ("mnli", ["0", "1", "2"], ["contradiction", "entailment", "neutral"]),
        ("mnli", ["LABEL_0", "LABEL_1", "LABEL_2"], None),  # in which order?
    ],
)
def test_labels_are_never_swapped(kind, labels, expected):
    described = {"name": "topics", "shape": "classification", "labels": labels}
    if expected:
        assert tasks.of_kind(described, kind)["labels"] == expected
    else:
        with pytest.raises(InputError, match=f"labels {', '.join(labels)}; {kind} is"):
            tasks.of_kind(described, kind)
    by_name = tasks.load(described | {"name": kind})
    assert list(by_name.labels) == (expected or labels)


@pytest.mark.more
def test_predictions_are_written_where_nothing_else_is(folders, tmp_path):
    path = tmp_path / "texts.tsv"
    path.write_text("text\na layer\nthe mask\n")
    source = Source(str(path))
    for name in ("thesis.tsv", "manifest.json"):
        mine = tmp_path / f"mine {name}"
        mine.mkdir()
        (mine / name).write_text('{"mine": 1}')
        with pytest.raises(InputError, match=f"is not of predictions: it has {name}"):
            file_prediction.predict_file(folders["mood"], source, str(mine), "mood")
        assert os.listdir(mine) == [name]
    with pytest.raises(InputError, match=r"texts\.tsv: is a file; name a folder to write to"):
        file_prediction.predict_file(folders["mood"], source, str(path), "mood")
    output = f"{tmp_path}/out"
    written, _ = file_prediction.predict_file(folders["mood"], source, output, "mood")
    again = tmp_path / "again.tsv"
    again.write_text(path.read_text())
    other = Source(str(again))
    more, _ = file_prediction.predict_file(folders["mood"], other, output, "mood")
    found = {f"{output}/{name}" for name in os.listdir(output)}
    assert {*written, *more} < found and not set(written) & set(more)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/texts.tsv").write_text("text\nthe mask\n")
    with pytest.raises(
        InputError, match="out: has predictions of .*texts.tsv .*; name another fol"
    ):
        file_prediction.predict_file(
            folders["mood"], Source(f"{tmp_path}/b/texts.tsv"), output, "mood"
        )
    assert file_prediction.predict_file(folders["mood"], source, output, "mood")[0] == written
    with locks.held(output), pytest.raises(InputError, match="another process is writing there"):
        file_prediction.predict_file(folders["mood"], source, output, "mood")


def test_a_model_without_a_task_points_to_embedding(folders, tmp_path, monkeypatch):
    path = tmp_path / "texts.tsv"
    path.write_text("text\na layer\n")
    source = Source(str(path))
    with pytest.raises(InputError, match="has no task to predict for; fine-tune.*bert-tf embed"):
        file_prediction.predict_file(folders["pretrained"], source, f"{tmp_path}/out")

    class OfPretrained:
        """An export of a model without a task."""

        def __init__(self, path, engine):
            self.manifest = {"models": [{"tasks": []}]}

    monkeypatch.setattr(file_prediction, "Predictor", OfPretrained)
    (tmp_path / "bert" / "1").mkdir(parents=True)
    with pytest.raises(InputError, match="has no task to predict for. For vectors.*bert-tf embed"):
        file_prediction.predict_file(f"{tmp_path}/bert", source, f"{tmp_path}/out")
