"""Checkpoints of google-research/bert: names, what is written beside them, damaged files."""

import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.weights import bundle
from bert_tf.weights.bundle import parameter_shapes
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError

from .test_weights import CONFIG, assert_same_weights, make_bundle

BLOCK = (
    *(f"attention/self/{part}/{kind}" for part in ("query", "key", "value") for kind in ("kernel", "bias")),
    *(f"{dense}/dense/{kind}" for dense in ("attention/output", "intermediate", "output") for kind in ("kernel", "bias")),
    *(f"{norm}/LayerNorm/{kind}" for norm in ("attention/output", "output") for kind in ("gamma", "beta")),
)  # fmt: skip
OTHERS = (
    *(f"bert/embeddings/{kind}_embeddings" for kind in ("word", "position", "token_type")),
    *(f"bert/embeddings/LayerNorm/{kind}" for kind in ("gamma", "beta")),
    *(f"bert/pooler/dense/{kind}" for kind in ("kernel", "bias")),
    *(f"cls/predictions/transform/dense/{kind}" for kind in ("kernel", "bias")),
    *(f"cls/predictions/transform/LayerNorm/{kind}" for kind in ("gamma", "beta")),
    "cls/predictions/output_bias",
    *(f"cls/seq_relationship/output_{kind}" for kind in ("weights", "bias")),
)


@pytest.fixture
def folder(tmp_path):
    """A pre-trained model."""
    weights.write(make_bundle(), f"{tmp_path}/tf1", Format.TF1)
    return tmp_path / "tf1"


def test_variables_have_the_names_and_shapes_of_the_reference(folder):
    found = tf.train.load_checkpoint(f"{folder}/bert_model.ckpt").get_variable_to_shape_map()
    blocks = {f"bert/encoder/layer_{i}/{name}" for i in range(3) for name in BLOCK}
    assert found.keys() == {*OTHERS, *blocks}
    assert found["bert/encoder/layer_2/intermediate/dense/kernel"] == [24, 40]
    assert found["cls/seq_relationship/output_weights"] == [2, 24]


def test_the_reference_knows_one_gelu_and_one_epsilon(tmp_path):
    tanh = make_bundle(dataclasses.replace(CONFIG, hidden_act="gelu_tanh"))
    weights.write(tanh, f"{tmp_path}/tanh", Format.TF1)
    assert weights.read(f"{tmp_path}/tanh").config.hidden_act == "gelu"
    with pytest.raises(InputError, match="adds 1e-12 to the variance of LayerNorm"):
        model = make_bundle(dataclasses.replace(CONFIG, layer_norm_eps=1e-5))
        weights.write(model, f"{tmp_path}/eps", Format.TF1)
    assert not os.path.exists(tmp_path / "eps")


def rename(folder, prefix):
    for path in folder.glob("bert_model.ckpt.*"):
        path.rename(folder / path.name.replace("bert_model.ckpt", prefix))


def test_the_newest_of_several_is_by_number(folder, tmp_path):
    rename(folder, "model.ckpt-343")
    newer = make_bundle(drop=("next_sentence",))
    weights.write(newer, f"{tmp_path}/newer", Format.TF1)
    rename(tmp_path / "newer", "model.ckpt-1000")
    for path in (tmp_path / "newer").glob("model.ckpt*"):
        path.rename(folder / path.name)
    assert_same_weights(weights.read(str(folder)).weights, newer.weights)


@pytest.mark.parametrize(
    "name",
    ["bert_model.ckpt", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", "bert_config.json", "."],
)  # fmt: skip
def test_any_file_names_the_model(folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    assert_same_weights(weights.read(name).weights, make_bundle().weights)
    assert_same_weights(weights.read(f"{folder}/{name}").weights, make_bundle().weights)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-200])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: (f / "bert_model.ckpt.index").write_bytes(b"junk"),
        lambda f: (f / "bert_model.ckpt.index").write_bytes(b""),
        lambda f: next(f.glob("*.data-*")).unlink(),
        lambda f: truncate(next(f.glob("*.data-*"))),
    ],
)
def test_damage_is_named(folder, spoil):
    spoil(folder)
    with pytest.raises(InputError, match=r"bert_model\.ckpt: the checkpoint is damaged"):
        weights.read(str(folder))


def test_a_missing_configuration_gets_a_remedy(folder):
    (folder / "bert_config.json").unlink()
    with pytest.raises(InputError, match=r"no bert_config\.json; copy it and vocab\.txt"):
        weights.read(str(folder))
    with pytest.raises(InputError, match="no such folder or checkpoint"):
        weights.read(f"{folder}/nothing.index")


@pytest.mark.parametrize("name", sorted(make_bundle().weights))
def test_no_weight_may_be_missing(name):
    """In our own folders: a group is there as a whole or not at all."""
    arrays = {key: np.asarray(value) for key, value in make_bundle().weights.items() if key != name}
    with pytest.raises(InputError, match=f"lacks the weight {name}"):
        bundle.check_complete(arrays, parameter_shapes(CONFIG), "here")
