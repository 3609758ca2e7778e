"""Fits a classifier where the CPU counts as two devices, and prints the losses; run by a test."""

import json

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

from tests.bert_tf.models import pairs_of_texts  # noqa: E402

keras.utils.set_random_seed(1)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = pairs_of_texts.make_model()
    history = pairs_of_texts.fit(model, epochs=4)
found = {
    "replicas": strategy.num_replicas_in_sync,
    "loss": history["loss"],
    "accuracy": history["accuracy"],
}
print(json.dumps(found))
