"""Inspection of question answering: the span of a context that answers a question."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.special

from bert_tf.tasks import inspection
from bert_tf.tasks.inspection import PLACE, AnswerRow, InspectedAnswer, Reader, Reading, Target
from bert_tf.tasks.span.decoding import Candidate, SpanPrediction
from bert_tf.tasks.span.task import SpanTask
from pipelines.labelled.schema import SpanExample

_MAX_ROWS = 8  # candidates that are shown
_NO_ANSWER = "no answer"


class _Place(NamedTuple):
    """A window, and the first and the last position of an answer in it."""

    window: int
    first: int
    last: int


def inspect(task: SpanTask, texts: Sequence[str], reader: Reader) -> InspectedAnswer:
    """The answer, and the window of the context that it was found in.

    Raises:
      InputError: there are not two texts, a question and a context.
    """
    inspection.check_count(task, texts, 2)
    question, context = texts
    example = SpanExample("", PLACE, question, context)
    reading = reader.read(task, example)
    (found,) = task.predict([example], reading.features, reading.logits)
    answer = task.answer(found)
    if answer:
        place = _place_of(found.candidates[0], reading)
    else:  # the score of [CLS] as start and end, in the window where it is lowest
        place = _Place(int(np.argmin([rows[0].sum() for rows in reading.logits])), 0, 0)
    text = answer or _NO_ANSWER
    windows, number = len(reading.sequences), place.window + 1
    notes = (f"The context has {windows} windows; number {number} is shown.",)
    return InspectedAnswer(
        reading.sequences[place.window],
        tuple(texts),
        text,
        _rows(task, found),
        (Target(text, lambda logits: logits[:, place.first, 0] + logits[:, place.last, 1]),),
        "the sum of the logits of its start and its end",
        span=(place.first, place.last) if answer else None,
        notes=notes if windows > 1 else (),
    )


def _rows(task: SpanTask, prediction: SpanPrediction) -> tuple[AnswerRow, ...]:
    """The best answers and their probabilities; "no answer" is among them if it is allowed."""
    names = [candidate.text for candidate in prediction.candidates]
    scores = [candidate.score for candidate in prediction.candidates]
    if task.allow_null or not names:
        names.append(_NO_ANSWER)
        scores.append(prediction.null_score)
    shares = scipy.special.softmax(np.array(scores, np.float64))
    order = np.argsort(-shares, kind="stable")[:_MAX_ROWS]
    return tuple(AnswerRow(name=names[n], share=float(shares[n])) for n in order)


def _place_of(candidate: Candidate, reading: Reading) -> _Place:
    """The place where the bytes of a candidate have the highest score, as decoding finds it."""
    found = []
    for window, logits in enumerate(reading.logits):
        starts, ends, best, offset = (
            reading.features[name].row(window) for name in ("starts", "ends", "best", "offset")
        )
        firsts = np.flatnonzero((starts == candidate.start) & (best > 0)) + offset
        lasts = np.flatnonzero(ends == candidate.end) + offset
        found += [
            (float(logits[first, 0] + logits[last, 1]), _Place(window, first, last))
            for first in firsts.tolist()
            for last in lasts.tolist()
            if first <= last
        ]
    return max(found, key=lambda item: item[0])[1]
