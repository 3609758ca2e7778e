"""The Hub pair, in programs without our code, and as a Keras 3 layer."""

import collections
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.export import hub, sources
from bert_tf.models.config import BertConfig
from bert_tf.serving.hub_layer import HubLayer
from bert_tf.weights import extension
from pipelines.common.errors import InputError
from pipelines.tokenizers.bpe_vocabulary import ByteBPEVocabulary
from tests.bert_tf.exported import random_bundle

pytestmark = pytest.mark.more

TEXTS = ["the layer reads", "every mask of the deep token", "the layer writes", "every mask trains"]


@pytest.fixture(scope="module")
def bundle(folders):
    return weights.read(folders["pretrained"])


@pytest.fixture(scope="module")
def pair(folders, bundle, tmp_path_factory):
    source = sources.of_bundle(bundle, folders["pretrained"])
    return hub.export(source, str(tmp_path_factory.mktemp("h") / "hub"))


def _expected(bundle, texts):
    tokens = bundle.tokenizer().tokenize(texts).to_list()
    pooled = []
    for row in tokens:
        ids = tf.constant([[2, *row, 3]])
        assert bundle.vocabulary.tokens[2:4] == ("[CLS]", "[SEP]")
        inputs = {
            "input_word_ids": ids,
            "input_mask": tf.ones_like(ids),
            "input_type_ids": tf.zeros_like(ids),
        }
        pooled.append(bundle.encoder()(inputs)["pooled_output"][0].numpy())
    return tokens, np.stack(pooled)


def test_it_is_used_and_fine_tuned_without_our_code(pair, bundle, tmp_path):
    script = os.path.abspath(os.path.join(os.path.dirname(__file__), "consumers/use_hub.py"))
    done = subprocess.run(
        [sys.executable, "-P", script, *pair, f"{tmp_path}/result.json"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with open(f"{tmp_path}/result.json") as file:
        result = json.load(file)
    tokens, pooled = _expected(bundle, TEXTS)
    assert result["tokens"] == tokens
    np.testing.assert_allclose(result["pooled"], pooled, atol=1e-5)
    assert set(map(tuple, result["shapes"].values())) == {(4, 48)}
    row = tokens[0]
    assert result["pair"]["input_word_ids"] == [2, *row, 3, *row, 3] + [0] * (37 - 2 * len(row))
    assert sum(result["pair"]["input_type_ids"]) == len(row) + 1
    for how in ("by_hand", "keras", "mirrored"):
        first, last = result[how]
        assert last < 0.6 * first, (how, first, last)


def test_it_is_read_back_as_a_model(pair, bundle):
    again = weights.read(pair[0])
    assert again.config == bundle.config
    assert again.vocabulary == bundle.vocabulary
    assert again.resolved_settings() == bundle.resolved_settings()
    kept = {name for name in bundle.weights if not name.startswith("next_sentence/")}
    assert again.weights.keys() == kept
    for name in kept:
        np.testing.assert_array_equal(again.weights[name], bundle.weights[name])


def test_a_keras_3_layer_trains_reloads_and_exports(pair, bundle, tmp_path):
    def make():
        text = keras.Input([], dtype="string")
        encoded = HubLayer(pair[1], name="preprocess")(text)
        encoder = HubLayer(pair[0], trainable=True, name="encoder")
        return keras.Model(text, keras.layers.Dense(2)(encoder(encoded)["pooled_output"]))

    model = make()
    _, pooled = _expected(bundle, TEXTS)
    found = model.get_layer("encoder")(model.get_layer("preprocess")(tf.constant(TEXTS)))
    np.testing.assert_allclose(found["pooled_output"], pooled, atol=1e-5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss)
    data = tf.data.Dataset.from_tensor_slices((TEXTS * 4, [0, 1, 0, 1] * 4)).batch(8)
    history = model.fit(data, epochs=12, verbose=0).history["loss"]
    assert history[-1] < 0.6 * history[0]
    model.save(f"{tmp_path}/model.keras")
    again = keras.models.load_model(f"{tmp_path}/model.keras")
    before = model(tf.constant(TEXTS)).numpy()
    np.testing.assert_allclose(again(tf.constant(TEXTS)), before, atol=1e-5)
    model.export(f"{tmp_path}/served", verbose=False)
    served = tf.saved_model.load(f"{tmp_path}/served")
    np.testing.assert_allclose(served.serve(tf.constant(TEXTS)), before, atol=1e-5)


def test_a_frozen_layer_can_be_trained_later(pair):
    layer = HubLayer(Path(pair[0]))
    assert not layer.trainable_variables
    layer.trainable = True
    frozen = HubLayer(pair[0], trainable=True)
    assert len(layer.trainable_variables) == len(frozen.trainable_variables) > 9
    frozen.trainable = False
    assert not frozen.trainable_variables


def test_nothing_is_overwritten(pair, folders, bundle):
    source = sources.of_bundle(bundle, folders["pretrained"])
    with pytest.raises(InputError, match="hub: exists already"):
        hub.export(source, os.path.dirname(pair[0]))


def test_a_damaged_pair_is_named(pair, tmp_path):
    copy = Path(shutil.copytree(pair[0], tmp_path / "encoder"))
    for name in ("saved_model.pb", "assets/vocab.txt", "assets/bert_config.json"):
        data = (copy / name).read_bytes()
        (copy / name).write_bytes(data[:50] + b"x" + data[51:])
        with pytest.raises(InputError, match=f"{name}: is damaged, or was changed"):
            weights.read(str(copy))
        (copy / name).write_bytes(data)
    assert weights.read(str(copy)).vocabulary


def test_settings_of_other_tokenizers_are_read_back(bundle, tmp_path):
    kept = extension.with_kept_tokens(bundle, ["<e1>"])
    words = ByteBPEVocabulary.learn(collections.Counter({b"the": 5, b" words": 9}), 263)
    config = BertConfig.named("roberta-debug", vocab_size=len(words))
    settings = words.resolve({"add_prefix_space": True, "strip": True})
    bytes_ = random_bundle(config, words, [], 0, without=("next_sentence", "masked_lm"))
    for name, model in (
        ("kept", kept),
        ("bytes", dataclasses.replace(bytes_, tokenizer_settings=settings)),
    ):
        place = str(tmp_path / name)
        encoder, _ = hub.export(sources.of_bundle(model, place), f"{place}/hub")
        again = weights.read(encoder)
        assert again.resolved_settings() == model.resolved_settings()
        texts = ["ab ", "the <e1> layer"]
        found, wanted = (each.tokenizer().tokenize(texts).to_list() for each in (again, model))
        assert found == wanted
