"""The speed of the device, which decides the precision."""

import itertools
import types

import pytest
import tensorflow as tf

from bert_tf.training import hardware


@pytest.mark.parametrize(("low", "precision"), [(1.0, "mixed_bfloat16"), (1.9, "float32")])
def test_precision_follows_from_products_that_take_turns(monkeypatch, low, precision):
    # The machine gets slower from turn to turn, both products alike; the first ones trace.
    durations = [9.0, 1.0, *itertools.chain(*((low * slower, 2.0 * slower) for slower in range(1, 6)))]  # fmt: skip
    times = itertools.accumulate(itertools.chain(*((0.0, each) for each in durations)))
    monkeypatch.setattr(hardware, "_SIZE", 8)
    clock = types.SimpleNamespace(perf_counter=lambda: next(times))
    monkeypatch.setattr(hardware, "time", clock)
    assert hardware.resolve_precision("auto") == precision


def test_speed_is_that_of_the_fastest_product(monkeypatch):
    monkeypatch.setattr(hardware, "_SIZE", 8)
    (found,) = hardware.peak_flops(tf.float32)
    assert 0 < found < 1e12
