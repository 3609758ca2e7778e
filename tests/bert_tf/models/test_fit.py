"""`fit` of Keras, in the ways that users run it: the loss falls."""

import json

import keras
import pytest
import tensorflow as tf

from bert_tf.models.heads import TaskHead
from bert_tf.tasks.model import HeadShape, TaskModel
from tests import commands
from tests.bert_tf.models import pairs_of_texts


def _learns(history):
    assert history["loss"][-1] < 0.6 * history["loss"][0]
    assert history["accuracy"][-1] > 0.85


@pytest.mark.parametrize(
    ("dtype", "jit_compile"),
    [("float32", False), pytest.param("mixed_bfloat16", True, marks=pytest.mark.more)],
)
def test_a_functional_model_learns_pairs_of_texts(dtype, jit_compile):
    keras.utils.set_random_seed(1)
    model = pairs_of_texts.make_model(dtype)
    _learns(pairs_of_texts.fit(model, jit_compile=jit_compile))
    assert {v.dtype for v in model.trainable_variables} == {"float32"}


def test_the_policy_of_the_program_is_the_models():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = pairs_of_texts.make_model(dtype=None)
    finally:
        keras.config.set_dtype_policy("float32")
    assert model.get_layer("encoder").compute_dtype == "bfloat16"


@pytest.mark.slow
def test_a_functional_model_learns_on_two_devices():
    done = commands.done("tests.bert_tf.models.fit_on_two_devices")
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["replicas"] == 2
    _learns(found)


@pytest.mark.more
def test_texts_may_be_tokenized_within_a_dataset():
    keras.utils.set_random_seed(1)
    history = pairs_of_texts.fit(pairs_of_texts.make_model(), pairs_of_texts.dataset(), epochs=3)
    assert history["loss"][-1] < history["loss"][0]


@pytest.mark.more
def test_a_model_with_heads_learns():
    keras.utils.set_random_seed(1)
    model = TaskModel(pairs_of_texts.CONFIG, [HeadShape("good", 2)])
    model.compile(
        keras.optimizers.AdamW(2e-3),
        {"good": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        metrics={"good": "accuracy"},
    )
    inputs, labels = pairs_of_texts.features()
    _learns(model.fit(inputs, {"good": labels}, batch_size=16, epochs=6, verbose=0).history)


def test_heads_drop_out_where_keras_trains():
    head = TaskHead(8, 4, rate=0.5)
    outputs = {"pooled_output": tf.ones([2, 8]), "sequence_output": tf.ones([2, 3, 8])}
    first, second = (head(outputs, training=True).numpy() for _ in range(2))
    assert (first != second).any()
    assert (head(outputs).numpy() == head(outputs).numpy()).all()
    seed = tf.constant(3)
    again = [head(outputs, seed=seed, training=True).numpy() for _ in range(2)]
    assert (again[0] == again[1]).all()
    # As in a functional model: Keras says that it trains, and layers within hear it.
    inputs = {name: keras.Input(value.shape[1:], name=name) for name, value in outputs.items()}
    model = keras.Model(inputs, head(inputs))
    assert (model(outputs, training=True).numpy() != model(outputs, training=True).numpy()).any()
    assert (model(outputs).numpy() == head(outputs).numpy()).all()


@pytest.mark.more
def test_what_keras_exports_answers_alike(tmp_path):
    inputs, _ = pairs_of_texts.features()
    shorter = {name: value[:2, :9] for name, value in inputs.items()}
    tasks = TaskModel(pairs_of_texts.CONFIG, [HeadShape("good", 2)])
    # The functional model says a length; ours takes any.
    for model, given in ((pairs_of_texts.make_model(), inputs), (tasks, inputs), (tasks, shorter)):
        wanted = model(given)
        model.export(f"{tmp_path}/exported", verbose=False)
        exported = tf.saved_model.load(f"{tmp_path}/exported")
        found = exported.serve(given)
        for value, expected in zip(*map(tf.nest.flatten, (found, wanted)), strict=True):
            tf.debugging.assert_near(value, expected, atol=1e-5)
