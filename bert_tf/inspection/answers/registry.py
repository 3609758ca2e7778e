"""Answers by the shape of the task."""

from collections.abc import Callable, Sequence
from typing import Any

from bert_tf.inspection.answers import choice, span, tagging, texts
from bert_tf.inspection.answers.base import Answer, Logits
from bert_tf.tasks import Task
from pipelines.tokenizers.base import Tokenizer

_SHAPES: dict[str, Callable[[Any, Sequence[str], Tokenizer, Logits], Answer]] = {
    "classification": texts.answer,
    "regression": texts.answer,
    "tagging": tagging.answer,
    "span": span.answer,
    "choice": choice.answer,
}


def answer(task: Task, given: Sequence[str], tokenizer: Tokenizer, logits: Logits) -> Answer:
    """What a task answers.

    Args:
      task: of the model.
      given: the first text, and what stands behind it: the second of a pair, the context of a
        question, the choices.
      tokenizer: of the model.
      logits: of the task's head.

    Raises:
      InputError: the task takes another number of texts.
    """
    return _SHAPES[task.shape](task, given, tokenizer, logits)
