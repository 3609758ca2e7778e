"""Predictions for a file: by which names they are written, and by which metrics scored."""

import dataclasses

import pytest

from bert_tf import predicting, tasks, weights
from bert_tf.weights.formats import Format
from tests.bert_tf import exported


@pytest.mark.parametrize(
    ("kind", "name", "split"),
    [
        ("squad1", "dev-v1.1.json", "dev"),
        ("squad2", "train-v2.0.json", "train"),
        ("squad2", "dev-v1.1.json", "dev-v1"),  # of the other version
        ("pos", "en_ewt-ud-dev.conllu", "dev"),
        ("choice", "arc_easy_test.csv", "test"),
        ("mnli", "dev_matched.tsv", "dev_matched"),
        ("classification", "reviews.tsv", "reviews"),
    ],
)
def test_files_have_the_splits_of_their_names(kind, name, split):
    assert predicting._split_of(f"gs://train/{name}", tasks.make(kind)) == split


def test_the_diagnostic_set_has_metrics_of_its_own(vocab_path, tmp_path):
    task = dataclasses.replace(tasks.make("mnli"), max_length=exported.MAX_LENGTH)
    model = f"{tmp_path}/mnli"
    weights.write(exported.make_bundle(vocab_path, [task], 0), model, Format.BERT_TF)
    rows = ["index\tsentence1\tsentence2\tlabel"]
    rows += [f"{i}\tthe layer {i}\ta token\t{label}" for i, label in enumerate(task.labels * 3)]
    path = tmp_path / "diagnostic.tsv"
    path.write_text("\n".join(rows) + "\n")
    request = predicting.Request(str(path), kind="ax", labelled=True)
    written, metrics = predicting.predict_file(model, request, f"{tmp_path}/out")
    assert written == [f"{tmp_path}/out/AX.tsv"]
    assert list(metrics) == ["matthews", "accuracy"]
