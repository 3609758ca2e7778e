"""The learning rate: its bounds, its end points, and where it rises and falls."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from bert_tf.training.schedules import WarmupLinearDecay


@given(
    st.floats(1e-8, 1.0),
    st.integers(0, 300).flatmap(
        lambda warmup: st.tuples(st.just(warmup), st.integers(warmup + 1, warmup + 400))
    ),
)
def test_it_rises_to_its_peak_and_falls_to_nothing(peak, steps):
    warmup, total = steps
    schedule = WarmupLinearDecay(peak, warmup, total)
    rates = schedule(tf.range(total + 2)).numpy()
    tolerance = 1e-5 * peak
    assert rates.min() >= 0 and rates.max() <= peak * (1 + 1e-6)
    assert rates[total] == 0 and rates[total + 1] == 0  # the updates are 0 to total - 1
    assert (rates[:total] > 0).all()
    top = max(warmup - 1, 0)
    assert abs(rates[top] - peak) <= tolerance or warmup == 0
    assert (np.diff(rates[: top + 1]) > 0).all()
    assert (np.diff(rates[max(top, warmup) : total + 1]) < 0).all()
    assert abs(rates[warmup] - peak) <= tolerance
    # Linear: the same step up, and the same down.
    for part in (rates[: top + 1], rates[warmup : total + 1]):
        assert np.ptp(np.diff(part)) <= tolerance if len(part) > 1 else True
    again = WarmupLinearDecay.from_config(schedule.get_config())
    np.testing.assert_array_equal(again(tf.range(total)).numpy(), rates[:total])
