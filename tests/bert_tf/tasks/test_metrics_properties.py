"""Metrics against plain counts."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_tf import tasks
from bert_tf.tasks.classification.task import ClassPrediction
from bert_tf.tasks.span import squad_metrics
from bert_tf.tasks.tagging.task import TagsPrediction
from pipelines.labelled.schema import AnswerSpan, SpanExample, TextExample, WordsExample

_PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30)
_TAGS = ("O", "B-A", "I-A", "B-B", "I-B")
_ANSWERS = st.lists(st.sampled_from("the a an cat Cat. sat, Black! - é".split()), max_size=5)


@given(_PAIRS)
def test_two_classes(pairs):
    counts = {pair: pairs.count(pair) for pair in [(a, b) for a in (0, 1) for b in (0, 1)]}
    right, missed, wrong, none = (counts[p] for p in [(1, 1), (1, 0), (0, 1), (0, 0)])
    examples = [TextExample(str(i), "x", "a", "b", str(int(t))) for i, (t, _) in enumerate(pairs)]
    guesses = [ClassPrediction(str(int(g)), np.array([0.5, 0.5])) for _, g in pairs]
    found = tasks.make("mrpc").metrics(examples, guesses)
    assert found["accuracy"] == pytest.approx((right + none) / len(pairs))
    assert found["f1"] == pytest.approx(2 * right / max(2 * right + missed + wrong, 1))
    root = math.sqrt((right + wrong) * (right + missed) * (none + wrong) * (none + missed))
    matthews = (right * none - wrong * missed) / root if root else 0.0
    assert tasks.make("cola").metrics(examples, guesses)["matthews"] == pytest.approx(matthews)


def _entities(tags):
    """Entities as conlleval counts them: (kind, first, last)."""
    found, start = [], None
    for place, tag in enumerate([*tags, "O"]):
        kind = found[-1][0] if start is not None else None
        if start is not None and (tag == "O" or tag[0] == "B" or tag[2:] != kind):
            found[-1] = (kind, start, place - 1)
            start = None
        if start is None and tag != "O":
            found.append((tag[2:], place, None))
            start = place
    return set(found)


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(_TAGS), st.sampled_from(_TAGS)), min_size=1, max_size=9),
        min_size=1,
        max_size=5,
    )
)
def test_entities(sentences):
    task = dataclasses.replace(tasks.make("ner"), labels=_TAGS)
    examples, guesses, true, given_, both, words, right = [], [], 0, 0, 0, 0, 0
    for number, sentence in enumerate(sentences):
        truth, tags = zip(*sentence, strict=True)
        examples.append(WordsExample(str(number), "x", tuple("w" * len(truth)), truth))
        guesses.append(TagsPrediction(tags, np.ones(len(tags))))
        wanted, found = _entities(truth), _entities(tags)
        true, given_, both = true + len(wanted), given_ + len(found), both + len(wanted & found)
        words, right = words + len(truth), right + sum(a == b for a, b in sentence)
    scores = task.metrics(examples, guesses)
    assert scores["accuracy"] == pytest.approx(right / words)
    assert scores["precision"] == pytest.approx(both / given_ if given_ else 0)
    assert scores["recall"] == pytest.approx(both / true if true else 0)
    assert scores["f1"] == pytest.approx(2 * both / (true + given_) if both else 0)


@given(_ANSWERS, _ANSWERS)
def test_answers(gold, answer):
    """Signs and articles do not count, nor case; F1 is the same both ways round."""
    a, b = " ".join(gold), "  ".join(answer)
    plain = [
        [
            w.strip(".,!-").lower()
            for w in words
            if w.strip(".,!-").lower() not in ("", "a", "an", "the")
        ]
        for words in (gold, answer)
    ]
    left = list(plain[1])
    common = sum(word in left and not left.remove(word) for word in plain[0])
    total = sum(map(len, plain))
    assert squad_metrics.normalize(a) == " ".join(plain[0])
    assert squad_metrics.exact(a, b) == float(plain[0] == plain[1])
    assert squad_metrics.f1(a, b, False) == pytest.approx(2 * common / total if total else 0)
    assert squad_metrics.f1(a, b, False) == pytest.approx(squad_metrics.f1(b, a, False))
    assert squad_metrics.f1(a, b, True) == pytest.approx(2 * common / total if total else 1)


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["cat", "dog", "cat sat"]), st.integers(-3, 3)),
        min_size=1,
        max_size=12,
    )
)
def test_no_threshold_is_better(questions):
    golds = [(AnswerSpan("cat", 0),) if has else () for has, _, _ in questions]
    examples = [SpanExample(str(i), "x", "q", "cat sat", g) for i, g in enumerate(golds)]
    answers = {str(i): text for i, (_, text, _) in enumerate(questions)}
    odds = {str(i): float(value) for i, (_, _, value) in enumerate(questions)}

    def total(threshold):
        final = {key: "" if odds[key] > threshold else answers[key] for key in answers}
        return squad_metrics.score(examples, final, allow_null=True)["f1"]

    chosen = squad_metrics.best_threshold(examples, answers, odds)
    every = [-4.0, *(value + half for value in odds.values() for half in (-0.5, 0.5))]
    assert total(chosen) == pytest.approx(max(map(total, every)))
