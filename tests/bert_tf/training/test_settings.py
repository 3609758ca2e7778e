"""What makes a run another run."""

import dataclasses

from bert_tf.pretraining.settings import Phase, PretrainingSettings

SETTINGS = PretrainingSettings((Phase("t", 10, 2),))


def test_how_a_run_is_carried_out_is_not_part_of_its_identity():
    other = dataclasses.replace(SETTINGS, steps_per_execution=8, strategy="mirrored")
    assert other.identity() == SETTINGS.identity()
    assert dataclasses.replace(SETTINGS, weight_decay=0.1).identity() != SETTINGS.identity()
