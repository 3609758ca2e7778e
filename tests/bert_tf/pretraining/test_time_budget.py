"""Steps that fit a time: decided at half of it, kept, and left alone from then on."""

import json

import tensorflow as tf

from bert_tf.pretraining.time_budget import ENDING, TimeBudget
from bert_tf.training.schedules import WarmupHoldDecay
from bert_tf.training.settings import MOST_STEPS


def _budget(folder, start=0):
    schedule = WarmupHoldDecay(1.0, 10)
    strategy = tf.distribute.get_strategy()
    return schedule, TimeBudget(2.0, schedule, str(folder), start, strategy, write=True)


def test_the_end_is_set_at_half_of_the_time(tmp_path):
    schedule, budget = _budget(tmp_path)
    budget.note(500, 59.0, 0.1)
    assert schedule.total_steps == MOST_STEPS and not list(tmp_path.iterdir())
    budget.note(520, 61.0, 0.1)
    # 59 seconds are left, for 590 steps.
    assert (schedule.total_steps, schedule.decay_steps) == (1110, 590)
    budget.note(600, 100.0, 0.5)
    assert schedule.total_steps == 1110
    assert json.loads((tmp_path / ENDING).read_text()) == {"total_steps": 1110, "decay_steps": 590}


def test_a_run_that_goes_on_has_the_end_that_was_set(tmp_path):
    _, budget = _budget(tmp_path)
    budget.note(520, 61.0, 0.1)
    schedule, budget = _budget(tmp_path, start=500)
    assert (schedule.total_steps, schedule.decay_steps) == (1110, 590)
    budget.note(520, 119.0, 0.1)
    assert schedule.total_steps == 1110


def test_one_that_begins_anew_has_an_end_of_its_own(tmp_path):
    _, budget = _budget(tmp_path)
    budget.note(520, 61.0, 0.1)
    schedule, budget = _budget(tmp_path)
    assert schedule.total_steps == MOST_STEPS
    budget.note(10, 200.0, 20.0)  # later than all of the time
    assert (schedule.total_steps, schedule.decay_steps) == (11, 1)
