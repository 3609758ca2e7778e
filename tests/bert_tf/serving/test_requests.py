"""Values of requests: arrays as signatures take them, or one line."""

import numpy as np
import pytest

from bert_tf.serving import requests
from bert_tf.serving.server import rest_values
from bert_tf.serving.server.faults import Fault, RefusalError
from pipelines.common.errors import InputError


@pytest.mark.parametrize("value", [[[[]], []], [[], [[]]], [["a"], []], [1, [2]], [[1], [[2]]]])
def test_rows_that_are_not_alike_are_told(value):
    with pytest.raises(InputError, match="x: rows of unequal lengths"):
        requests.as_array("x", value)


@pytest.mark.parametrize("value", [[], [[]], [[], []], np.zeros((0, 4), np.int32)])
def test_nothing_has_its_shape(value):
    assert requests.as_array("x", value).shape == np.shape(value)


def _nested(depth):
    value = "a text"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [requests.DEEPEST + 1, 800])
def test_values_that_are_nested_too_deeply_are_refused(depth):
    for body in ({"inputs": _nested(depth)}, {"instances": [_nested(depth)]}):
        with pytest.raises(RefusalError, match="nested too deeply") as caught:
            rest_values.inputs_of(body, ["text"])
        assert caught.value.fault is Fault.INVALID
