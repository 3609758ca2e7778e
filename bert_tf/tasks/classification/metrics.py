"""Metrics of labels that the user may choose, such as macro_f1 or recall:spam."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import sklearn.metrics

from bert_tf.tasks.labels import LabelTask
from pipelines.common.errors import InputError
from pipelines.common.texts import listed

_OF_LABEL = ("f1", "precision", "recall")
_RANKINGS: dict[str, Any] = {
    "auroc": sklearn.metrics.roc_auc_score,
    "average_precision": sklearn.metrics.average_precision_score,
}
_CHANCE = {"auroc": 0.5, "average_precision": 0.0}


def check(task: str, name: str, known: Sequence[str], labels: Sequence[str]) -> None:
    """Raises InputError unless a metric of a task is one of these, or of the labels."""
    kind, _, label = name.partition(":")
    if name in (*known, *_RANKINGS) or (kind in (*_OF_LABEL, *_RANKINGS) and label in labels):
        return
    of_label = f"{', '.join((*_OF_LABEL, *_RANKINGS))} with a label, such as f1:{labels[-1]}"
    where = f" The labels are {listed(list(labels), 20)}." if label else ""
    raise InputError(
        f"{task}: --metric={name}: give {', '.join((*known, *_RANKINGS))}; or {of_label}.{where}"
    )


def score(name: str, task: LabelTask, examples: Sequence[Any], predictions: Sequence[Any]) -> float:
    """A metric of a label, or of how probabilities rank examples.

    Without a label, `auroc` and `average_precision` are means over the labels that some examples
    have and others lack. Where there is none, they are those of chance, 0.5 and 0.
    """
    kind, _, label = name.partition(":")
    if kind in _OF_LABEL:
        scores: Any = task.by_label(examples, predictions)[label]
        return float(scores[kind])
    probabilities = np.stack([prediction.probabilities for prediction in predictions])
    found = []
    for number, each in enumerate(task.labels):
        truth = np.array([each in task.given(example) for example in examples])
        if label in ("", each) and 0 < truth.sum() < len(truth):
            found.append(_RANKINGS[kind](truth, probabilities[:, number]))
    return float(np.mean(found)) if found else _CHANCE[kind]
