"""Fine-tunes where the CPU counts as two devices; run by a test."""

import sys

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

from pipelines.common import command_line  # noqa: E402

command_line.run("finetune", "bert_tf.commands.finetune", sys.argv[1:])
