"""The training loop: resumption to the bit, accumulation, replicas, orderly stops."""

import itertools
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.objectives.masked_lm import MaskedLMNextSentence
from bert_tf.training import checkpoints, loop
from bert_tf.training.checkpoints import Checkpoints
from bert_tf.training.distribution import Compilation
from bert_tf.training.optimizers import AdamW
from bert_tf.training.schedules import WarmupLinearDecay
from bert_tf.training.step import INPUT_WAIT, StepSource, TrainingStep
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

    def __init__(self, folder, tfrecords, accumulation=1, compilation=Compilation.OFF, **changes):
        options = {"total_steps": lambda: STEPS, "save_every": 3, "log_every": 1, "seed": 5}
        self.settings = loop.LoopSettings(**(options | changes))
        keras.utils.set_random_seed(5)
        self.model = MaskedLMNextSentence(SMALL)
        self.optimizer = AdamW(WarmupLinearDecay(1e-2, 2, STEPS))
        self.optimizer.build(self.model.trainable_variables)
        self.state = loop.state_variables(self.model, self.optimizer)
        self.checkpoints = Checkpoints(str(folder), self.state)
        self.examples = example_reader.open_examples(tfrecords)
        self.step = TrainingStep(
            self.model, self.optimizer, tf.distribute.get_strategy(), accumulation, compilation
        )
        self.counts = []
        self.on_report = lambda step: None

    def go(self, agree=bool):
        start = self.checkpoints.restore_newest() or 0

        def report(done, counts):
            self.counts.extend(counts)
            self.on_report(done)

        def sources(first):
            batches = iter(example_reader.training_batches(self.examples, 16, 5, first))
            return itertools.repeat(StepSource(self.step, batches))

        loop.train(sources, self.checkpoints, self.settings, report, start, agree)
        return checkpoints.checksum(self.state)


def handle_signal(number):
    """Calls the handler of a signal; test_pretrain sends signals to processes of their own."""
    signal.getsignal(number)(number, None)


@pytest.mark.parametrize(
    "compilation",
    [
        Compilation.OFF,
        pytest.param(Compilation.FUSED, marks=pytest.mark.slow),
        pytest.param(Compilation.STEP, marks=pytest.mark.slow),
    ],
)
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


@pytest.mark.more
@pytest.mark.parametrize(
    ("compilation", "accumulation"),
    [
        (Compilation.OFF, 2),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in itertools.product([Compilation.FUSED, Compilation.STEP], [1, 2])
        ),
    ],
)
def test_several_steps_in_a_call_are_those_of_one_by_one(
    tmp_path, tfrecords, compilation, accumulation
):
    def run(name, count, **changes):
        changes |= {"compilation": compilation, "accumulation": accumulation, "save_every": STEPS}
        return Run(tmp_path / name, tfrecords, steps_per_execution=count, **changes)

    one, several = run("one", 1), run("several", 3, log_every=4)
    done = []
    several.on_report = done.append
    whole = one.go()
    assert several.go() == whole
    assert done == [4, 8]
    for counts in (*several.counts, *one.counts):
        assert counts.pop(INPUT_WAIT) >= 0  # the one thing that the clock decides
    assert several.counts == one.counts
    # Begun by twos, stopped after a single step more, and gone on with by fours.
    stopped = run("stopped", 2, log_every=3)
    stopped.on_report = lambda step: step == 3 and handle_signal(signal.SIGTERM)
    with pytest.raises(stopping.Stopped, match="at step 5"):
        stopped.go()
    assert run("stopped", 4, log_every=STEPS).go() == whole


@pytest.mark.more
def test_checkpoints_are_saved_at_steps_that_are_named(tmp_path, tfrecords):
    """They are kept beside the newest ones, and change nothing."""
    whole = Run(tmp_path / "whole", tfrecords).go()
    run = Run(tmp_path / "kept", tfrecords, save_at=frozenset((1, 5)), steps_per_execution=4)
    run.checkpoints = Checkpoints(str(tmp_path / "kept"), run.state, 1, kept=frozenset((1, 5)))
    assert run.go() == whole
    assert run.checkpoints.steps() == [1, 5, 8]


def test_calls_end_where_something_is_due():
    def calls(start, sources="aaaaaaaaaaaa", **changes):
        settings = loop.LoopSettings(total_steps=lambda: 12, steps_per_execution=4, **changes)
        return [tuple(call) for call in loop._calls(iter(sources[start:]), settings, start)]

    assert calls(0) == [("a", 0, 4), ("a", 4, 4), ("a", 8, 4)]
    assert calls(5, log_every=6) == [("a", 5, 1), ("a", 6, 4), ("a", 10, 2)]
    assert calls(6, save_every=9, evaluate_every=7) == [("a", 6, 1), ("a", 7, 2), ("a", 9, 3)]
    assert calls(0, "aaaaabbabbbbb") == [
        ("a", 0, 4), ("a", 4, 1), ("b", 5, 2), ("a", 7, 1), ("b", 8, 4),
    ]  # fmt: skip
    assert calls(12) == []


def test_a_call_does_not_ask_for_the_next_source():
    """The next source may say that it compiles something, and no step of the last one follows."""
    events = []

    def sources():
        yield from "aaaaa"
        events.append("the next source")
        yield from "bbb"

    settings = loop.LoopSettings(total_steps=lambda: 8, steps_per_execution=4, source_ends=(5, 8))
    for _, first, count in loop._calls(sources(), settings, 0):
        events.append(first + count)
    assert events == [4, 5, "the next source", 8]


@pytest.mark.more
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops(tmp_path, tfrecords, number):
    whole = Run(tmp_path / "whole", tfrecords).go()
    run = Run(tmp_path / "run", tfrecords)
    run.on_report = lambda step: step == 4 and handle_signal(number)
    before = signal.getsignal(number)
    with pytest.raises(stopping.Stopped, match="stopped at step 5") as stop:
        run.go()
    assert stop.value.signal_number == number
    assert run.checkpoints.steps() == [3, 5]
    assert signal.getsignal(number) == before
    assert Run(tmp_path / "run", tfrecords).go() == whole


@pytest.mark.more
def test_workers_notice_a_signal_during_the_last_save(tmp_path, tfrecords):
    run = Run(tmp_path, tfrecords)
    save = run.checkpoints.save

    def signalled(done):
        if done == STEPS:
            handle_signal(signal.SIGTERM)
        save(done)

    run.checkpoints.save = signalled
    with pytest.raises(stopping.Stopped, match=f"at step {STEPS}"):
        run.go(agree=lambda stop: stop)  # as of several workers: not bool itself
    assert run.checkpoints.steps()[-1] == STEPS


@pytest.mark.more
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
    model = MaskedLMNextSentence(config)
    optimizer = AdamW(1e-2)
    optimizer.build(model.trainable_variables)
    step = TrainingStep(model, optimizer, tf.distribute.get_strategy(), **changes)
    batches = (make_batch(8, seed=i) for i in range(3))
    found = [step(batches, i, 1, tf.constant(5)) for i in range(3)]
    losses = [model.metrics_of({k: float(v) for k, v in counts.items()}) for counts in found]
    return [metrics["loss"] for metrics in losses], [v.numpy() for v in model.variables]


def test_accumulation_is_the_same_as_one_batch():
    losses, weights = _losses({})
    parts, part_weights = _losses({}, accumulation=4)
    assert parts == pytest.approx(losses, rel=1e-5)
    for a, b in zip(weights, part_weights, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)


def test_parts_are_computed_one_after_the_other():
    model = MaskedLMNextSentence(CONFIG)
    optimizer = AdamW(1e-2)
    optimizer.build(model.trainable_variables)
    step = TrainingStep(model, optimizer, tf.distribute.get_strategy(), accumulation=3)
    number = tf.constant(1)
    graph = step.on_batch.get_concrete_function(make_batch(6), number, number).graph
    calls = [op for op in graph.get_operations() if "PartitionedCall" in op.type]
    parts = [op for op in calls if "plain_gradients" in op.get_attr("f").name]
    assert len(parts) == 3
    for before, after in itertools.pairwise(parts):
        above, found = [after], set()
        while above:
            op = above.pop()
            if op not in found:
                found.add(op)
                above += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
        assert before in found


@pytest.mark.parametrize(
    "compilation", [pytest.param(Compilation.STEP, marks=pytest.mark.more), Compilation.OFF]
)
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

    def sources(first):
        return itertools.repeat(StepSource(run.step, break_model(first)))

    message = "loss of step 5 is NaN or infinite.*checkpoint-00000003"
    with pytest.raises(InputError, match=message):
        loop.train(sources, run.checkpoints, run.settings, lambda done, counts: None, 0)
    assert run.checkpoints.steps() == [3]


def test_weights_that_are_no_numbers_are_never_saved(tmp_path, tfrecords):
    run = Run(tmp_path, tfrecords)

    def break_weights(step):
        if step == 6:
            run.model.encoder.pooler.bias.assign(run.model.encoder.pooler.bias + float("inf"))

    run.on_report = break_weights
    with pytest.raises(
        InputError, match="update of step 6 is NaN or infinite.*checkpoint-00000003"
    ):
        run.go()
    assert run.checkpoints.steps() == [3]


def test_backward_passes_are_compiled_too(tfrecords, tmp_path):
    run = Run(tmp_path, tfrecords, compilation=Compilation.FUSED)
    step = run.step.on_batch
    batch = next(iter(example_reader.training_batches(run.examples, 16, 5)))
    graph = step.get_concrete_function(batch, tf.constant(0), tf.constant(5)).graph.as_graph_def()
    compiled = [f for f in graph.library.function if f.attr["_XlaMustCompile"].b]
    names = " ".join(f.signature.name for f in compiled)
    assert "forward" in names
    assert "backward" in names
