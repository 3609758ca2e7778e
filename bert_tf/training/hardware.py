"""What the devices can do: which precision suits them, how fast they are, what fits in memory."""

import time

import tensorflow as tf

from bert_tf.models import encoders, flash_attention
from bert_tf.models.base_config import EncoderConfig
from pipelines.common import machine

# Matrices that are multiplied to measure speed, and products in a row: on an accelerator, one
# product of a CPU's size takes less time than its start.
_SIZE, _PRODUCTS = 2048, 1
_SIZE_ON_ACCELERATORS, _PRODUCTS_ON_ACCELERATORS = 8192, 8
_REPEATS = 5
_BYTES_PER_WEIGHT = 16  # itself, its gradient and two moments, float32
_BYTES_PER_FROZEN = 4
# Multiples of hidden_size that each block keeps for the backward pass, for each token: the inputs
# of its four products; with rematerialization, the input of the block.
_KEPT_WIDTHS = 4
_REMATERIALIZED_WIDTHS = 1
_BYTES_PER_VALUE = 2  # bfloat16


def resolve_precision(precision: str) -> str:
    """Resolves auto to mixed_bfloat16 if the hardware multiplies bfloat16, else to float32."""
    if precision != "auto":
        return precision
    if tf.config.list_physical_devices("TPU"):
        return "mixed_bfloat16"
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        supported = flash_attention.multiplies_bfloat16(gpus[0])
        return "mixed_bfloat16" if supported else "float32"
    low, full = peak_flops(tf.bfloat16, tf.float32)
    return "mixed_bfloat16" if low > 1.2 * full else "float32"


def peak_flops(*dtypes: tf.DType) -> list[float]:
    """Measures a device's floating-point operations per second on large matrix products.

    The types take turns, so that other programs on a machine slow down each of them alike.
    """
    size, count = _SIZE, _PRODUCTS
    if any(tf.config.list_logical_devices(kind) for kind in ("GPU", "TPU")):
        size, count = _SIZE_ON_ACCELERATORS, _PRODUCTS_ON_ACCELERATORS

    @tf.function
    def product(x: tf.Tensor) -> tf.Tensor:
        y = x
        for _ in range(count):
            y = tf.matmul(y, x)
        return tf.reduce_sum(tf.cast(y, tf.float32))

    # Products of such matrices have values of the same size.
    numbers = tf.random.stateless_normal([size, size], [0, 1], stddev=size**-0.5)
    matrices = [tf.cast(numbers, dtype) for dtype in dtypes]
    times = []
    for _ in range(1 + _REPEATS):
        for matrix in matrices:
            start = time.perf_counter()
            product(matrix).numpy()
            times.append(time.perf_counter() - start)
    kept = times[len(dtypes) :]  # the first ones trace
    return [2 * count * size**3 / min(kept[each :: len(dtypes)]) for each in range(len(dtypes))]


def check_memory(
    config: EncoderConfig,
    sequences: int,
    length: int,
    strategy: tf.distribute.Strategy,
    rematerialize: bool = False,
    frozen: int = 0,
) -> None:
    """Checks that training fits into this machine's memory; only known for CPUs.

    Args:
      config: configuration of the encoder.
      sequences: sequences that all replicas of this machine compute at once.
      length: tokens of a sequence.
      strategy: the devices.
      rematerialize: whether layers are recomputed in the backward pass.
      frozen: number of weights that are not trained.

    Raises:
      InputError: it does not fit.
    """
    if not all("CPU" in device for device in strategy.extended.worker_devices):
        return
    parameters = encoders.unallocated(config).parameters
    needed = _BYTES_PER_WEIGHT * (parameters - frozen) + _BYTES_PER_FROZEN * frozen
    beside = f" beside {frozen:,} frozen ones" if frozen else ""
    machine.check_memory(needed, f"training {parameters - frozen:,} parameters{beside}")
    kept = _REMATERIALIZED_WIDTHS if rematerialize else _KEPT_WIDTHS
    widths = kept * config.num_hidden_layers * config.hidden_size
    machine.check_memory(
        _BYTES_PER_VALUE * sequences * length * widths,
        f"a batch of {sequences:,} sequences of {length:,} tokens",
    )
