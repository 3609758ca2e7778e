"""Question answering: the span of a context that answers a question."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_tf.tasks.shape import TaskShape, TransformersHead

if TYPE_CHECKING:
    from bert_tf.tasks.span.task import SpanTask


def _load() -> Sequence["SpanTask"]:
    from bert_tf.tasks.span.task import TASKS

    return TASKS


SHAPE = TaskShape(
    "span",
    ("squad1", "squad2", "span"),
    _load,
    TransformersHead("QuestionAnswering", "qa_outputs"),
    outputs={
        "answer": "the best answer, empty where there is none",
        "start": "where the answer starts, in bytes",
        "end": "where the answer ends, in bytes",
        "start_character": "`start` in characters",
        "end_character": "`end` in characters",
        "score": "the probability of the answer",
        "no_answer_probability": "the probability that the text has no answer",
        "n_best_answer": "the best answers, the best first",
        "n_best_start": "where they start, in bytes",
        "n_best_end": "where they end, in bytes",
        "n_best_score": "their probabilities",
        "start_logits": "of each token, as the start of the answer",
        "end_logits": "of each token, as the end of the answer",
    },
    samples={
        "span": {
            "question": "Who built the lighthouse?",
            "context": (
                "The lighthouse on the northern cape was built in 1874 by Maria Torres, who had "
                "studied in Lisbon. It guided ships for ninety years, until its lamp went out in "
                "the storm of 1964."
            ),
        }
    },
    package=__name__,
)
