"""Keras models of what is loaded, and what was trained with Keras back in a file."""

import dataclasses

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.model import TaskModel
from bert_tf.weights import Bundle
from bert_tf.weights.bundle import POOLER
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from tests.bert_tf.models import user_models
from tests.bert_tf.weights.test_weights import assert_same_weights, make_bundle
from tests.pipelines.tokenizers import byte_bpe_reference
from tests.tiny import tiny_config

IDS = np.array([[2, 7, 9, 3, 0], [2, 8, 3, 0, 0]])


def test_an_encoder_with_weights_is_one_line(folders):
    encoder = bert_tf.load(folders["mood"]).encoder(dtype="mixed_bfloat16")
    assert encoder.compute_dtype == "bfloat16"
    bundle = bert_tf.load(folders["mood"])
    for name, value in encoder.arrays().items():
        np.testing.assert_array_equal(value, bundle.weights[name])


def test_errors_of_a_layer_are_one_line():
    """Keras puts a report of the layer around them."""
    encoder = make_bundle().encoder()
    most = encoder.config.max_seq_length
    with pytest.raises(InputError) as found:
        encoder(np.ones([1, most + 1], np.int32))
    assert str(found.value).startswith(f"{most + 1} tokens exceed the {most} positions")


def test_an_encoder_has_its_weights_wherever_it_is_made():
    bundle = make_bundle()
    wanted = bundle.encoder()(IDS)["pooled_output"]
    np.testing.assert_array_equal(bundle.encoder(name="other")(IDS)["pooled_output"], wanted)

    class Inside(keras.layers.Layer):
        def build(self, input_shape):
            self.encoder = bundle.encoder()

        def call(self, ids):
            return self.encoder(ids)["pooled_output"]

    np.testing.assert_array_equal(Inside()(IDS), wanted)
    first, second = bundle.encoder(name="first"), bundle.encoder(name="second")
    ids = keras.Input((None,), dtype="int32")
    both = keras.Model(ids, [part(ids)["pooled_output"] for part in (first, second)])
    for found in both(IDS):
        np.testing.assert_array_equal(found, wanted)


def test_padding_is_that_of_the_vocabulary():
    config = tiny_config(400)
    vocabulary = byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 400)
    bundle = dataclasses.replace(Bundle(config, make_bundle(config).weights), vocabulary=vocabulary)
    assert bundle.encoder().pad_id == 1
    assert bundle.encoder(pad_id=0).pad_id == 0
    inputs = bundle.tokenizer()(["one", "two words or three"])
    encoder = user_models.randomize(bundle.encoder())
    np.testing.assert_array_equal(
        encoder(inputs["input_word_ids"])["pooled_output"], encoder(inputs)["pooled_output"]
    )


@pytest.mark.parametrize("name", ["mood", "tags", "pick"])
def test_a_model_with_heads_is_one_line(folders, name):
    bundle = bert_tf.load(folders[name])
    model = bundle.task_model()
    tasks = [task["name"] for task in bundle.tasks]
    assert list(model(IDS)) == tasks
    for group in (model.encoder.arrays(), model.heads.arrays()):
        for path, value in group.items():
            np.testing.assert_array_equal(value, bundle.weights[path])


def test_a_model_without_tasks_or_weights_is_told():
    with pytest.raises(InputError, match="has no task; fine-tune it for one first"):
        make_bundle().task_model()
    lacking = make_bundle(shape="classification", drop=(POOLER,))
    with pytest.raises(InputError, match="lacks the weight encoder/pooler/kernel"):
        lacking.task_model()
    make_bundle(shape="tagging", drop=(POOLER,)).task_model()


@pytest.mark.parametrize("target", [Format.BERT_TF, Format.HUGGINGFACE])
def test_what_keras_trained_is_written_and_read(tmp_path, target):
    bundle = make_bundle()
    encoder = bundle.encoder(name="mine")
    user_models.randomize(encoder)
    encoder.enable_lora(2)
    user_models.randomize(encoder, 1)
    changed = bundle.with_weights_of(encoder)
    bert_tf.save(changed, tmp_path / "model", target)
    again = bert_tf.load(tmp_path / "model")
    assert_same_weights(again.weights, changed.weights)
    wanted = encoder(IDS)["sequence_output"]
    np.testing.assert_allclose(again.encoder()(IDS)["sequence_output"], wanted, atol=1e-4)
    assert {name for name in bundle.weights if not name.startswith("encoder/")} <= {*again.weights}


def test_formats_go_by_their_names(tmp_path):
    bundle = make_bundle()
    bert_tf.save(bundle, f"{tmp_path}/hf", "huggingface")
    assert_same_weights(bert_tf.load(f"{tmp_path}/hf").weights, bundle.weights)
    with pytest.raises(InputError, match="'tf_hub' is not a format to write; use one of bert_tf, "):
        bert_tf.save(bundle, f"{tmp_path}/hub", "tf_hub")


def test_heads_that_keras_trained_are_written_and_read(tmp_path):
    bundle = make_bundle(shape="classification")
    model = user_models.randomize(bundle.task_model())
    bert_tf.save(bundle.with_weights_of(model), f"{tmp_path}/model")
    again = bert_tf.load(f"{tmp_path}/model").task_model()
    np.testing.assert_array_equal(again(IDS)["classification"], model(IDS)["classification"])


def test_weights_of_another_model_are_told():
    bundle = make_bundle(shape="classification")
    other = dataclasses.replace(bundle.config, hidden_act="relu")
    with pytest.raises(InputError, match="the Keras model has another configuration"):
        bundle.with_weights_of(bert_tf.BertEncoder(other))
    with pytest.raises(InputError, match="do not match the heads"):
        bundle.with_weights_of(TaskModel(bundle.config, [("other", 3)]))
