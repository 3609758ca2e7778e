"""What a model of pairs or of choices says of how relevant texts are for a query."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.export import saved_model
from bert_tf.tasks import signatures

_PAIRS, _CHOICES = ["text_a", "text_b"], ["context", "choices"]  # inputs of signatures


def inputs(names: Sequence[str], query: str, texts: Sequence[str]) -> dict[str, Any]:
    """The inputs of a signature with these names."""
    if list(names) == _CHOICES:
        return {"context": [query], "choices": [[text or signatures.EMPTY_TEXT for text in texts]]}
    return {"text_a": [query] * len(texts), "text_b": texts}


def scores(outputs: Mapping[str, np.ndarray], task: Mapping[str, Any]) -> np.ndarray:
    """Relevance [texts]: the probability of the relevant label or of the choice, or the score.

    A score whose task states no `activation` passes a sigmoid, as in sentence-transformers, in
    float64, in which sigmoids of large scores still differ; others have passed theirs.
    """
    if "choice" in outputs:
        return outputs["probabilities"][0]
    if "score" not in outputs:
        return outputs["probabilities"][:, label(task)]
    found = outputs["score"].astype(np.float64)
    return found if "activation" in task else signatures.sigmoid(found)


def label(task: Mapping[str, Any]) -> int:
    """Which of two labels means that texts belong together.

    The first, if it is "entailment" or "follows", or if the second one negates it ("duplicate" and
    "not_duplicate", "relevant" and "irrelevant"); or else the second.
    """
    first, second = task["labels"]
    negated = second.endswith(first) and not first.isdigit()
    return 0 if first in ("entailment", "follows") or negated else 1


def signature(manifest: saved_model.Manifest) -> str | None:
    """The signature that ranks texts, preferably one of choices; None: there is none.

    The one that a model has from pre-training, which tells next sentences, comes last.
    """
    tasks = saved_model.tasks_of(manifest)
    found = {
        name: list(described["inputs"])
        for name, described in manifest["signatures"].items()
        if list(described["inputs"]) in (_PAIRS, _CHOICES) and ranks(tasks.get(name))
    }
    last = "next_sentence"
    return min(found, key=lambda name: (found[name] != _CHOICES, name == last), default=None)


def ranks(task: Mapping[str, Any] | None) -> bool:
    """Whether the answers of a task, given by its description, have an order."""
    if not task:
        return False
    labels = {"classification": 2, "regression": 0, "choice": 0}.get(task["shape"])
    return labels == len(task["labels"])
