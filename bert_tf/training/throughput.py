"""How fast training could be, and what share of that it reaches."""

import time

import tensorflow as tf

from bert_tf.models.base_encoder import Encoder
from bert_tf.objectives.base import TokenHead

_SIZE = 2048
_REPEATS = 5


def training_flops(encoder: Encoder, head: TokenHead, length: int, predictions: int) -> float:
    """Floating-point operations of forward and backward pass for one sequence.

    Backward there are twice as many as forward.

    Args:
      encoder: that is trained.
      head: on it.
      length: tokens of the sequence.
      predictions: positions of which logits are computed.
    """
    return 3 * float(encoder.flops(length) + head.flops(predictions))


def peak_flops(dtype: tf.DType) -> float:
    """Measures the floating-point operations a second of a large product on one device.

    Args:
      dtype: of the operands.
    """
    a = tf.cast(tf.random.stateless_normal([_SIZE, _SIZE], [0, 1]), dtype)
    product = tf.function(lambda x: tf.reduce_sum(tf.cast(tf.matmul(x, x), tf.float32)))
    product(a).numpy()
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        product(a).numpy()
        times.append(time.perf_counter() - start)
    return 2 * _SIZE**3 / min(times)
