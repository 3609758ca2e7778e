"""Multiple choice: the best of several continuations of a text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_tf.tasks.shape import TaskShape, TransformersHead

if TYPE_CHECKING:
    from bert_tf.tasks.choice.task import Choice


def _load() -> Sequence["Choice"]:
    from bert_tf.tasks.choice.task import TASKS

    return TASKS


SHAPE = TaskShape(
    "choice",
    ("swag", "choice"),
    _load,
    TransformersHead("MultipleChoice", labels=False),
    outputs={
        "choice": "the index of the best choice, from 0",
        "probabilities": "of all choices, in their order",
        "logits": "what the probabilities are the softmax of",
    },
    samples={
        "choice": {
            "context": "It had rained all night, and nobody had closed the roof window.",
            "choices": [
                "In the morning the attic was wet.",
                "In the morning the desert was dry.",
                "So the piano was tuned on Sundays.",
            ],
        }
    },
    package=__name__,
)
