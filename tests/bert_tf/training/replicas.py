"""Trains a few steps on 1 or 2 logical CPU devices and prints the losses; run by a test."""

import json
import sys

import keras
import tensorflow as tf

devices, compilation, tfrecords = int(sys.argv[1]), sys.argv[2], sys.argv[3]
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * devices,
)

from bert_tf.objectives.bert import Metrics, PretrainingModel  # noqa: E402
from bert_tf.training import loop  # noqa: E402
from bert_tf.training.distribution import Compilation, StrategyName, make_strategy  # noqa: E402
from bert_tf.training.optimizers import AdamW  # noqa: E402
from pipelines.pretraining import example_reader  # noqa: E402
from tests.bert_tf.helpers import CONFIG  # noqa: E402

name = StrategyName.MIRRORED if devices > 1 else StrategyName.ONE_DEVICE
if len(sys.argv) > 4:
    name = StrategyName(sys.argv[4])
strategy = make_strategy(name)
keras.utils.set_random_seed(3)
changes = {
    "vocab_size": 100,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
with strategy.scope():
    model = PretrainingModel(CONFIG.from_dict(CONFIG.to_dict() | changes))
    optimizer = AdamW(1e-2, clip_norm=0.5)
    optimizer.build(model.trainable_variables)
settings = loop.LoopSettings(total_steps=12, compilation=Compilation(compilation))
step = loop.make_step(model, optimizer, strategy, settings)
examples = example_reader.open_examples(tfrecords)
batches = strategy.distribute_datasets_from_function(
    lambda context: example_reader.training_batches(
        examples,
        16,
        seed=1,
        shard=(context.input_pipeline_id, context.num_input_pipelines),
        replicas=context.num_replicas_in_sync // context.num_input_pipelines,
    )
)
iterator = iter(batches)
losses = [
    Metrics.of(step(next(iterator), tf.constant(i), tf.constant(settings.seed))).loss
    for i in range(12)
]
print(json.dumps({"replicas": strategy.num_replicas_in_sync, "losses": losses}))
