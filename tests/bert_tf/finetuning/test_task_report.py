"""What fine-tuning prints of its report."""

import numpy as np
import pytest

from bert_tf.finetuning import task_data, task_report
from bert_tf.finetuning.settings import FineTuningSettings, TaskRequest
from pipelines.tokenizers import registry


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["ner"], ["test/f1"]), (["ner", "pos"], ["ner/test/f1", "pos/test/f1"])],
)
def test_joint_scores_of_test_data_name_their_tasks(names, expected):
    report = {
        "metrics": {"by_seed": {"0": {}}, "median": {}},
        "test_metrics": {name: {"test/f1": 0.5} for name in names},
        "test_baselines": {name: {"test/f1": 0.25} for name in names},
        "test_bag_of_words": {name: {} for name in names},
        "labels": {},
        "warnings": [],
        "notes": {},
        "learning_rate": 1e-3,
        "seconds": 1.0,
    }
    lines = task_report.summary(report).split("\n")
    assert [line.split() for line in lines[1:-1]] == [[n, "0.5000", "0.2500"] for n in expected]


def test_scores_of_labels_and_warnings_are_shown():
    report = {
        "metrics": {"by_seed": {"0": {"accuracy": 0.5}}, "median": {"accuracy": 0.5}},
        "baselines": {"accuracy": 0.75},
        "bag_of_words": {"accuracy": 0.625},
        "test_metrics": {},
        "labels": {"mood": {"pos": {"precision": 1.0, "recall": 0.25, "f1": 0.4, "count": 1200}}},
        "warnings": ["look here"],
        "notes": {},
        "learning_rate": 1e-3,
        "seconds": 1.0,
    }
    lines = [line.split() for line in task_report.summary(report).split("\n")]
    assert lines[1] == ["accuracy", "0.5000", "0.7500", "0.6250", "0.5000"]
    assert lines[2] == ["mood,", "dev", "precision", "recall", "f1", "count"]
    assert lines[3] == ["pos", "1.0000", "0.2500", "0.4000", "1,200"]
    assert lines[4] == ["warning:", "look", "here"]


@pytest.mark.parametrize("tune", [True, False])
def test_thresholds_are_tuned_on_dev_data_if_asked(tmp_path, vocab_path, tune):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("text\tlabels\n" + "it\tx,y\n" * 6)
    request = TaskRequest("multilabel", "topics", str(tmp_path))
    tokens = registry.load_tokenizer(vocab_path)
    data = task_data.load(request, FineTuningSettings((request,), "none"), tokens)
    logits = np.full((6, 2), -1, "f4")
    task, report = task_report.write_task(data, lambda _: logits, str(tmp_path), tune)
    assert bool(task.thresholds) == tune
    assert [scores["recall"] for scores in report["labels"].values()] == [float(tune)] * 2
