"""The training loop: resumption to the bit, accumulation, replicas, orderly stops."""

import os
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.objectives.bert import Metrics, PretrainingModel
from bert_tf.training import loop
from bert_tf.training.checkpoints import Checkpoints
from bert_tf.training.distribution import Compilation
from bert_tf.training.optimizers import AdamW, WarmupLinearDecay
from pipelines.common import stopping
from pipelines.common.errors import InputError
from pipelines.pretraining import example_reader
from tests.bert_tf.helpers import CONFIG, make_batch

STEPS = 8
SMALL = CONFIG.__class__.from_dict(
    CONFIG.to_dict() | {"vocab_size": 100, "max_position_embeddings": 32}
)


class Run:
    """A model, its optimizer and its loop, made anew as after a start."""

    def __init__(self, folder, tfrecords, **changes):
        options = {"total_steps": STEPS, "save_every": 3, "log_every": 1, "seed": 5}
        self.settings = loop.LoopSettings(**(options | changes))
        keras.utils.set_random_seed(5)
        self.model = PretrainingModel(SMALL)
        self.optimizer = AdamW(WarmupLinearDecay(1e-2, 2, STEPS))
        self.optimizer.build(self.model.trainable_variables)
        self.state = loop.state_variables(self.model, self.optimizer)
        self.checkpoints = Checkpoints(str(folder), self.state)
        self.examples = example_reader.open_examples(tfrecords)
        self.counts = []
        self.on_report = lambda step: None

    def go(self):
        strategy = tf.distribute.get_strategy()
        step = loop.make_step(self.model, self.optimizer, strategy, self.settings)
        start = self.checkpoints.restore_newest() or 0

        def report(done, counts):
            self.counts.extend(counts)
            self.on_report(done)

        def batches(first):
            return iter(example_reader.training_batches(self.examples, 16, 5, first))

        loop.train(step, batches, self.checkpoints, self.settings, report, start)
        return loop.fingerprint(self.state)


@pytest.mark.parametrize("compilation", list(Compilation)[1:])
def test_a_run_that_died_ends_with_the_bits_of_one_that_did_not(tmp_path, tfrecords, compilation):
    whole = Run(tmp_path / "whole", tfrecords, compilation=compilation).go()
    dying = Run(tmp_path / "dying", tfrecords, compilation=compilation)

    def die(step):
        if step == 5:
            raise RuntimeError("killed")

    dying.on_report = die
    with pytest.raises(RuntimeError, match="killed"):
        dying.go()
    assert Run(tmp_path / "dying", tfrecords, compilation=compilation).go() == whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops(tmp_path, tfrecords, number):
    whole = Run(tmp_path / "whole", tfrecords).go()
    run = Run(tmp_path / "run", tfrecords)
    run.on_report = lambda step: step == 4 and os.kill(os.getpid(), number)
    before = signal.getsignal(number)
    with pytest.raises(stopping.Stopped, match="stopped at step 5") as stop:
        run.go()
    assert stop.value.signal_number == number
    assert run.checkpoints.steps() == [3, 5]
    assert signal.getsignal(number) == before
    assert Run(tmp_path / "run", tfrecords).go() == whole


def test_loss_falls(tmp_path, tfrecords):
    run = Run(tmp_path, tfrecords)
    run.go()
    losses = [Metrics.of(counts).loss for counts in run.counts]
    assert losses[-1] < losses[0] - 0.3


def test_other_seeds_drop_other_elements(tmp_path, tfrecords):
    a = Run(tmp_path / "a", tfrecords).go()
    assert a == Run(tmp_path / "b", tfrecords).go()
    assert a != Run(tmp_path / "c", tfrecords, seed=6).go()


def _losses(model_changes, **changes):
    """Losses of three steps on fixed batches, without dropout."""
    config = CONFIG.__class__.from_dict(
        CONFIG.to_dict()
        | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        | model_changes
    )
    keras.utils.set_random_seed(1)
    model = PretrainingModel(config)
    optimizer = AdamW(1e-2)
    optimizer.build(model.trainable_variables)
    settings = loop.LoopSettings(total_steps=3, **changes)
    step = loop.make_step(model, optimizer, tf.distribute.get_strategy(), settings)
    return [
        Metrics.of(step(make_batch(8, seed=i), tf.constant(i), tf.constant(settings.seed))).loss
        for i in range(3)
    ], [v.numpy() for v in model.variables]


def test_accumulation_is_the_same_as_one_batch():
    losses, weights = _losses({})
    parts, part_weights = _losses({}, accumulation=4)
    assert parts == pytest.approx(losses, rel=1e-5)
    for a, b in zip(weights, part_weights, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)


@pytest.mark.parametrize("compilation", [Compilation.STEP, Compilation.OFF])
def test_compilation_changes_nothing(compilation):
    losses, _ = _losses({}, compilation=Compilation.FUSED)
    assert _losses({}, compilation=compilation)[0] == pytest.approx(losses, rel=1e-5)


def test_a_loss_that_is_no_number_stops_with_step_and_checkpoint(tmp_path, tfrecords):
    run = Run(tmp_path, tfrecords, log_every=8)

    def break_model(first):
        for index, batch in enumerate(example_reader.training_batches(run.examples, 16, 5, first)):
            if index == 4:
                run.model.masked_lm.bias.assign(run.model.masked_lm.bias * float("nan"))
            yield batch

    step = loop.make_step(run.model, run.optimizer, tf.distribute.get_strategy(), run.settings)
    message = "loss of step 5 is not a number.*checkpoint-00000003"
    with pytest.raises(InputError, match=message):
        loop.train(step, break_model, run.checkpoints, run.settings, lambda done, counts: None, 0)
    assert run.checkpoints.steps() == [3]


def test_weights_that_are_no_numbers_are_never_saved(tmp_path, tfrecords):
    run = Run(tmp_path, tfrecords)

    def break_weights(step):
        if step == 6:
            run.model.encoder.pooler.bias.assign(run.model.encoder.pooler.bias + float("inf"))

    run.on_report = break_weights
    with pytest.raises(InputError, match="update of step 6 is not a number.*checkpoint-00000003"):
        run.go()
    assert run.checkpoints.steps() == [3]


def test_backward_passes_are_compiled_too(tfrecords, tmp_path):
    run = Run(tmp_path, tfrecords)
    strategy = tf.distribute.get_strategy()
    step = loop.make_step(run.model, run.optimizer, strategy, run.settings)
    batch = next(iter(example_reader.training_batches(run.examples, 16, 5)))
    graph = step.get_concrete_function(batch, tf.constant(0), tf.constant(5)).graph.as_graph_def()
    compiled = [f for f in graph.library.function if f.attr["_XlaMustCompile"].b]
    names = " ".join(f.signature.name for f in compiled)
    assert "forward" in names
    assert "backward" in names
