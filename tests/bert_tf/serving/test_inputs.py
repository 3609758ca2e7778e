"""Values of requests: arrays as signatures take them, or one line."""

import numpy as np
import pytest

from bert_tf.serving import inputs
from pipelines.common.errors import InputError


@pytest.mark.parametrize("value", [[[[]], []], [[], [[]]], [["a"], []], [1, [2]], [[1], [[2]]]])
def test_rows_that_are_not_alike_are_told(value):
    with pytest.raises(InputError, match="x: rows of unequal lengths"):
        inputs.as_array("x", value)


@pytest.mark.parametrize("value", [[], [[]], [[], []], np.zeros((0, 4), np.int32)])
def test_nothing_has_its_shape(value):
    assert inputs.as_array("x", value).shape == np.shape(value)
