"""How fast training could be, and what share of that it reaches."""

import time

import tensorflow as tf

from bert_tf.models.config import BertConfig

_SIZE = 2048
_REPEATS = 5


def training_flops(config: BertConfig, length: int, predictions: int) -> float:
    """Floating-point operations of forward and backward pass for one sequence.

    Two for each multiply-add of the matrix products, and twice as many
    backward as forward; the rest is not counted.

    Args:
      config: the encoder.
      length: tokens of the sequence.
      predictions: positions of which logits are computed.
    """
    hidden = config.hidden_size
    kernels = hidden * (4 * hidden + 2 * config.intermediate_size)
    attention = 2 * length * hidden
    encoder = config.num_hidden_layers * length * (kernels + attention)
    head = predictions * hidden * (hidden + config.vocab_size)
    return 3 * 2 * float(encoder + head)


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
