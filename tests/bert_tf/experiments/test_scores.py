"""Scores over seeds, and what is said of differences."""

import math

import pytest

from bert_tf.experiments import scores
from bert_tf.experiments.scores import SeedScores, Verdict


def test_a_score_has_mean_spread_and_count():
    score = SeedScores((0.80, 0.82, 0.84))
    assert score.mean == pytest.approx(0.82) and score.spread == pytest.approx(0.02)
    assert score.text() == "82.0 ± 2.0 (3)"
    assert score.text(percent=False) == "0.82 ± 0.02 (3)"
    assert SeedScores((0.5,)).text() == "50.0 (1)" and math.isnan(SeedScores((0.5,)).spread)
    assert SeedScores(note="not done").text() == "not done" and math.isnan(SeedScores().mean)
    assert SeedScores((0.5, 0.5), "1 diverged").text() == "50.0 ± 0.0 (2) 1 diverged"


@pytest.mark.parametrize(
    "first,second,verdict",
    [
        ((0.80, 0.82, 0.84), (0.70, 0.72, 0.74), Verdict.HIGHER),
        ((0.70, 0.72, 0.74), (0.80, 0.82, 0.84), Verdict.LOWER),
        ((0.80, 0.82, 0.84), (0.79, 0.81, 0.83), Verdict.NONE),
        ((0.80,), (0.10,), Verdict.UNKNOWN),
        ((), (0.1, 0.2), Verdict.UNKNOWN),
    ],
)
def test_a_difference_within_the_spread_is_none(first, second, verdict):
    assert scores.compare(SeedScores(first), SeedScores(second)) is verdict


def test_twice_the_standard_error_is_the_limit():
    """Two seeds of spread s each: the standard error of the difference is s."""
    near, far = (0.5, 0.5 + math.sqrt(2) * 0.01), 0.01
    for factor, verdict in ((1.9, Verdict.NONE), (2.1, Verdict.HIGHER)):
        moved = tuple(value + factor * far for value in near)
        assert scores.compare(SeedScores(moved), SeedScores(near)) is verdict


HIGH, LOW, NEAR = SeedScores((0.9, 0.91)), SeedScores((0.5, 0.51)), SeedScores((0.9, 0.91))


@pytest.mark.parametrize(
    "pairs,sentence",
    [
        ([(HIGH, LOW)] * 2, "It helps: seen here (2 as in the paper)."),
        ([(LOW, HIGH)], "It helps: not seen here (1 the contrary)."),
        ([(HIGH, NEAR)], "It helps: the scale is too small to tell (1 within the spread)."),
        (
            [(HIGH, LOW), (HIGH, NEAR)],
            "It helps: seen in part (1 as in the paper, 1 within the spread).",
        ),
        ([], "It helps: cannot be decided, as there are not enough figures or seeds."),
        (
            [(SeedScores((1.0,)), SeedScores((0.0,)))],
            "It helps: cannot be decided, as there are not enough figures or seeds.",
        ),
    ],
)
def test_what_is_said_of_a_claim(pairs, sentence):
    assert scores.finding("It helps", pairs).sentence == sentence


def test_what_is_said_of_likeness():
    alike = scores.no_worse("All are alike", [(HIGH, NEAR), (HIGH, LOW)])
    assert alike.sentence == "All are alike: seen in part (1 of 2 within the spread)."
    assert scores.no_worse("All are alike", [(HIGH, NEAR)]).sentence == (
        "All are alike: seen here (1 of 1 within the spread)."
    )
