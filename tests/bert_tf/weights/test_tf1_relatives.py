"""TF 1 checkpoints of ALBERT and ELECTRA: round trips, and the official programs as references."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.weights import bundle
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError

from .test_transformers import our_outputs, random_inputs
from .test_weights import assert_same_weights
from .test_weights import make_bundle as make_any

SMALL = {
    "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 40, "max_position_embeddings": 20, "embedding_size": 16,
}  # fmt: skip
ALBERT = dataclasses.replace(BertConfig.named("albert-base"), **SMALL)
ELECTRA = dataclasses.replace(BertConfig.named("electra-small"), generator_size=0.5, **SMALL)
SCRIPT = Path(__file__).parents[2] / "official_outputs.py"


def make_bundle(config, **options):
    drop = [*options.pop("drop", ()), bundle.NEXT_SENTENCE]
    if config.model_type == "electra":
        drop += [bundle.SENTENCE_ORDER, bundle.MASKED_LM, bundle.POOLER]
    return dataclasses.replace(make_any(config, drop=tuple(drop), **options), vocabulary=None)


def test_weights_without_a_place_are_not_dropped(tmp_path):
    model = dataclasses.replace(make_any(ALBERT), vocabulary=None)
    with pytest.raises(InputError, match="tf1 of albert has no place for next_sentence/"):
        weights.write(model, f"{tmp_path}/tf1", Format.TF1)
    assert not (tmp_path / "tf1").exists()


@pytest.mark.parametrize("shape", ["classification", "span"])
def test_an_albert_with_a_head_comes_back(tmp_path, shape):
    units = {"classification": 3, "span": 2}[shape]
    model = make_bundle(ALBERT, shape=shape, units=units)
    weights.write(model, f"{tmp_path}/tf1", Format.TF1)
    assert_same_weights(weights.read(f"{tmp_path}/tf1").weights, model.weights)


def test_an_electra_has_the_official_head_without_a_pooler_only(tmp_path):
    plain = dataclasses.replace(ELECTRA, pooler_act=None, pooler_dropout=0.0)
    model = make_bundle(plain, shape="classification", units=3)
    weights.write(model, f"{tmp_path}/tf1", Format.TF1)
    names = {name for name, _ in tf.train.list_variables(f"{tmp_path}/tf1/bert_model.ckpt")}
    name = model.tasks[0]["name"]
    assert {f"task_specific/{name}/dense/{kind}" for kind in ("kernel", "bias")} <= names
    assert_same_weights(weights.read(f"{tmp_path}/tf1").weights, model.weights)
    pooled = make_any(
        ELECTRA, shape="classification", units=3, drop=("next_", "sentence_", "masked_lm/")
    )
    with pytest.raises(InputError, match="no layer between"):
        weights.write(pooled, f"{tmp_path}/no", Format.TF1)


# A released ELECTRA has another size and no pooler.
RELEASED_ELECTRA = dataclasses.replace(
    ELECTRA, hidden_size=128, num_attention_heads=2, pooler_act=None, pooler_dropout=0.0,
    embedding_size=64, intermediate_size=96,
)  # fmt: skip


@pytest.mark.parametrize("config", [ALBERT, RELEASED_ELECTRA], ids=["albert", "electra"])
def test_a_released_model_is_read_without_our_configuration(tmp_path, config):
    model = make_bundle(config)
    weights.write(model, f"{tmp_path}/tf1", Format.TF1)
    (tmp_path / "tf1/bert_config.json").unlink()
    found = weights.read(f"{tmp_path}/tf1")
    assert found.config == config
    assert_same_weights(found.weights, model.weights)


def test_embeddings_as_wide_as_hidden_states_are_not_projected(tmp_path):
    wide = dataclasses.replace(ALBERT, embedding_size=ALBERT.hidden_size)
    with pytest.raises(InputError, match="albert does not project embeddings of the width of"):
        weights.write(make_bundle(wide), f"{tmp_path}/no", Format.TF1)
    model = make_bundle(dataclasses.replace(ALBERT, embedding_size=None))
    weights.write(model, f"{tmp_path}/tf1", Format.TF1)
    (tmp_path / "tf1/bert_config.json").unlink()
    found = weights.read(f"{tmp_path}/tf1")
    assert found.config == model.config
    assert_same_weights(found.weights, model.weights)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [0, 1])
@pytest.mark.parametrize("config", [ALBERT, ELECTRA], ids=["albert", "electra"])
def test_outputs_are_those_of_the_official_program(tmp_path, config, shape):
    program = config.model_type
    clone = os.environ.get(f"{program.upper()}_CLONE")
    if not clone:
        pytest.skip(f"{program.upper()}_CLONE names no clone of google-research/{program}")
    if shape:
        changes = {"hidden_size": 48, "num_hidden_layers": 2, "embedding_size": 32}
        config = dataclasses.replace(config, **changes)
    model = make_bundle(config)
    smaller = {k: v if k.endswith("/gamma") else 0.1 * v for k, v in model.weights.items()}
    model = dataclasses.replace(model, weights=smaller)
    weights.write(model, f"{tmp_path}/tf1", Format.TF1)
    inputs = random_inputs(config)
    np.savez(f"{tmp_path}/in.npz", **inputs)
    places = (f"{tmp_path}/tf1", f"{tmp_path}/in.npz", f"{tmp_path}/out.npz")
    command = [sys.executable, "-P", str(SCRIPT), program, clone, *places]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = inputs["attention_mask"].astype(bool)
    features = {
        "input_word_ids": tf.constant(inputs["input_ids"], tf.int32),
        "input_mask": tf.constant(inputs["attention_mask"], tf.int32),
        "input_type_ids": tf.constant(inputs["token_type_ids"], tf.int32),
    }
    outputs = model.encoder()(features)
    with np.load(f"{tmp_path}/out.npz") as theirs:
        mine = outputs["sequence_output"].numpy()
        assert np.abs(mine - theirs["sequence"])[seen].max() < 1e-5
        if "pooled" in theirs:
            assert np.abs(outputs["pooled_output"].numpy() - theirs["pooled"]).max() < 1e-5
        else:
            logits = our_outputs(model, inputs)["prediction_logits"]
            assert np.abs(logits - theirs["replaced"])[seen].max() < 1e-5
