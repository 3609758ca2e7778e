"""The memory that training takes at the least, known before it begins."""

import tensorflow as tf

from bert_tf.models import encoders
from bert_tf.models.base_config import EncoderConfig
from pipelines.common import machine

_BYTES_A_WEIGHT = 16  # itself, its gradient and two moments, float32
# Of hidden_size for each token and block, kept for the backward pass: inputs of the four products;
# where blocks are computed a second time, their input.
_KEPT_WIDTHS = 4
_REMATERIALIZED_WIDTHS = 1
_BYTES_A_VALUE = 2  # bfloat16


def check_training(
    config: EncoderConfig,
    sequences: int,
    length: int,
    strategy: tf.distribute.Strategy,
    rematerialize: bool = False,
) -> None:
    """Checks that this machine has room for training on its CPU; of other devices nothing is known.

    Args:
      config: the encoder's.
      sequences: that are computed at once, on all replicas of this machine.
      length: of each, in tokens.
      strategy: the devices.
      rematerialize: whether layers are computed a second time in the backward pass.

    Raises:
      InputError: it has not.
    """
    if not all("CPU" in device for device in strategy.extended.worker_devices):
        return
    parameters = encoders.unallocated(config).parameters
    machine.check_memory(_BYTES_A_WEIGHT * parameters, f"training {parameters:,} parameters")
    kept = _REMATERIALIZED_WIDTHS if rematerialize else _KEPT_WIDTHS
    widths = kept * config.num_hidden_layers * config.hidden_size
    machine.check_memory(
        _BYTES_A_VALUE * sequences * length * widths,
        f"a batch of {sequences:,} sequences of {length:,} tokens",
    )
