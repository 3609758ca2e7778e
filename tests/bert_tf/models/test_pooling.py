"""One vector of the vectors of a sequence's tokens, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models.layers import pooling

LENGTHS = (7, 1, 4)


@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (pooling.mean, lambda tokens: tokens.mean(0)),
        (pooling.maximum, lambda tokens: tokens.max(0)),
        (pooling.first, lambda tokens: tokens[0]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_padding_counts_for_nothing(function, formula, dtype):
    values = np.random.default_rng(0).normal(-3, 1, (3, 7, 5))
    sequence = tf.cast(values, dtype)
    mask = np.array([[1] * length + [0] * (7 - length) for length in LENGTHS], np.int32)
    found = function(sequence, tf.constant(mask))
    assert found.dtype == tf.float32
    exact = tf.cast(sequence, tf.float32).numpy()
    wanted = [formula(row[:length]) for row, length in zip(exact, LENGTHS, strict=True)]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    padded = np.where(mask[:, :, None] > 0, exact, 1e6).astype(np.float32)
    np.testing.assert_allclose(function(padded, tf.constant(mask)), wanted, atol=1e-6)


@pytest.mark.parametrize("function", [pooling.mean, pooling.maximum])
def test_the_vector_of_no_token_is_zero(function):
    mask = tf.zeros([2, 3], tf.int32)
    np.testing.assert_array_equal(function(tf.ones([2, 3, 4]), mask), np.zeros((2, 4)))
