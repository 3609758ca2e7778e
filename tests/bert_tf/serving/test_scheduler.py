"""Sequences of many requests: computed together by length, each as alone."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.serving import scheduler as scheduler_module
from bert_tf.serving.engines import Batch
from bert_tf.serving.scheduler import Executable, Scheduler, deadline
from pipelines.common.errors import InputError

_OUTPUTS = (tf.TensorSpec([None, None, 2], tf.float32), tf.TensorSpec([None, 3], tf.float32))


def _results(sequences):
    """Of each token, and of each sequence; they depend on the tokens that are no padding."""
    tokens = (sequences.ids + 10 * sequences.types) * sequences.mask
    each = np.stack([tokens, -tokens], -1).astype(np.float32)
    whole = np.stack([tokens.sum(1), sequences.mask.sum(1), tokens.max(1)], -1)
    return [each, whole.astype(np.float32)]


class _Recorder:
    """Computes, notes the forms of what it computed, and waits where it is told to."""

    def __init__(self):
        self.shapes = []
        self.begun = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, sequences):
        self.shapes.append(sequences.ids.shape)
        self.begun.release()
        assert self.may_go_on.wait(60)
        return _results(sequences)


def _sequences(*lengths, seed=0):
    rng = np.random.default_rng(seed)
    shape = (len(lengths), max(lengths, default=5))
    mask = (np.arange(shape[1]) < np.array(lengths, int).reshape(-1, 1)).astype(np.int32)
    ids, types = rng.integers(1, 100, shape), rng.integers(0, 2, shape)
    return Batch(*(x.astype(np.int32) for x in (ids * mask, mask, types * mask)))


@pytest.fixture
def recorder():
    return _Recorder()


@pytest.fixture
def make(recorder):
    """Makes schedulers, which are closed in the end."""
    made = []

    def scheduler(*args, **kwargs):
        made.append(Scheduler(*args, **kwargs))
        return made[-1]

    yield scheduler
    recorder.may_go_on.set()
    for each in made:
        each.close()


def _held(scheduler, recorder, step):
    """Has the only thread compute something until it is let go on."""
    recorder.may_go_on.clear()
    threading.Thread(target=scheduler.submit, args=(step, _sequences(3))).start()
    assert recorder.begun.acquire(timeout=60)
    recorder.shapes.clear()


def _check(future, sequences):
    for found, wanted in zip(future.result(60), _results(sequences), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_many_at_once_get_what_each_gets_alone(make, recorder):
    scheduler, step = make(3), Executable(_OUTPUTS, recorder)
    rng = np.random.default_rng(1)

    def ask(seed):
        lengths = np.random.default_rng(seed).integers(1, 60, rng.integers(1, 6)).tolist()
        sequences = _sequences(*lengths, seed=seed)
        _check(scheduler.submit(step, sequences), sequences)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(300)))


def test_what_waits_is_computed_with_what_is_as_long(make, recorder):
    scheduler, step = make(1), Executable(_OUTPUTS, recorder)
    other = Executable(_OUTPUTS, recorder)
    _held(scheduler, recorder, step)
    asked = [
        (each, sequences, scheduler.submit(each, sequences))
        for each, sequences in (
            (step, _sequences(40, 7)),
            (step, _sequences(100)),
            (other, _sequences(40)),
            (step, _sequences(44, 9, 50)),
        )
    ]
    recorder.may_go_on.set()
    for _, sequences, future in asked:
        _check(future, sequences)
    assert recorder.shapes == [(3, 50), (2, 9), (1, 100), (1, 40)]


def test_what_is_computed_together_is_bounded(make, recorder):
    scheduler, step = make(1, max_tokens=64), Executable(_OUTPUTS, recorder)
    _held(scheduler, recorder, step)
    sequences = _sequences(*[16] * 9)
    future = scheduler.submit(step, sequences)
    alone = scheduler.submit(step, _sequences(200))
    recorder.may_go_on.set()
    _check(future, sequences)
    alone.result(60)
    assert recorder.shapes == [(4, 16), (4, 16), (1, 16), (1, 200)]


def test_what_takes_long_is_computed_in_parts(make, recorder):
    """Between them, what is late is dropped, and others have their turn."""
    scheduler = make(1, max_tokens=64)
    slow = Executable(_OUTPUTS, recorder, rows=lambda length: 32 // length)
    _held(scheduler, recorder, slow)
    sequences = _sequences(*[16] * 5)
    future = scheduler.submit(slow, sequences)
    recorder.may_go_on.set()
    _check(future, sequences)
    assert recorder.shapes == [(2, 16), (2, 16), (1, 16)]


def test_each_sequence_by_itself(make, recorder):
    scheduler, step = make(1, batches=False), Executable(_OUTPUTS, recorder)
    _held(scheduler, recorder, step)
    sequences = _sequences(20, 19, 20)
    future = scheduler.submit(step, sequences)
    recorder.may_go_on.set()
    _check(future, sequences)
    assert recorder.shapes == [(1, 20), (1, 19), (1, 20)]


def test_free_threads_share_what_waits(make, recorder):
    scheduler, step = make(2), Executable(_OUTPUTS, recorder)
    recorder.may_go_on.clear()
    sequences = _sequences(*[20] * 8)
    future = scheduler.submit(step, sequences)
    for _ in range(2):  # none of them has to wait for the other
        assert recorder.begun.acquire(timeout=60)
    recorder.may_go_on.set()
    _check(future, sequences)
    assert recorder.shapes[0] == (4, 20)


def test_a_batch_is_found_without_looking_at_all_that_waits(make, recorder, monkeypatch):
    looked_at = []
    fits = scheduler_module._Item.fits
    monkeypatch.setattr(scheduler_module, "_AHEAD", 16)
    monkeypatch.setattr(
        scheduler_module._Item, "fits", lambda *items: looked_at.append(items) or fits(*items)
    )
    scheduler, step = make(1, max_tokens=80), Executable(_OUTPUTS, recorder)
    sequences = _sequences(*[20] * 400)
    _check(scheduler.submit(step, sequences), sequences)
    assert len(looked_at) <= 16 * len(recorder.shapes)
    assert set(recorder.shapes) == {(4, 20)}


def test_no_sequence_needs_no_computation(make, recorder):
    sequences = _sequences()
    results = make(1).submit(Executable(_OUTPUTS, recorder), sequences).result(60)
    assert [x.shape for x in results] == [(0, 5, 2), (0, 3)] and not recorder.shapes


def test_a_sequence_of_padding_and_gaps_are_computed(make, recorder):
    sequences = _sequences(6, 4)
    sequences.mask[0] = 0
    sequences.mask[1] = [1, 0, 0, 1, 0, 0]
    _check(make(1).submit(Executable(_OUTPUTS, recorder), sequences), sequences)


def test_what_fails_is_told_to_who_asked(make, recorder):
    def fail(sequences):
        raise ValueError("no memory")

    scheduler = make(1)
    future = scheduler.submit(Executable(_OUTPUTS, fail), _sequences(3, 50))
    with pytest.raises(ValueError, match="no memory"):
        future.result(60)
    sequences = _sequences(4)
    _check(scheduler.submit(Executable(_OUTPUTS, recorder), sequences), sequences)


def test_what_waits_is_computed_before_the_end(recorder):
    scheduler, step = Scheduler(1), Executable(_OUTPUTS, recorder)
    _held(scheduler, recorder, step)
    sequences = _sequences(5, 60, 12)
    future = scheduler.submit(step, sequences)
    threading.Timer(0.1, recorder.may_go_on.set).start()
    scheduler.close()
    _check(future, sequences)


def test_after_the_end_nothing_is_computed(recorder):
    scheduler, step = Scheduler(1), Executable(_OUTPUTS, recorder)
    scheduler.close()
    for lengths in ([3], [3, 4]):
        with pytest.raises(InputError, match="the model was closed"):
            scheduler.submit(step, _sequences(*lengths))


def test_what_nobody_waits_for_any_more_is_not_computed(make, recorder):
    scheduler, step = make(1), Executable(_OUTPUTS, recorder)
    _held(scheduler, recorder, step)
    with deadline(time.monotonic() - 1):
        late = scheduler.submit(step, _sequences(9, 9))
    sequences = _sequences(4)
    in_time = scheduler.submit(step, sequences)
    recorder.may_go_on.set()
    _check(in_time, sequences)
    with pytest.raises(TimeoutError):
        late.result(60)
    assert all(length != 9 for _, length in recorder.shapes)
