"""Fine-tunes where the CPU counts as two devices; run by a test."""

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

from bert_tf.commands import finetune  # noqa: E402
from pipelines.common import command_line  # noqa: E402

command_line.run(finetune.main)
