"""Cross-validation: what is scored, and by a model of what."""

import json
import os
import random
from collections import Counter

import pytest

from bert_tf import tasks
from bert_tf.finetuning import dev_split, folds, sweep, task_report
from pipelines.common.errors import InputError
from pipelines.labelled.schema import (
    AnswerSpan,
    MultiLabelExample,
    SpanExample,
    TextExample,
    WordsExample,
)
from tests.bert_tf.labelled_data import make_texts, settings_of


def _examples(count=60):
    rng = random.Random(0)
    labels = ["a"] * (count // 2) + ["b"] * (count // 3) + ["c"] * (count // 6)
    rng.shuffle(labels)
    # Every third text is repeated, with the label of its copy.
    return [
        TextExample(str(n), "f: row 1", f"text {n - (n % 3 == 1)}", None, labels[n])
        for n in range(count)
    ]


def test_folds_share_no_text_and_have_all_labels():
    examples, task = _examples(), tasks.make("classification")
    seen = Counter()
    for number in range(5):
        parts = dev_split.with_dev(task, {"all": list(examples)}, 0.1, (number, 5))
        train, dev = parts["train"], parts["dev"]
        assert not {e.text_a for e in train} & {e.text_a for e in dev}
        assert sorted(train + dev, key=lambda e: int(e.key)) == examples
        assert {e.label for e in dev} == {"a", "b", "c"} and 9 <= len(dev) <= 15
        seen.update(e.key for e in dev)
    assert set(seen.values()) == {1} and len(seen) == len(examples)


def test_a_label_that_the_rest_lacks_stays_in_training():
    examples = [
        MultiLabelExample(str(n), "f: row 1", f"text {n}", None, ("rare",) if n == 7 else ())
        for n in range(10)
    ]
    parts = [
        dev_split.with_dev(tasks.make("multilabel"), {"all": list(examples)}, 0.1, (n, 5))
        for n in range(5)
    ]
    assert not any(e.labels for part in parts for e in part["dev"])
    assert all(len(part["train"]) + len(part["dev"]) == 10 for part in parts)


def test_the_only_question_without_an_answer_stays_in_training():
    answer = (AnswerSpan("a", 0),)
    examples = [
        SpanExample(str(n), "f: row 1", "q ?", f"a text {n}", answer if n != 7 else ())
        for n in range(10)
    ]
    for number in range(5):
        found = dev_split.with_dev(tasks.make("span"), {"all": list(examples)}, 0.1, (number, 5))
        assert examples[7] in found["train"]


def test_folds_need_texts_and_no_dev_file():
    examples, task = _examples(6), tasks.make("classification")
    with pytest.raises(InputError, match="--folds=9: 4 texts or documents are too few"):
        dev_split.with_dev(task, {"all": list(examples)}, 0.1, (0, 9))
    with pytest.raises(InputError, match="--folds=31: no label has so many examples"):
        dev_split.with_dev(task, {"all": _examples()}, 0.1, (0, 31))
    with pytest.raises(InputError, match=r"there is dev data; name .*--train=FILE"):
        dev_split.with_dev(task, {"all": examples, "dev": examples}, 0.1, (0, 2))


def _sentences(count, document, tags=("B-a", "O")):
    return [WordsExample(str(n), "f: line 1", ("x", "y"), tags, document) for n in range(count)]


def test_a_file_without_documents_is_split_in_runs_of_neighbours():
    examples, task, seen = _sentences(60, 0), tasks.make("ner"), []
    for number in range(3):
        parts = dev_split.with_dev(task, {"all": list(examples)}, 0.1, (number, 3))
        assert len(parts["dev"]) == 20
        seen.append([int(e.key) for e in parts["dev"]])
    assert sorted(seen) == [list(range(n, n + 20)) for n in (0, 20, 40)]


def test_a_fold_that_cannot_be_scored_is_told():
    examples = _sentences(9, 0) + _sentences(9, 1) + _sentences(9, 2, ("B-b", "O"))
    for number in range(3):
        with pytest.raises(
            InputError, match=r"--folds=3: fold \d has only texts or documents whose"
        ):
            dev_split.with_dev(tasks.make("ner"), {"all": list(examples)}, 0.1, (number, 3))


def test_what_is_wrong_with_folds_is_noticed_before_anything_is_trained(tmp_path, init):
    settings = settings_of(init, "classification", make_texts(tmp_path, train=20), folds=3)
    with pytest.raises(InputError, match="--folds: .*there is dev data"):
        folds.finetune(settings, f"{tmp_path}/out", f"{tmp_path}/cache")
    assert not os.path.exists(f"{tmp_path}/out")


@pytest.mark.parametrize(
    "changes", [{"learning_rates": (1e-3, 1e-4)}, {"patience": 2}], ids=lambda x: str(*x)
)
def test_folds_score_fixed_settings(init, changes):
    with pytest.raises(InputError, match="--folds: scores fixed settings of one task"):
        settings_of(init, "classification", "data", folds=3, **changes).check()


@pytest.mark.more
def test_the_report_has_each_fold_and_the_model_is_the_usual_one(tmp_path, init, monkeypatch):
    data = f"{make_texts(tmp_path, train=48)}/train.tsv"
    usual = settings_of(init, "classification", data, epochs=1.0)
    expected = sweep.finetune(usual, f"{tmp_path}/usual", f"{tmp_path}/cache")
    settings = settings_of(init, "classification", data, epochs=1.0, folds=3)
    output = f"{tmp_path}/out"
    report = folds.finetune(settings, output, f"{tmp_path}/cache")
    assert report["metrics"] == expected["metrics"]
    found = report["folds"]
    accuracies = found["by_fold"]["accuracy"]
    assert len(accuracies) == 3
    assert found["mean"]["accuracy"] == pytest.approx(sum(accuracies) / 3)
    assert found["range"]["accuracy"] == [min(accuracies), max(accuracies)]
    own = [json.load(open(f"{output}/folds/{n}-of-3/report.json")) for n in (1, 2, 3)]
    assert [each["metrics"]["median"]["accuracy"] for each in own] == accuracies
    assert sum(each["examples"]["classification"]["dev"] for each in own) == 48
    assert "mean of 3 folds" in task_report.summary(report)
    assert not os.path.exists(f"{output}/folds/1-of-3/checkpoint")
    # Once more: nothing is trained.
    monkeypatch.setattr(sweep, "_train", None)
    assert folds.finetune(settings, output, f"{tmp_path}/cache")["folds"] == found
