"""Scores over seeds, and what is said of differences."""

import math

import pytest

from bert_tf.experiments import scores
from bert_tf.experiments.scores import SeedScores
from bert_tf.experiments.studies import PERPLEXITY


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
        ((0.80, 0.82, 0.84), (0.70, 0.72, 0.74), "higher"),
        ((0.70, 0.72, 0.74), (0.80, 0.82, 0.84), "lower"),
        ((0.80, 0.82, 0.84), (0.79, 0.81, 0.83), "alike"),
        ((0.80,), (0.10,), "unknown"),
        ((), (0.1, 0.2), "unknown"),
    ],
)
def test_a_difference_within_the_spread_is_none(first, second, verdict):
    assert scores.compare(SeedScores(first), SeedScores(second)) == verdict


def test_twice_the_standard_error_is_the_limit():
    """Two seeds of spread s each: the standard error of the difference is s."""
    near, far = (0.5, 0.5 + math.sqrt(2) * 0.01), 0.01
    for factor, verdict in ((1.9, "alike"), (2.1, "higher")):
        moved = tuple(value + factor * far for value in near)
        assert scores.compare(SeedScores(moved), SeedScores(near)) == verdict


# Of two columns; "b" has one seed, or none, in the last rows.
TABLE = {
    "high": {"a": SeedScores((0.9, 0.91)), "b, features": SeedScores((0.9, 0.91))},
    "low": {"a": SeedScores((0.5, 0.51)), "b, features": SeedScores((0.5, 0.51))},
    "mixed": {"a": SeedScores((0.9, 0.91)), "b, features": SeedScores((0.5, 0.51))},
    "one seed": {"a": SeedScores((0.1,)), "b, features": SeedScores(note="not done")},
}


@pytest.mark.parametrize(
    "comparisons,found",
    [
        ("high > low", "seen here (2 as in the paper)"),
        ("low > high", "not seen here (2 the contrary)"),
        ("high > high", "the scale is too small to tell (2 within the spread)"),
        ("high > mixed", "seen in part (1 as in the paper, 1 within the spread)"),
        ("low > mixed; low > low", "seen in part (3 within the spread, 1 the contrary)"),
        ("features: high > mixed", "seen here (1 as in the paper)"),
        ("high > one seed", "cannot be decided (there are not enough figures or seeds)"),
        ("high = mixed", "seen in part (1 of 2 within the spread)"),
        ("high = high; low = low", "seen here (4 of 4 within the spread)"),
        ("high = low", "not seen here (0 of 2 within the spread)"),
        ("features: mixed = low", "seen here (1 of 1 within the spread)"),
        ("high = one seed", "cannot be decided (there are not enough figures or seeds)"),
    ],
)
def test_what_is_seen_of_a_claim(comparisons, found):
    assert scores.check("It helps", comparisons, TABLE).sentence == f"It helps: {found}."


@pytest.mark.parametrize(
    "values,found",
    [
        ((60.0, 50.0, 40.0), "seen here (50.0 and 60.0, 40.0 and 50.0; one run each)"),
        ((60.0, 50.0, 55.0), "seen in part (50.0 and 60.0, 55.0 and 50.0; one run each)"),
        ((60.0, 65.0, 70.0), "not seen here (65.0 and 60.0, 70.0 and 65.0; one run each)"),
        ((60.0, None, 70.0), "cannot be decided (not all models are trained)"),
    ],
)
def test_perplexities_are_compared_without_a_spread(values, found):
    table = {
        label: {PERPLEXITY: SeedScores(() if value is None else (value,)), "a": SeedScores((1, 2))}
        for label, value in zip("abc", values, strict=True)
    }
    assert scores.check("It falls", "b < a; c < b", table).sentence == f"It falls: {found}."
    # Where more is better, perplexities do not count.
    assert scores.check("It helps", "b > a", table).verdicts == ("alike",)
