"""Trains a few steps on 1 or 2 logical CPU devices, prints losses and weights; run by a test."""

import argparse
import json

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("tfrecords")
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--compilation", default="step")
parser.add_argument("--strategy")
parser.add_argument("--optimizer", default="adamw")
parser.add_argument("--steps_per_call", type=int, default=1)
parser.add_argument("--accumulation", type=int, default=1)
parser.add_argument("--precision", default="float32")
args = parser.parse_args()
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * args.devices,
)

from bert_tf.objectives.masked_lm import MaskedLMNextSentence  # noqa: E402
from bert_tf.training import checkpoints, loop  # noqa: E402
from bert_tf.training.distribution import Compilation, StrategyName, make_strategy  # noqa: E402
from bert_tf.training.optimizers import OptimizerName, make_optimizer  # noqa: E402
from bert_tf.training.schedules import WarmupHoldDecay  # noqa: E402
from bert_tf.training.step import TrainingStep  # noqa: E402
from pipelines.pretraining import example_reader  # noqa: E402
from tests.bert_tf.helpers import CONFIG  # noqa: E402

STEPS = 12
name = StrategyName.MIRRORED if args.devices > 1 else StrategyName.ONE_DEVICE
strategy = make_strategy(StrategyName(args.strategy or name))
keras.utils.set_random_seed(3)
changes = {
    "vocab_size": 100,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
with strategy.scope():
    config = CONFIG.from_dict(CONFIG.to_dict() | changes)
    model = MaskedLMNextSentence(config, dtype=args.precision)
    # A rate at which a dozen steps learn; LAMB scales its updates to the size of the weights.
    schedule = WarmupHoldDecay(2e-2 if args.optimizer == "lamb" else 1e-2, 1)
    optimizer = make_optimizer(OptimizerName(args.optimizer), schedule, clip_norm=0.5)
    optimizer.build(model.trainable_variables)
step = TrainingStep(model, optimizer, strategy, args.accumulation, Compilation(args.compilation))
examples = example_reader.open_examples(args.tfrecords)
batches = iter(
    strategy.distribute_datasets_from_function(
        lambda context: example_reader.training_batches(
            examples,
            16,
            seed=1,
            shard=(context.input_pipeline_id, context.num_input_pipelines),
            replicas=context.num_replicas_in_sync // context.num_input_pipelines,
        )
    )
)
counts = []
for first in range(0, STEPS, args.steps_per_call):
    if first == STEPS // 3:  # as training goes on
        schedule.end_at(STEPS, decay_steps=STEPS // 2)
    found = step(batches, first, args.steps_per_call, tf.constant(5))
    columns = {name: tf.reshape(value, [-1]).numpy().tolist() for name, value in found.items()}
    counts += [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
print(
    json.dumps(
        {
            "replicas": strategy.num_replicas_in_sync,
            "losses": [model.metrics_of(values)["loss"] for values in counts],
            "weights": checkpoints.checksum(loop.state_variables(model, optimizer)),
        }
    )
)
