"""Inspection of classification and regression: labels and scores of texts and of pairs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf.tasks import inspection
from bert_tf.tasks.classification.multilabel import MultiLabel
from bert_tf.tasks.classification.regression import Regression
from bert_tf.tasks.classification.task import Classification
from bert_tf.tasks.inspection import PLACE, AnswerRow, InspectedAnswer, Reader, Target
from pipelines.labelled.schema import MultiLabelExample, TextExample

_MAX_TARGETS = 6  # labels whose scores are explained


def inspect(
    task: Classification | MultiLabel | Regression, texts: Sequence[str], reader: Reader
) -> InspectedAnswer:
    """The label with the probabilities of all labels, or the score.

    Raises:
      InputError: there are more or fewer texts than the task takes.
    """
    pair = len(texts) > 1 if task.pair is None else task.pair
    inspection.check_count(task, texts, 2 if pair else 1)
    example: Any = TextExample("", PLACE, *texts)
    if isinstance(task, MultiLabel):
        example = MultiLabelExample("", PLACE, example.text_a, example.text_b)
    reading = reader.read(task, example)
    sequence = reading.sequences[0]
    logits = [np.mean(reading.logits, 0)]
    notes = inspection.window_notes(len(reading.sequences))
    notes = notes or inspection.cut_notes(task.max_seq_length, sequence)
    if task.head.both_orders:
        notes = ("The answer is of both orders of the texts; this is one of them.", *notes)
    if isinstance(task, Regression):
        (scores,) = task.predict([example], reading.features, logits)
        answer = ", ".join(f"{score:.3f}" for score in np.atleast_1d(scores))
        targets = tuple(_target(task, number) for number in range(task.units))
        return InspectedAnswer(
            sequence, tuple(texts), answer, (), targets, "the score", notes=notes
        )
    predictions: Any = task.predict([example], reading.features, logits)
    (found,) = predictions
    (answer,) = task.answers(found)
    order = np.argsort(-found.probabilities, kind="stable").tolist()
    return InspectedAnswer(
        sequence,
        tuple(texts),
        answer,
        tuple(AnswerRow(name=task.labels[n], share=float(found.probabilities[n])) for n in order),
        tuple(_target(task, n) for n in order[:_MAX_TARGETS]),
        "the log odds of the label, in nats",
        notes=notes,
    )


def _target(task: Classification | MultiLabel | Regression, number: int) -> Target:
    if isinstance(task, Classification):
        return Target(task.labels[number], lambda logits: inspection.log_odds(logits, number))
    name = task.labels[number] if task.labels else "score"
    if isinstance(task, Regression):
        return Target(name, lambda logits: task.scores(logits)[:, number])
    return Target(name, lambda logits: logits[:, number])
