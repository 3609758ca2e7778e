"""Inspection of multiple choice: the best of several continuations of a text."""

from collections.abc import Sequence

import numpy as np

from bert_tf.tasks import inspection
from bert_tf.tasks.choice.task import Choice
from bert_tf.tasks.inspection import PLACE, AnswerRow, InspectedAnswer, Reader, Target, cut_notes
from pipelines.common.errors import InputError
from pipelines.labelled.schema import ChoiceExample


def inspect(task: Choice, texts: Sequence[str], reader: Reader) -> InspectedAnswer:
    """The best choice, and its sequence.

    Raises:
      InputError: there are fewer than two choices.
    """
    context, *others = texts
    if len(others) < 2:
        raise InputError(
            f"the task {task.name} chooses among texts; give two or more, each with --second=."
        )
    choices = tuple(map(str.strip, others))
    example = ChoiceExample("", PLACE, context, choices)
    reading = reader.read(task, example)
    windows = len(reading.sequences) // len(choices)  # of each choice
    scores = np.concatenate(reading.logits).reshape(len(choices), windows).mean(1)
    (found,) = task.predict([example], reading.features, [scores])
    best = choices[found.choice]
    sequence = reading.sequences[found.choice * windows]
    order = np.argsort(-found.probabilities, kind="stable").tolist()
    return InspectedAnswer(
        sequence,
        (context, best),
        best,
        tuple(AnswerRow(name=choices[n], share=float(found.probabilities[n])) for n in order),
        (Target(best, lambda logits: logits[:, 0]),),
        "the score of the choice, a logit",
        notes=inspection.window_notes(windows) or cut_notes(task.max_seq_length, sequence),
    )
