"""Steps that fit a time: decided when most of it is over, kept, and left alone from then on."""

import json
from types import SimpleNamespace

import tensorflow as tf

from bert_tf.pretraining.schedule import ENDING, TimeBudget
from bert_tf.training.schedules import WarmupHoldDecay
from bert_tf.training.settings import MAX_STEPS


def _budget(folder, start=0):
    schedule = WarmupHoldDecay(1.0, 10)
    session = SimpleNamespace(
        schedule=schedule, strategy=tf.distribute.get_strategy(), is_chief=True
    )
    return schedule, TimeBudget(2.0, None, session, str(folder), start)


def _history(spent, step_seconds, points=3):
    """A history of so many seconds."""
    return SimpleNamespace(
        points=[None] * points, rate=32 / step_seconds, training_seconds=lambda batch_size: spent
    )


def test_the_end_is_set_when_most_of_the_time_is_over(tmp_path):
    schedule, budget = _budget(tmp_path)
    budget.note(500, _history(83.0, 0.1), 32)
    assert schedule.total_steps == MAX_STEPS and not list(tmp_path.iterdir())
    budget.note(520, _history(85.0, 0.1, points=2), 32)
    assert schedule.total_steps == MAX_STEPS
    budget.note(520, _history(85.0, 0.1), 32)
    # 35 seconds are left, for 350 steps.
    assert (schedule.total_steps, schedule.decay_steps) == (870, 350)
    budget.note(600, _history(100.0, 0.5), 32)
    assert schedule.total_steps == 870
    assert json.loads((tmp_path / ENDING).read_text()) == {"total_steps": 870, "decay_steps": 350}


def test_a_run_that_goes_on_has_the_end_that_was_set(tmp_path):
    _, budget = _budget(tmp_path)
    budget.note(520, _history(85.0, 0.1), 32)
    schedule, budget = _budget(tmp_path, start=500)
    assert (schedule.total_steps, schedule.decay_steps) == (870, 350)
    budget.note(520, _history(119.0, 0.1), 32)
    assert schedule.total_steps == 870


def test_one_that_begins_anew_has_an_end_of_its_own(tmp_path, caplog):
    _, budget = _budget(tmp_path)
    budget.note(520, _history(85.0, 0.1), 32)
    _budget(tmp_path)  # and is stopped before it has one
    schedule, budget = _budget(tmp_path, start=10)
    assert schedule.total_steps == MAX_STEPS
    caplog.set_level("WARNING", logger="absl")
    budget.note(10, _history(200.0, 20.0), 32)  # later than all of the time
    assert (schedule.total_steps, schedule.decay_steps) == (11, 1)
    assert "10 steps took longer than --minutes" in caplog.text


def test_a_warm_up_that_is_too_long_is_told(tmp_path, caplog):
    caplog.set_level("WARNING", logger="absl")
    _, budget = _budget(tmp_path)
    budget.note(9, _history(200.0, 20.0), 32)
    assert "the warm-up of 10 steps is not over; --warmup_steps=0" in caplog.text
