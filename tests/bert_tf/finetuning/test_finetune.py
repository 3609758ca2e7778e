"""Fine-tuning for every shape of task, on small data that has something to learn."""

import json
import os
import weakref

import numpy as np
import pytest

from bert_tf import weights
from bert_tf.finetuning import sweep, task_data
from bert_tf.finetuning.run import Run
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from bert_tf.serving import file_prediction
from pipelines.common.errors import InputError
from pipelines.labelled.source import Source
from tests.bert_tf.labelled_data import (
    files_of,
    make_choices,
    make_pairs,
    make_spans,
    make_tags,
    make_texts,
    settings_of,
    tune,
)


def test_classification(tmp_path, init, monkeypatch):
    report, output = tune(tmp_path, init, "classification", make_texts)
    assert report["metrics"]["median"]["accuracy"] > 0.9
    assert report["test_metrics"]["classification"]["test/accuracy"] > 0.8
    assert report["seconds"] > 0 and report["settings"]["epochs"] == 6
    assert files_of(output) == ["predictions.dev.tsv", "predictions.test.tsv"]
    lines = open(f"{output}/predictions.test.tsv").read().splitlines()
    assert lines[0].split("\t") == ["id", "label", "p(neg)", "p(pos)", "true_label", "text"]
    assert [line.split("\t")[0] for line in lines[1:]] == [f"test{i}" for i in range(10)]
    for name in ("bert_config.json", "vocab.txt", "tokenizer_config.json", "run.json"):
        assert os.path.exists(f"{output}/{name}")
    for name in ("picture.png", "curves.png"):
        assert open(f"{output}/{name}", "rb").read(4) == b"\x89PNG"
    assert report["baselines"]["accuracy"] <= 0.6 and report["bag_of_words"]["accuracy"] > 0.9
    assert not any("to all" in warning for warning in report["warnings"])
    assert report["labels"]["classification"].keys() == {"neg", "pos"}
    (task,) = json.load(open(f"{output}/tasks.json"))
    assert task["labels"] == ["neg", "pos"] and task["shape"] == "classification"
    # The weights that were kept give the predictions that were written, to another reader too.
    before = open(f"{output}/predictions.test.tsv").read()
    source = Source(f"{tmp_path}/data/test.tsv")
    (path,), _ = file_prediction.predict_file(output, source, f"{tmp_path}/again", labelled=True)
    assert open(path).read() == before
    # A second call finds the first one's report, without the data if no file has changed.
    same = settings_of(init, "classification", f"{tmp_path}/data")
    with monkeypatch.context() as patched:
        patched.setattr(task_data, "read_examples", None)
        assert sweep.finetune(same, output, f"{tmp_path}/cache") == report
    os.utime(f"{tmp_path}/data/train.tsv")
    assert sweep.finetune(same, output, f"{tmp_path}/cache") == report
    with pytest.raises(InputError, match=r"is of a run with other settings: epochs"):
        settings = settings_of(init, "classification", f"{tmp_path}/data", epochs=2.0)
        sweep.finetune(settings, output, f"{tmp_path}/cache")
    with open(f"{tmp_path}/data/train.tsv", "a") as file:
        file.write("more\ta good one\tpos\n")
    with pytest.raises(InputError, match="is of a run with other tasks"):
        sweep.finetune(same, output, f"{tmp_path}/cache")


@pytest.mark.slow
def test_regression(tmp_path, init):
    report, output = tune(
        tmp_path,
        init,
        "regression",
        lambda folder: make_pairs(folder, regression=True),
        epochs=10.0,
    )
    assert report["metrics"]["median"]["pearson"] > 0.9
    head = open(f"{output}/predictions.dev.tsv").readline()
    assert head == "id\tscore\ttrue_score\ttext_a\ttext_b\n"


@pytest.mark.more
def test_tagging(tmp_path, init):
    report, output = tune(tmp_path, init, "ner", make_tags)
    assert report["metrics"]["median"]["f1"] > 0.95
    assert report["test_metrics"]["ner"]["test/f1"] > 0.9
    words = [line.split() for line in open(f"{output}/predictions.dev.txt") if line.strip()]
    accuracy = np.mean([truth == guess for _, truth, guess in words])
    assert accuracy == pytest.approx(report["metrics"]["median"]["accuracy"])


@pytest.mark.more
def test_sentences_beyond_the_window_get_all_their_tags(tmp_path, init):
    report, output = tune(tmp_path, init, "tagging", make_tags, max_seq_length=8, epochs=4.0)
    assert report["metrics"]["median"]["f1"] > 0.9
    assert report["notes"]["tagging"]["sentences longer than --max_seq_length=8, in parts"] > 100
    dev = open(f"{tmp_path}/data/dev.txt").read().split("\n")
    guesses = open(f"{output}/predictions.dev.txt").read().split("\n")
    assert [line.split()[:1] for line in guesses if line] == [
        line.split()[:1] for line in dev if line
    ]


@pytest.mark.more
def test_spans_in_sliding_windows(tmp_path, init):
    report, output = tune(tmp_path, init, "squad1", make_spans, max_seq_length=24, epochs=8.0)
    assert report["metrics"]["median"]["exact"] > 0.9
    assert report["notes"]["squad1"]["further windows of long contexts"] > 20
    answers = json.load(open(f"{output}/predictions.json"))
    best = json.load(open(f"{output}/nbest_predictions.json"))
    assert answers.keys() == best.keys() == {f"dev{i}" for i in range(48)}
    for key, rows in best.items():
        assert rows[0]["text"] == answers[key] and len(rows) <= 20
        assert sum(row["probability"] for row in rows) == pytest.approx(1)


@pytest.mark.slow
def test_spans_that_may_be_missing(tmp_path, init):
    report, output = tune(
        tmp_path, init, "span", lambda folder: make_spans(folder, null=True), epochs=8.0
    )
    assert report["metrics"]["median"]["f1"] > 0.9
    odds = json.load(open(f"{output}/null_odds.json"))
    answers = json.load(open(f"{output}/predictions.json"))
    (task,) = json.load(open(f"{output}/tasks.json"))
    assert task["allow_null"]
    for key, answer in answers.items():
        assert (answer == "") == (odds[key] > task["null_threshold"])


@pytest.mark.slow
def test_choices_of_different_numbers(tmp_path, init):
    report, output = tune(tmp_path, init, "choice", make_choices)
    assert report["metrics"]["median"]["accuracy"] > 0.9
    assert files_of(output) == ["predictions.dev.csv"]


@pytest.mark.slow
def test_seeds_rates_and_joint_tasks(tmp_path, init, monkeypatch):
    runs = weakref.WeakSet()
    first_init = Run.__init__

    def one_at_a_time(self, *args):
        assert not runs  # a second model might not fit into memory
        first_init(self, *args)
        runs.add(self)

    monkeypatch.setattr(Run, "__init__", one_at_a_time)
    for name in ("texts", "tags"):
        (tmp_path / name).mkdir()
    requests = (
        TaskRequest("classification", "mood", make_texts(tmp_path / "texts")),
        TaskRequest("ner", "ner", make_tags(tmp_path / "tags")),
    )
    settings = settings_of(init, "ner", "", seeds=(1, 2), learning_rates=(1e-5, 2e-3), epochs=5.0)
    settings = FineTuningSettings(**(vars(settings) | {"tasks": requests}))
    output = f"{tmp_path}/out"
    report = sweep.finetune(settings, output, f"{tmp_path}/cache", tensorboard=False)
    assert report["learning_rate"] == 2e-3
    assert report["metrics"]["by_seed"].keys() == {"1", "2"}
    assert len(report["grid"]) == 4
    assert report["metrics"]["median"]["mood/accuracy"] > 0.85
    assert report["metrics"]["median"]["ner/f1"] > 0.85
    # One encoder, two heads, each predicting from the same folder.
    model = weights.read(output)
    assert {task["name"] for task in model.tasks} == {"mood", "ner"}
    source = Source(f"{tmp_path}/texts/test.tsv")
    (path,), _ = file_prediction.predict_file(output, source, task_name="mood")
    assert path == f"{output}/predictions/mood/predictions.test.tsv"
    with pytest.raises(InputError, match="the tasks mood, ner; choose with --task="):
        file_prediction.predict_file(output, source, f"{tmp_path}/p")
