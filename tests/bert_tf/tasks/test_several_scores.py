"""Regression to several numbers at once."""

import dataclasses
import json

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.export import saved_model, sources
from bert_tf.serving.predictor import Predictor
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextExample
from pipelines.labelled.source import Source
from tests.bert_tf import exported

COLUMNS = (("label", "joy+anger"),)


@pytest.fixture(scope="module")
def task():
    return dataclasses.replace(tasks.make("regression", "moods"), columns=COLUMNS)


@pytest.fixture(scope="module")
def examples(task, tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("moods") / "moods.csv"
    rows = [f"text {n},{a:.3f},{b:.3f}" for n, (a, b) in enumerate(rng.normal(size=(20, 2)))]
    path.write_text("\n".join(["text,joy,anger", *rows]) + "\n")
    return task.source.read(Source(str(path), dict(COLUMNS)), "train", True, [])


def test_columns_are_numbers_with_names(task, examples):
    fitted = task.fit(examples)
    assert (fitted.labels, fitted.units) == (("joy", "anger"), 2)
    with pytest.raises(InputError, match="is not a number.*columns of their own"):
        dataclasses.replace(task, columns=()).fit(examples)  # perhaps "1 234"
    with pytest.raises(InputError, match="have a column 'id' of their own"):
        dataclasses.replace(task, columns=(("label", "id+joy"),)).fit(examples)
    assert tasks.load(fitted.describe()).labels == fitted.labels


def test_scores_are_means_and_by_name(task, examples):
    fitted = task.fit(examples)
    truth = fitted.scores_of(examples)
    found = truth + np.random.default_rng(1).normal(size=truth.shape)
    scores = fitted.metrics(examples, list(found))
    pearson, spearman = (
        [each(*pair).statistic for pair in zip(truth.T, found.T, strict=True)]
        for each in (scipy.stats.pearsonr, scipy.stats.spearmanr)
    )
    assert scores["pearson:joy"] == pytest.approx(pearson[0])
    assert scores["pearson:anger"] == pytest.approx(pearson[1])
    assert scores["pearson"] == pytest.approx(np.mean(pearson))
    assert scores["pearson_spearman"] == pytest.approx(np.mean(pearson + spearman))
    assert fitted.metrics(examples, fitted.baseline(examples, examples))["pearson"] == 0
    (text,) = fitted.files(examples, list(found), "dev").values()
    header, first, *_ = (line.split("\t") for line in text.splitlines())
    assert header == ["id", "joy", "anger", "true_scores", "text"]
    assert first[1:4] == [*(f"{score:.7g}" for score in found[0]), examples[0].label]


def test_rows_have_all_numbers_and_each_varies(task, examples):
    fitted = task.fit(examples)
    one = dataclasses.replace(examples[0], label="0.5")
    with pytest.raises(InputError, match="has 1 score, and the task 2; write one in each column"):
        fitted.check([one])
    with pytest.raises(InputError, match="the score 'x' is not a number"):
        fitted.check([dataclasses.replace(examples[0], label="0.5 x")])
    same = [TextExample(str(n), "f: row 1", "t", None, f"{n} 1") for n in range(3)]
    with pytest.raises(InputError, match="has the same score anger"):
        task.fit(same)


@pytest.mark.more
def test_other_programs_and_exports_have_all_numbers(task, examples, vocab_path, tmp_path):
    fitted = dataclasses.replace(task.fit(examples), max_seq_length=exported.MAX_LENGTH)
    bundle = exported.make_bundle(vocab_path, [fitted], 0)
    weights.write(bundle, f"{tmp_path}/hf", Format.HUGGINGFACE)
    config = json.load(open(f"{tmp_path}/hf/config.json"))
    assert config["problem_type"] == "regression"
    assert config["id2label"] == {"0": "joy", "1": "anger"}
    (tmp_path / "hf/tasks.json").unlink()
    again = weights.read(f"{tmp_path}/hf")
    assert again.tasks[0]["shape"] == "regression" and again.tasks[0]["labels"] == ["joy", "anger"]
    weights.write(bundle, f"{tmp_path}/ours", Format.BERT_TF)
    predictor = Predictor(
        saved_model.export(sources.find([f"moods={tmp_path}/ours"]), f"{tmp_path}/export")
    )
    names = predictor.manifest["signatures"]
    assert list(names["moods"]["outputs"]) == ["scores"] and "moods_regress" not in names
    found = predictor("moods", text=["short", exported.TEXTS[0]])["scores"]
    assert found.shape == (2, 2)
    _, alone = predictor.predict(predictor.task(), [examples[0], examples[1]])
    expected = predictor("moods", text=[examples[1].text_a])["scores"][0]
    np.testing.assert_allclose(alone, expected, atol=1e-5)


def test_a_head_that_is_trained_further_keeps_its_sigmoid():
    known = dataclasses.replace(tasks.make("regression", "rank"), activation="sigmoid")
    task = tasks.make("regression", "rank").begin_with([known])
    assert task.activation == "sigmoid" and tasks.load(task.describe()).activation == "sigmoid"
    assert tasks.make("regression", "other").begin_with([known]).activation is None
    logits = tf.constant([[2.0], [-1.0]])
    wanted = task.outputs(logits.numpy())["score"][:, np.newaxis].astype(np.float32)
    right = np.square(wanted - [[0.3], [0.9]])[:, 0]
    labels = tf.constant([[0.3], [0.9]])
    np.testing.assert_allclose(task.losses(logits, {"labels": labels}), right, rtol=1e-5)
    np.testing.assert_allclose(task.teacher_losses(logits, labels), right, rtol=1e-5)
    with pytest.raises(InputError, match="the score 4.5 is not from 0 to 1"):
        task.check([TextExample("1", "f: row 1", "a", None, "4.5")])
