"""Fine-tunes where the CPU counts as two devices; run by a test."""

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

from bert_tf import finetune  # noqa: E402
from pipelines import commands  # noqa: E402

commands.run(finetune.main)
