"""Uses a Hub encoder and preprocessor as anyone would who has tensorflow_hub and not our code.

use_hub.py ENCODER PREPROCESS RESULT
"""

import json
import sys

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
import tensorflow_text  # noqa: F401
import tf_keras

# `make setup` installs our packages: with these entries, importing one of them is an error.
sys.modules.update({"bert_tf": None, "pipelines": None})  # type: ignore[dict-item]
ENCODER, PREPROCESS, RESULT = sys.argv[1:]
TEXTS = ["the layer reads", "every mask of the deep token", "the layer writes", "every mask trains"]
LABELS = np.array([0, 1, 0, 1])
result = {}


def infer():
    preprocess, encoder = hub.load(PREPROCESS), hub.load(ENCODER)
    inputs = preprocess(tf.constant(TEXTS))
    outputs = encoder(inputs)
    result["shapes"] = {name: list(value.shape) for name, value in inputs.items()}
    result["pooled"] = outputs["pooled_output"].numpy().tolist()
    assert len(outputs["encoder_outputs"]) == 2
    assert outputs["default"].shape == outputs["pooled_output"].shape

    tokens = preprocess.tokenize(tf.constant(TEXTS))
    result["tokens"] = tokens.to_list()
    special = preprocess.tokenize.get_special_tokens_dict()
    assert int(special["vocab_size"]) > int(special["mask_id"]) > 0
    pairs = preprocess.bert_pack_inputs([tokens, tokens], seq_length=tf.constant(40))
    result["pair"] = {name: value[0].numpy().tolist() for name, value in pairs.items()}
    words = tf.RaggedTensor.from_row_lengths(tokens, [1, 1, 2])
    assert preprocess.bert_pack_inputs([words])["input_mask"].shape == (3, 48)

    mlm = encoder.mlm(dict(inputs, masked_lm_positions=tf.constant([[1, 2]] * 4)))
    assert mlm["mlm_logits"].shape == (4, 2, int(special["vocab_size"]))


def fine_tune_by_hand():
    encoder, preprocess = hub.load(ENCODER), hub.load(PREPROCESS)
    inputs = preprocess(tf.constant(TEXTS))
    head = tf.Variable(tf.random.stateless_normal([32, 2], [1, 2], stddev=0.1))
    variables = [*encoder.trainable_variables, head]
    optimizer = tf_keras.optimizers.Adam(3e-3)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            pooled = encoder(inputs, training=True)["pooled_output"]
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, pooled @ head)
            )
        gradients = tape.gradient(loss, variables)
        assert all(gradient is not None for gradient in gradients)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    losses = [float(step()) for _ in range(40)]
    result["by_hand"] = [losses[0], losses[-1]]


def fine_tune_keras(strategy):
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        text = tf_keras.layers.Input([], dtype=tf.string)
        inputs = hub.KerasLayer(PREPROCESS)(text)
        outputs = hub.KerasLayer(ENCODER, trainable=True)(inputs)
        logits = tf_keras.layers.Dense(2)(outputs["pooled_output"])
        model = tf_keras.Model(text, logits)
        loss = tf_keras.losses.SparseCategoricalCrossentropy(True)
        model.compile(tf_keras.optimizers.Adam(3e-3), loss)
    data = tf.data.Dataset.from_tensor_slices((TEXTS * 4, np.tile(LABELS, 4))).batch(8)
    history = model.fit(data, epochs=12, verbose=0).history["loss"]
    return [history[0], history[-1]]


devices = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
infer()
fine_tune_by_hand()
result["keras"] = fine_tune_keras(tf.distribute.get_strategy())
result["mirrored"] = fine_tune_keras(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
with open(RESULT, "w") as file:
    json.dump(result, file)
