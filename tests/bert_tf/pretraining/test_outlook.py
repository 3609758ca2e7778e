"""What a run says of what it has learned, and of what more time would bring."""

import math

import numpy as np
import pytest

from bert_tf.pretraining import report as reports
from bert_tf.training.progress import Point

REPORT = {
    "masked_lm_accuracy": 0.301,
    "unigram_accuracy": 0.069,
    "bigram_accuracy": 0.159,
    "next_sentence_accuracy": 0.804,
    "next_sentence_majority": 0.524,
    "expected_gain": 0.046,
}


def _points(accuracy, decay_from=1000):
    """Points of 2,000 steps at 100 a second, whose rate falls from a step on."""
    return [
        Point(step, {"masked_lm_accuracy": accuracy(step)}, 1e-3 if step <= decay_from else 1e-4,
              3200.0, step / 100)
        for step in range(20, 2001, 20)
    ]  # fmt: skip


def test_the_gain_goes_by_the_curve_before_the_rate_falls():
    points = _points(lambda step: 0.05 * math.log(step) + (0.3 if step > 1000 else 0))
    gain = reports.expected_gain(points, seconds=20)
    assert gain == pytest.approx(0.05 * math.log(620 / 20))
    falling = _points(lambda step: 0.5 - 0.01 * math.log(step))
    assert reports.expected_gain(falling, 20) == 0


@pytest.mark.parametrize("points", [[], _points(lambda step: 0.1, decay_from=60)])
def test_a_short_curve_tells_nothing(points):
    assert math.isnan(reports.expected_gain(points, 20))


def test_other_objectives_have_no_such_curve():
    points = [Point(step, {"loss": 1.0}, 1e-3, 1.0, 1.0) for step in range(1, 40)]
    assert math.isnan(reports.expected_gain(points, 20))


def test_a_report_says_what_was_learned():
    better, more, pairs = reports.sentences(REPORT)
    assert better.startswith("Better than guessing: the model is right for 30.1%") and (
        "right for 15.9%" in better
    )
    assert "10 minutes more would bring about 35%" in more
    assert "in 80.4% of the cases (52.4% by" in pairs


def test_a_model_that_has_learned_nothing_is_told():
    told = reports.sentences(REPORT | {"masked_lm_accuracy": 0.165, "expected_gain": None})
    assert told[0].startswith("Not better than guessing yet") and "MINUTES=" in told[0]
    assert len(told) == 2


@pytest.mark.parametrize("missing", ["masked_lm_accuracy", "bigram_accuracy"])
def test_nothing_is_said_of_what_was_not_scored(missing):
    report = dict.fromkeys(REPORT) | {"unigram_accuracy": None} | {missing: None}
    assert reports.sentences(report) == []
    assert np.isnan(reports.expected_gain([], 0))
