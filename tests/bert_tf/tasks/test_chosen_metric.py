"""Metrics that the user chooses, next to those of scikit-learn."""

import dataclasses

import numpy as np
import pytest
import sklearn.metrics

from bert_tf import tasks
from bert_tf.tasks.classification.multilabel import LabelProbabilities
from bert_tf.tasks.classification.task import ClassPrediction
from pipelines.common.errors import InputError
from pipelines.labelled.schema import MultiLabelExample, TextExample

LABELS = ("ham", "spam", "odd")


@pytest.fixture(scope="module")
def scored():
    """Examples, probabilities, and guesses of 60 texts; "odd" is rare."""
    rng = np.random.default_rng(5)
    truth = rng.choice(LABELS, 60, p=(0.7, 0.25, 0.05))
    probabilities = rng.dirichlet([1, 1, 1], 60)
    examples = [TextExample(str(n), "f: row 1", "t", None, label) for n, label in enumerate(truth)]
    guesses = [LABELS[row.argmax()] for row in probabilities]
    found = list(map(ClassPrediction, guesses, probabilities))
    return examples, found, truth, probabilities, guesses


def _task(metric, **changes):
    made = tasks.make("classification", metric=metric)
    return dataclasses.replace(made, labels=LABELS, **changes)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("macro_f1", lambda t, p, g: sklearn.metrics.f1_score(t, g, average="macro")),
        ("weighted_f1", lambda t, p, g: sklearn.metrics.f1_score(t, g, average="weighted")),
        ("balanced_accuracy", lambda t, p, g: sklearn.metrics.balanced_accuracy_score(t, g)),
        ("kappa", lambda t, p, g: sklearn.metrics.cohen_kappa_score(t, g)),
        ("matthews", lambda t, p, g: sklearn.metrics.matthews_corrcoef(t, g)),
        (
            "recall:odd",
            lambda t, p, g: sklearn.metrics.recall_score(t == "odd", np.equal(g, "odd")),
        ),
        ("f1:spam", lambda t, p, g: sklearn.metrics.f1_score(t == "spam", np.equal(g, "spam"))),
        ("auroc:spam", lambda t, p, g: sklearn.metrics.roc_auc_score(t == "spam", p[:, 1])),
        (
            "auroc",
            lambda t, p, g: sklearn.metrics.roc_auc_score(
                t, p[:, [0, 2, 1]], labels=sorted(LABELS), multi_class="ovr"
            ),
        ),
        (
            "average_precision",
            lambda t, p, g: sklearn.metrics.average_precision_score(
                np.stack([t == label for label in LABELS], 1), p
            ),
        ),
    ],
)
def test_the_chosen_metric_decides_and_equals_scikit_learn(scored, metric, expected):
    examples, found, *arrays = scored
    task = _task(metric).fit(examples)
    scores = task.metrics(examples, found)
    assert task.main_metric == next(iter(scores)) == metric
    assert scores[metric] == pytest.approx(expected(*arrays), abs=1e-12)
    assert {"accuracy", "macro_f1"} <= scores.keys()
    restored = tasks.load(task.describe())
    assert restored.metrics(examples, found) == scores


def test_several_labels_have_the_same_choice(scored):
    _, _, truth, probabilities, _ = scored
    examples = [MultiLabelExample("0", "f: row 1", "t", None, (label,)) for label in truth]
    found = list(map(LabelProbabilities, probabilities))
    task = tasks.make("multilabel", metric="average_precision:spam").fit(examples)
    of_spam = probabilities[:, task.labels.index("spam")]
    expected = sklearn.metrics.average_precision_score(truth == "spam", of_spam)
    scores = task.metrics(examples, found)
    assert list(scores) == ["average_precision:spam", "micro_f1", "macro_f1", "exact_match"]
    assert scores[task.main_metric] == pytest.approx(expected)


def test_without_both_answers_a_ranking_is_that_of_chance(scored):
    examples, found, truth, *_ = scored
    of_one = [n for n, label in enumerate(truth) if label == "ham"]
    for metric, chance in (("auroc", 0.5), ("average_precision", 0.0)):
        task = _task(metric)
        scores = task.metrics([examples[n] for n in of_one], [found[n] for n in of_one])
        assert scores[metric] == chance


@pytest.mark.parametrize("metric", ["f2", "f1:eggs", "accuracy:spam", "micro_f1", "f1", ""])
def test_an_unknown_metric_is_refused_with_those_that_exist(scored, metric):
    if not metric:
        assert _task(metric).fit(scored[0]).main_metric == "accuracy"
        return
    with pytest.raises(
        InputError, match=rf"classification: --metric={metric}: give .*balanced_accuracy.*f1:"
    ):
        _task(metric).fit(scored[0])


def test_tasks_without_labels_have_no_choice():
    for kind in ("regression", "tagging", "squad1"):
        with pytest.raises(InputError, match=f"--metric does not apply to the task {kind}"):
            tasks.make(kind, metric="accuracy")


def test_accuracy_of_rare_labels_is_warned_of(caplog):
    examples = [
        TextExample(str(n), "f: row 1", "t", None, "rare" if n == 0 else "usual") for n in range(10)
    ]
    tasks.make("classification").fit(examples)
    assert "90 % of the examples are 'usual'" in caplog.text and "--metric=macro_f1" in caplog.text
    caplog.clear()
    tasks.make("classification", metric="macro_f1").fit(examples)
    assert not caplog.text
