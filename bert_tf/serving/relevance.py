"""What a model of pairs or of choices says of how relevant texts are for a query."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.export import saved_model

_PAIRS, _CHOICES = ["text_a", "text_b"], ["context", "choices"]  # inputs of signatures


def inputs(names: Sequence[str], query: str, texts: Sequence[str]) -> dict[str, Any]:
    """The inputs of a signature with these names."""
    if list(names) == _CHOICES:
        return {"context": [query], "choices": [texts]}
    return {"text_a": [query] * len(texts), "text_b": texts}


def scores(outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Relevance [texts]: the score, or the probability of the second label or of the choice."""
    if "choice" in outputs:
        return outputs["probabilities"][0]
    return outputs["score"] if "score" in outputs else outputs["probabilities"][:, 1]


def signature(manifest: saved_model.Manifest) -> str | None:
    """The signature of an export that ranks texts; None: there is none."""
    tasks = saved_model.tasks_of(manifest)
    for name, described in manifest["signatures"].items():
        if list(described["inputs"]) in (_PAIRS, _CHOICES) and ranks(tasks.get(name)):
            return name
    return None


def ranks(task: Mapping[str, Any] | None) -> bool:
    """Whether the answers of a task, given by its description, have an order."""
    if not task:
        return False
    two_labels = task["shape"] == "classification" and len(task["labels"]) == 2
    return task["shape"] in ("regression", "choice") or two_labels
