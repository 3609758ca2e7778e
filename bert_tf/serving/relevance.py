"""What a model of pairs says of how relevant a text is for a query."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.export import saved_model

_TEXTS = ["text_a", "text_b"]


def scores(outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Relevance by outputs of a signature: the score, or the probability of the second label."""
    return outputs["score"] if "score" in outputs else outputs["probabilities"][:, 1]


def of_prediction(prediction: Any) -> float:
    """Relevance by a prediction of a task that `ranks`."""
    return prediction if isinstance(prediction, float) else float(prediction.probabilities[1])


def signature(manifest: saved_model.Manifest) -> str | None:
    """The signature of an export that scores pairs of texts; None: there is none."""
    tasks = saved_model.tasks_of(manifest)
    for name, described in manifest["signatures"].items():
        if list(described["inputs"]) == _TEXTS and ranks(tasks.get(name)):
            return name
    return None


def ranks(task: Mapping[str, Any] | None) -> bool:
    """Whether the answers of a task, given by its description, have an order."""
    if not task:
        return False
    two_labels = task["shape"] == "classification" and len(task["labels"]) == 2
    return task["shape"] == "regression" or two_labels
