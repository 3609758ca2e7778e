"""Answers to questions: spans of a context."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.special

from bert_tf.inspection.answers import base
from bert_tf.inspection.answers.base import Answer, Logits, Row, Target
from bert_tf.inspection.sequences import TokenizedTexts, TokenSequence
from bert_tf.tasks.predictions import SpanPrediction
from bert_tf.tasks.span.task import SpanTask
from pipelines.labelled.schema import SpanExample
from pipelines.tokenizers import packing
from pipelines.tokenizers.base import Tokenizer

_SHOWN = 8  # candidates
_NOTHING = "no answer"


class _Place(NamedTuple):
    """A window, and the positions in it that an answer begins and ends at."""

    window: int
    first: int
    last: int


def answer(task: SpanTask, texts: Sequence[str], tokenizer: Tokenizer, logits: Logits) -> Answer:
    """The answer, and the window of the context that it was found in; see `registry.answer`."""
    base.check_count(task, texts, 2)
    question, context = texts
    tokenized = TokenizedTexts(tokenizer, texts)
    first, second = tokenized.numbers
    windows = packing.slide(
        tokenized.rules, first, second, task.max_length, task.stride, task.max_question
    )
    sequences = tokenized.sequences(windows.packed)
    scores = [logits(sequence) for sequence in sequences]
    example = SpanExample("", base.PLACE, question, context)
    (found,) = task.predict([example], task.features([example], tokenizer), scores)
    text = task.answer(found)
    if text:
        best = found.candidates[0]
        place = _place_of(sequences, scores, best.start, best.end)
    else:  # the score of [CLS] as start and end, in the window where that is the lowest
        place = _Place(int(np.argmin([rows[0].sum() for rows in scores])), 0, 0)
    notes = []
    if len(sequences) > 1:
        notes.append(
            f"The context has {len(sequences)} windows; number {place.window + 1} is shown."
        )
    return Answer(
        sequences[place.window],
        tuple(texts),
        text or _NOTHING,
        _rows(task, found),
        (_target(text or _NOTHING, place),),
        "the sum of the logits of its start and its end",
        span=(place.first, place.last) if text else None,
        notes=tuple(notes),
    )


def _target(name: str, place: _Place) -> Target:
    return Target(name, lambda logits: logits[:, place.first, 0] + logits[:, place.last, 1])


def _rows(task: SpanTask, prediction: SpanPrediction) -> tuple[Row, ...]:
    """The best answers with their share of all, no answer among them where there may be none."""
    names = [candidate.text for candidate in prediction.candidates]
    scores = [candidate.score for candidate in prediction.candidates]
    if task.allow_null or not names:
        names.append(_NOTHING)
        scores.append(prediction.null_score)
    shares = scipy.special.softmax(np.array(scores, np.float64))
    order = np.argsort(-shares, kind="stable")[:_SHOWN]
    return tuple(Row(name=names[n], share=float(shares[n])) for n in order)


def _place_of(
    sequences: Sequence[TokenSequence], scores: Sequence[np.ndarray], start: int, end: int
) -> _Place:
    """Where bytes of the context score highest as an answer."""
    found = []
    for window, (sequence, rows) in enumerate(zip(sequences, scores, strict=True)):
        of_context = (sequence.segments == 1) & ~sequence.special
        firsts = np.flatnonzero(of_context & (sequence.starts == start)).tolist()
        lasts = np.flatnonzero(of_context & (sequence.ends == end)).tolist()
        found += [
            (float(rows[first, 0] + rows[last, 1]), _Place(window, first, last))
            for first in firsts
            for last in lasts
            if first <= last
        ]
    return max(found, key=lambda item: item[0])[1]
