"""What is noted of a monitor: the share of the time that steps wait for their input."""

import itertools
import json
import time

import keras
import pytest
import tensorflow as tf

from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from bert_tf.training.distribution import make_strategy
from bert_tf.training.progress import HISTORY
from bert_tf.training.run_monitor import RunMonitor
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.session import Session
from bert_tf.training.settings import StrategyName, TrainingSettings
from bert_tf.training.step import StepSource
from tests.bert_tf.helpers import CONFIG, make_batch

STEPS = 12
ROWS = 256


def _noted(folder, batches, steps_per_execution):
    """The share of waiting of a monitor after its first half, in which functions are traced."""
    keras.utils.set_random_seed(1)
    session = Session(
        make_strategy(StrategyName.ONE_DEVICE),
        TrainingSettings(steps_per_execution=steps_per_execution),
        WarmupLinearDecay(1e-3, 1, STEPS),
        lambda: MaskedLMNextSentence(CONFIG),
    )
    step = session.make_step(session.model)
    with RunMonitor(session, session.model, str(folder), "test", 0, tensorboard=False) as monitor:
        monitor.train(
            lambda first: itertools.repeat(StepSource(step, iter(batches))),
            session.checkpoints(f"{folder}/checkpoints"),
            lambda done, counts: monitor.note(done, counts, ROWS),
            log_every=STEPS // 2,
            save_every=STEPS,
        )
    lines = (folder / HISTORY).read_text().splitlines()
    assert monitor.history.points[-1].text().endswith("waiting for input")
    return json.loads(lines[-1])["input_wait_fraction"]


def _late(batch):
    """The same batch, half a second later."""
    zero = tf.ensure_shape(tf.py_function(lambda: time.sleep(0.5) or 0, [], tf.int32), [])
    return {name: value + tf.cast(zero, value.dtype) for name, value in batch.items()}


@pytest.mark.more
@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_steps_tell_how_long_they_wait_for_input(tmp_path, steps_per_execution):
    ready = tf.data.Dataset.from_tensors(make_batch(ROWS)).repeat()
    assert _noted(tmp_path / "ready", ready, steps_per_execution) < 0.2
    assert _noted(tmp_path / "late", ready.map(_late), steps_per_execution) > 0.6
