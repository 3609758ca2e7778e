"""Scores of answers as SQuAD's official scripts count them (versions 1.1 and 2.0)."""

import collections
import re
import string
from collections.abc import Mapping, Sequence

import numpy as np

from pipelines.labelled.schema import SpanExample

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower case, without punctuation, articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(gold: str, answer: str) -> float:
    """1 if two answers are the same after normalization."""
    return float(normalize(gold) == normalize(answer))


def f1(gold: str, answer: str, allow_null: bool) -> float:
    """The harmonic mean of precision and recall of words.

    Two empty answers are the same in version 2.0, and have no word in common in 1.1.
    """
    wanted, given = normalize(gold).split(), normalize(answer).split()
    if allow_null and not wanted and not given:
        return 1.0
    common = sum((collections.Counter(wanted) & collections.Counter(given)).values())
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def gold_answers(example: SpanExample, allow_null: bool) -> list[str]:
    """The answers that count: in version 1.1 all.

    In version 2.0 those that are not empty after normalization, or one empty answer.
    """
    golds = [answer.text for answer in example.answers or ()]
    return [gold for gold in golds if normalize(gold)] or [""] if allow_null else golds


def score_one(example: SpanExample, answer: str, allow_null: bool) -> tuple[float, float]:
    """Exact match and F1 of an answer, each the best over the gold answers; 0 without any."""
    golds = gold_answers(example, allow_null)
    return (
        max((exact(gold, answer) for gold in golds), default=0.0),
        max((f1(gold, answer, allow_null) for gold in golds), default=0.0),
    )


def score(
    examples: Sequence[SpanExample], answers: Mapping[str, str], allow_null: bool
) -> dict[str, float]:
    """Mean exact match and F1; in version 2.0 also of questions with and without an answer.

    Args:
      examples: the questions.
      answers: answers by key; "" means no answer. A question that is not in it scores 0.
      allow_null: whether to use the rules of version 2.0 instead of 1.1.
    """
    missing = (0.0, 0.0)
    scores = np.array(
        [
            score_one(e, answers[e.key], allow_null) if e.key in answers else missing
            for e in examples
        ]
    )
    has = np.array([bool(example.answers) for example in examples])
    parts = {"": np.ones_like(has)}
    if allow_null and not has.all():
        parts |= {"answerable_": has, "unanswerable_": ~has}
    result = {}
    for name, mask in parts.items():
        if mask.any():
            result[f"{name}f1"] = float(scores[mask, 1].mean())
            result[f"{name}exact"] = float(scores[mask, 0].mean())
    return result


def best_threshold(
    examples: Sequence[SpanExample], answers: Mapping[str, str], odds: Mapping[str, float]
) -> float:
    """The null odds above which to give no answer, for the highest F1 of version 2.0.

    Args:
      examples: the questions.
      answers: best non-empty answers by key.
      odds: scores of no answer minus those of the best answers, by key.
    """
    gains = []
    for example in examples:
        _, answered = score_one(example, answers[example.key], allow_null=True)
        _, silent = score_one(example, "", allow_null=True)
        gains.append(answered - silent)
    values = np.array([odds[example.key] for example in examples])
    order = np.argsort(values, kind="stable")
    values = values[order]
    totals = np.concatenate([[0.0], np.cumsum(np.array(gains)[order])])
    # No threshold parts questions of the same odds.
    parted = np.concatenate([[True], values[:-1] < values[1:], [True]])
    best = int(np.where(parted, totals, -np.inf).argmax())
    if best in (0, len(values)):
        return float(values[0]) - 1.0 if best == 0 else float(values[-1]) + 1.0
    # Half way between the last one answered and the next, so that rounding decides nothing.
    return float(values[best - 1] + values[best]) / 2
