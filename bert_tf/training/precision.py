"""Which precision to compute in."""

import tensorflow as tf

from bert_tf.training import throughput
from bert_tf.training.settings import PRECISIONS
from pipelines.common.errors import InputError


def resolve_precision(precision: str) -> str:
    """Turns auto into mixed_bfloat16 where the hardware multiplies bfloat16, else float32.

    Raises:
      InputError: the name is unknown.
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is unknown; use float32 or mixed_bfloat16.")
    if precision != "auto":
        return precision
    if tf.config.list_physical_devices("TPU"):
        return "mixed_bfloat16"
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        return "mixed_bfloat16" if details.get("compute_capability", (0,)) >= (8, 0) else "float32"
    fast = throughput.peak_flops(tf.bfloat16) > 1.2 * throughput.peak_flops(tf.float32)
    return "mixed_bfloat16" if fast else "float32"
