"""Classification and regression of texts and pairs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bert_tf.tasks.shape import TaskShape, TransformersHead

if TYPE_CHECKING:
    from bert_tf.tasks.base import Task


def _load_classification() -> Sequence["Task[Any, Any]"]:
    from bert_tf.tasks.classification.task import TASKS

    return TASKS


def _load_regression() -> Sequence["Task[Any, Any]"]:
    from bert_tf.tasks.classification.regression import TASKS

    return TASKS


_REVIEW = {"text": "A warm and funny film, with a cast that never puts a foot wrong."}
_STATEMENTS = {
    "text_a": "The company said on Monday that its profit rose by a tenth.",
    "text_b": "Profit went up ten percent, the company said.",
}
_ENTAILMENT = {
    "text_a": "Three children are building a snowman in the garden behind the school.",
    "text_b": "Some children are outside.",
}
_HEAD = TransformersHead("SequenceClassification")

SHAPES = (
    TaskShape(
        "classification",
        (
            *("cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli", "ax"),
            *("classification", "pair"),
        ),
        _load_classification,
        _HEAD,
        outputs={
            "label": "the most probable label",
            "probabilities": "of all labels, in their order",
            "logits": "what the probabilities are the softmax of",
            "classes": "all labels",
            "scores": "the probability of each class",
        },
        samples={
            "classification": _REVIEW | _STATEMENTS,
            "cola": {"text": "The book that I bought yesterday are on the table."},
            "qqp": {
                "text_a": "How do I learn to swim as an adult?",
                "text_b": "What is the best way for grown-ups to learn swimming?",
            },
            "mnli": _ENTAILMENT,
            "qnli": {
                "text_a": "Who built the lighthouse?",
                "text_b": "The lighthouse was built in 1874 by Maria Torres, who had studied in "
                "Lisbon.",
            },
            "rte": _ENTAILMENT,
            "wnli": {
                "text_a": "The cup did not fit into the box because it was too large.",
                "text_b": "The cup was too large.",
            },
            "ax": _ENTAILMENT,
        },
        meanings={
            "cola": ("not acceptable", "acceptable"),
            "sst2": ("negative", "positive"),
            "mrpc": ("not a paraphrase", "paraphrase"),
            "qqp": ("not a duplicate", "duplicate"),
            "wnli": ("not entailed", "entailed"),
        },
        package=__name__,
    ),
    TaskShape(
        "regression",
        ("stsb", "regression"),
        _load_regression,
        _HEAD,
        outputs={"score": "the predicted score", "outputs": "the predicted score"},
        samples={
            "regression": _REVIEW | _STATEMENTS,
            "stsb": {
                "text_a": "A man is playing a guitar in the street.",
                "text_b": "A street musician plays his guitar.",
            },
        },
        package=__name__,
    ),
)
