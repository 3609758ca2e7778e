"""MPNet, ModernBERT and NomicBERT in folders of Hugging Face: names, round trips, and what is refused."""

import dataclasses
import json
import math

import keras
import numpy as np
import pytest

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.tasks.model import TaskModel
from bert_tf.weights import bundle
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError

from .test_roberta import SHAPES, make_bundle, names_of
from .test_weights import assert_same_weights, edit

SIZES = {
    "vocab_size": 53, "hidden_size": 24, "num_attention_heads": 4, "intermediate_size": 40,
    "max_position_embeddings": 20,
}  # fmt: skip
MPNET = BertConfig.named("mpnet-tiny", **SIZES)
MODERN = BertConfig.named("modernbert-tiny", **SIZES, pool_mean=True, head_dropout=0.0)
NOMIC = BertConfig.named("nomic_bert-tiny", **SIZES, head_dropout=0.0)
EACH = pytest.mark.parametrize("config", [MPNET, MODERN, NOMIC], ids=lambda c: c.model_type)


_erf = np.vectorize(math.erf)


def test_names_of_a_modernbert(tmp_path):
    weights.write(make_bundle(MODERN), f"{tmp_path}/hf", Format.HUGGINGFACE)
    block = ("attn.Wqkv", "attn.Wo", "mlp.Wi", "mlp.Wo", "mlp_norm", "attn_norm")
    expected = {f"model.layers.{i}.{layer}.weight" for i in range(4) for layer in block}
    expected -= {"model.layers.0.attn_norm.weight"}
    expected |= {f"model.{x}.weight" for x in ("embeddings.tok_embeddings", "embeddings.norm")}
    expected |= {"model.final_norm.weight", "head.dense.weight", "head.norm.weight"}
    assert names_of(tmp_path / "hf") == expected | {"decoder.bias"}
    config = json.loads((tmp_path / "hf/config.json").read_text())
    stated = {
        "architectures": ["ModernBertForMaskedLM"], "global_rope_theta": 160_000.0,
        "local_rope_theta": 10_000.0, "global_attn_every_n_layers": 3, "local_attention": 128,
        "hidden_activation": "gelu", "classifier_activation": "gelu", "classifier_pooling": "mean",
    }  # fmt: skip
    assert {key: config[key] for key in stated} == stated


def test_names_of_an_mpnet(tmp_path):
    weights.write(make_bundle(MPNET, drop=(bundle.POOLER,)), f"{tmp_path}/hf", Format.HUGGINGFACE)
    found = names_of(tmp_path / "hf")
    assert "mpnet.encoder.relative_attention_bias.weight" in found
    layer = "mpnet.encoder.layer.1."
    attention = [f"attention.attn.{part}" for part in "qkvo"] + ["attention.LayerNorm"]
    wanted = {*attention, "intermediate.dense", "output.dense", "output.LayerNorm"}
    kinds = (".weight", ".bias")
    assert {name for name in found if name.startswith(layer)} == {
        f"{layer}{name}{kind}" for name in wanted for kind in kinds
    }


@EACH
def test_a_model_without_a_task_comes_back_to_the_bit(tmp_path, config):
    model = make_bundle(config, drop=(bundle.POOLER,))
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    found = weights.read(f"{tmp_path}/hf")
    assert found.config == config
    assert_same_weights(found.weights, model.weights)


@EACH
@pytest.mark.parametrize("shape", SHAPES)
def test_a_task_comes_back_to_the_bit(tmp_path, config, shape):
    drop = (bundle.POOLER,) if shape in ("tagging", "span") else ()
    if config is NOMIC and shape in ("span", "choice"):
        pytest.skip("transformers has no such class")
    model = make_bundle(config, shape=shape, units=SHAPES[shape], drop=drop)
    weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)
    found = weights.read(f"{tmp_path}/hf")
    assert (found.config, found.tasks) == (config, model.tasks)
    assert_same_weights(found.weights, model.weights)
    if config is MODERN:
        assert "head.dense.weight" in names_of(tmp_path / "hf")
        edit(tmp_path / "hf", lambda arrays: arrays.pop("head.dense.weight"))
        with pytest.raises(InputError, match=r"lacks the weight head\.dense\.weight"):
            weights.read(f"{tmp_path}/hf")


def test_each_head_of_a_modernbert_has_its_transform():
    model = make_bundle(MODERN, shape="tagging", units=3)
    net = model.task_model()
    ids = np.array([[5, 9, 11, 7]], np.int32)
    logits = net({"input_word_ids": ids, "input_mask": np.ones_like(ids)})["tagging"]
    x = net.encoder(ids)["sequence_output"][0].numpy()
    head = {name: model.weights[f"heads/tagging/{name}"] for name in (
        "transform/dense/kernel", "transform/norm/gamma", "kernel", "bias")}  # fmt: skip
    inner = np.array(
        [0.5 * v * (1 + _erf(v / math.sqrt(2))) for v in x @ head["transform/dense/kernel"]]
    )
    inner = (inner - inner.mean(-1, keepdims=True)) / inner.std(-1, keepdims=True)
    expected = inner * head["transform/norm/gamma"] @ head["kernel"] + head["bias"]
    np.testing.assert_allclose(logits[0], expected, atol=2e-3, rtol=1e-3)
    again = TaskModel.from_config(net.get_config())
    assert [v.path for v in again.variables] == [v.path for v in net.variables]


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (MPNET, {"relative_positions": False}, "MPNet does not support relative_positions False"),
        (MPNET, {"type_vocab_size": 2}, "MPNet does not support type_vocab_size 2"),
        (NOMIC, {"rope_theta": None}, "has no rope_theta"),
        (MODERN, {"norm_bias": True}, "ModernBERT does not support norm_bias True"),
        (MODERN, {"local_attention": 0, "local_rope_theta": None, "global_every": 1},
         "has no rope_theta or no local_attention"),
    ],
)  # fmt: skip
def test_what_transformers_does_not_compute_is_refused(tmp_path, config, changes, message):
    model = make_bundle(dataclasses.replace(config, **changes), drop=(bundle.POOLER,))
    with pytest.raises(InputError, match=message):
        weights.write(model, f"{tmp_path}/hf", Format.HUGGINGFACE)


@EACH
def test_checkpoints_of_tensorflow_1_refuse_them(tmp_path, config):
    model = make_bundle(config, drop=(bundle.MASKED_LM,))
    with pytest.raises(InputError, match="google-research/bert does not support that"):
        weights.write(model, f"{tmp_path}/out", Format.TF1)


@EACH
def test_keras_saves_and_loads_them(tmp_path, config):
    model = make_bundle(config, shape="tagging", units=3).task_model()
    model.save(f"{tmp_path}/model.keras")
    again = keras.models.load_model(f"{tmp_path}/model.keras")
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@EACH
def test_they_are_adapted(config):
    encoder = make_bundle(config).encoder()
    encoder.enable_lora(2)
    ids = np.array([[5, 9, 11, 7]], np.int32)
    before = encoder(ids)["sequence_output"]
    assert sum(v.trainable for v in encoder.variables) == 4 * config.num_hidden_layers
    again = type(encoder).from_config(encoder.get_config())
    again.set_weights(encoder.get_weights())
    np.testing.assert_allclose(again(ids)["sequence_output"], before, atol=1e-5)
    encoder = make_bundle(config).encoder()
    encoder.quantize("int8")
    assert np.abs(encoder(ids)["sequence_output"] - before).mean() < 0.2
