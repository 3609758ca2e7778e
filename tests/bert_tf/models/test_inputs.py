"""Inputs of the encoder in all their forms."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import BertEncoder
from bert_tf.tasks.model import HeadShape, TaskModel
from pipelines.common.errors import InputError
from pipelines.tokenizers.packing import MODEL_INPUTS
from tests.bert_tf.helpers import CONFIG
from tests.bert_tf.models import user_models


@pytest.fixture(scope="module")
def encoder():
    return user_models.randomize(BertEncoder(CONFIG))


def _same(found, wanted):
    pairs = zip(keras.tree.flatten(found), keras.tree.flatten(wanted), strict=True)
    for value, expected in pairs:
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("form", [dict, list, tuple])
def test_dicts_and_lists_of_tensors_and_arrays_are_the_same(encoder, form, dtype):
    batch = user_models.batch()
    wanted = encoder(batch)
    for convert in (np.asarray, tf.convert_to_tensor):
        given = {name: convert(value.numpy().astype(dtype)) for name, value in batch.items()}
        _same(encoder(given if form is dict else form(given.values())), wanted)


def test_a_mask_may_be_boolean_or_real(encoder):
    batch = user_models.batch()
    wanted = encoder(batch)
    for dtype in (tf.bool, tf.float32):
        _same(encoder(batch | {"input_mask": tf.cast(batch["input_mask"], dtype)}), wanted)
        masked = encoder(
            batch | {"input_mask": tf.cast(batch["input_mask"], dtype)}, drop_padding=True
        )
        _same(masked["pooled_output"], encoder(batch, drop_padding=True)["pooled_output"])


@pytest.mark.parametrize("pad_id", [0, 7])
def test_ids_alone_have_the_mask_of_their_padding_and_one_segment(pad_id):
    encoder = user_models.randomize(BertEncoder(CONFIG, pad_id=pad_id))
    batch = user_models.batch()
    mask = batch["input_mask"].numpy()
    ids = np.where(mask == 1, np.maximum(batch["input_word_ids"], 8), pad_id)
    wanted = encoder(
        {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}
    )
    _same(encoder(ids), wanted)
    _same(encoder({"input_word_ids": ids}), wanted)
    _same(encoder([ids, None, None]), wanted)
    _same(encoder({"input_word_ids": ids, "input_mask": mask}), wanted)


def test_padding_is_that_of_the_family():
    assert BertEncoder(CONFIG).pad_id == 0
    roberta = dataclasses.replace(CONFIG, model_type="roberta", position_offset=2)
    assert BertEncoder(roberta).pad_id == 1
    assert BertEncoder(roberta, pad_id=5).get_config()["pad_id"] == 5


def test_symbolic_inputs_have_all_forms(encoder):
    batch = user_models.batch()
    wanted = encoder(batch)["pooled_output"]
    for form in (dict, lambda inputs: list(inputs.values()), lambda inputs: tuple(inputs.values())):
        inputs = form(user_models.symbolic_inputs())
        model = keras.Model(inputs, encoder(inputs)["pooled_output"])
        _same(model(form(batch)), wanted)
        # Keras hands NumPy arrays of any whole numbers over as the input has them.
        _same(model(form({k: v.numpy().astype("int64") for k, v in batch.items()})), wanted)
        np.testing.assert_allclose(
            model.predict(form({k: v.numpy() for k, v in batch.items()}), verbose=0),
            wanted,
            atol=1e-5,
        )
    ids = keras.Input((None,), dtype="int32")
    model = keras.Model(ids, encoder(ids)["pooled_output"])
    _same(model(batch["input_word_ids"]), encoder(batch["input_word_ids"])["pooled_output"])


def test_elements_of_datasets_have_all_forms(encoder):
    batch = user_models.batch()
    wanted = encoder(batch)["pooled_output"]
    for form in (dict, lambda inputs: tuple(inputs.values())):
        dataset = tf.data.Dataset.from_tensor_slices(form(batch)).batch(4)
        (element,) = dataset
        _same(encoder(element)["pooled_output"], wanted)
        inputs = form(user_models.symbolic_inputs())
        model = keras.Model(inputs, encoder(inputs)["pooled_output"])
        data = dataset if form is dict else dataset.map(lambda *inputs: (inputs,))
        np.testing.assert_allclose(model.predict(data, verbose=0), wanted, atol=1e-5)


def test_a_batch_may_have_more_than_the_inputs(encoder):
    batch = user_models.batch()
    _same(encoder(batch | {"weights": tf.ones([4])}), encoder(batch))


def test_a_model_with_heads_takes_what_the_encoder_takes():
    model = user_models.randomize(TaskModel(CONFIG, [HeadShape("mrpc", 2)], pad_id=3))
    assert model.encoder.pad_id == 3
    batch = user_models.batch()
    _same(model(list(batch.values())), model(batch))
    assert model(batch["input_word_ids"])["mrpc"].shape == (4, 2)


IDS = tf.ones([2, 5], tf.int32)
BAD = {
    "a wrong name": (
        {"input_ids": IDS, "input_mask": IDS},
        "the input lacks input_word_ids, input_type_ids and has 'input_ids'; the encoder takes",
    ),
    "a wrong name for the mask": (
        {"input_word_ids": IDS, "attention_mask": IDS},
        "the input lacks input_mask, input_type_ids and has 'attention_mask'",
    ),
    "an empty dict": ({}, "the input lacks input_word_ids, input_mask, input_type_ids; the enc"),
    "two in a list": ([IDS, IDS], "the input is a list of 2; the encoder takes a dict"),
    "real ids": (tf.ones([2, 5]), r"input_word_ids is float32; ids are whole numbers \(int32\)"),
    "texts": (tf.constant([["a"]]), r"input_word_ids is string.*tokenizer\(texts\)"),
    "real types": ([IDS, IDS, tf.ones([2, 5])], "input_type_ids is float32"),
    "a single sequence": (IDS[0], r"input_word_ids has 1 axis; it must be \[batch, length\]"),
    "three axes": (IDS[tf.newaxis], "input_word_ids has 3 axes"),
    "another length": (
        [IDS, IDS[:, :4], IDS],
        r"input_mask has the shape \(2, 4\), but input_word_ids \(2, 5\)",
    ),
    "ragged ids": (
        tf.ragged.constant([[1, 2], [3]]),
        r"input_word_ids is a RaggedTensor; pad it \(to_tensor\)",
    ),
    "an id beyond the vocabulary": (
        IDS * CONFIG.vocab_size,
        "input_word_ids has an id outside of the vocabulary, 0 to ",
    ),
    "a negative id": (-IDS, "input_word_ids has an id outside of the vocabulary"),
    "a mask to add": (
        [IDS, -10_000 * IDS, IDS],
        "input_mask has -10000; it must be .* from 0 to 1",
    ),
    "half a token": ([IDS, tf.ones([2, 5]) / 2, IDS], "input_mask has 0.5; it must be a whole"),
    "a third segment": ([IDS, IDS, 2 * IDS], "input_type_ids has 2; it must be .* from 0 to 1"),
    "too many tokens": (tf.ones([1, 13], tf.int32), "13 tokens exceed the 12 positions; cut"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_taken_is_one_clear_error(encoder, case):
    inputs, message = BAD[case]
    with pytest.raises(InputError, match=message):
        encoder(inputs)


def test_symbolic_inputs_are_checked_as_well(encoder):
    with pytest.raises(InputError, match="input_word_ids is float32.*dtype='int32'"):
        encoder(keras.Input((None,)))
    with pytest.raises(InputError, match="13 tokens exceed the 12 positions"):
        encoder(keras.Input((13,), dtype="int32"))
    wrong = dict(zip(("ids", "mask", "types"), user_models.symbolic_inputs().values(), strict=True))
    with pytest.raises(InputError, match="has 'ids', 'mask', 'types'"):
        encoder(wrong)
    assert list(user_models.symbolic_inputs()) == list(MODEL_INPUTS)
