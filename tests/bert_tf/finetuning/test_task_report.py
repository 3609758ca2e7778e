"""What fine-tuning prints of its report."""

import pytest

from bert_tf.finetuning import task_report


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["ner"], ["test/f1"]), (["ner", "pos"], ["ner/test/f1", "pos/test/f1"])],
)
def test_joint_scores_of_test_data_name_their_tasks(names, expected):
    report = {
        "metrics": {"by_seed": {"0": {}}, "median": {}},
        "test_metrics": {name: {"test/f1": 0.5} for name in names},
        "notes": {},
        "learning_rate": 1e-3,
        "seconds": 1.0,
    }
    lines = task_report.summary(report).split("\n")
    assert [line.split() for line in lines[1:-1]] == [[name, "0.5000"] for name in expected]
