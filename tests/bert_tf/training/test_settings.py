"""What makes a run another run."""

import dataclasses

from bert_tf.pretraining.settings import Phase, PretrainingSettings
from bert_tf.training.optimizers import OptimizerName

SETTINGS = PretrainingSettings((Phase("t", 10, 2),))


def test_how_a_run_is_carried_out_is_not_part_of_its_identity():
    other = dataclasses.replace(SETTINGS, steps_per_execution=8, strategy="mirrored")
    assert other.identity() == SETTINGS.identity()
    assert dataclasses.replace(SETTINGS, weight_decay=0.1).identity() != SETTINGS.identity()


def test_runs_that_began_before_there_was_a_choice_of_optimizers_go_on():
    assert "optimizer" not in SETTINGS.identity()
    other = dataclasses.replace(SETTINGS, optimizer=OptimizerName.LAMB)
    assert other.identity()["optimizer"] == "lamb"
