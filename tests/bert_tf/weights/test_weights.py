"""Weights in and out: round trips to the bit, the reference's outputs, bad input."""

import dataclasses
import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from bert_tf import weights
from bert_tf.models.config import BertConfig
from bert_tf.weights import Bundle, bundle, formats, own
from bert_tf.weights.formats import Format
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests import commands
from tests.tiny import tiny_config

CONFIG = tiny_config(
    53, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40
)

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(48)))


def make_bundle(config=CONFIG, shape=None, units=3, drop=(), name=None, task=None):
    """A model of random weights; with the head of a task in place of those of pre-training."""
    name = name or shape
    heads = [(name, units)] if shape else []
    rng = np.random.default_rng(0)
    drop = (*drop, *((bundle.MASKED_LM, bundle.NEXT_SENTENCE) if shape else ()))
    if config.model_type != "albert" or shape:
        drop = (*drop, bundle.SENTENCE_ORDER)
    values = {
        path: rng.standard_normal(size).astype(np.float32)
        for path, size in bundle.parameter_shapes(config, heads).items()
        if not path.startswith(drop or "-")
    }
    labels = [f"label {i}" for i in range(units)] if shape in ("classification", "tagging") else []
    task = task or {"name": name, "shape": shape, "labels": labels}
    return Bundle(config, values, WordPieceVocabulary(TOKENS), tasks=(task,) if shape else ())


def assert_same_weights(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype == np.float32
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize("target", formats.WRITABLE)
@pytest.mark.parametrize(
    ("shape", "units"),
    [
        (None, 0),
        ("classification", 3),
        ("regression", 1),
        ("tagging", 5),
        ("span", 2),
        ("choice", 1),
    ],
)
def test_a_round_trip_is_bit_exact(tmp_path, target, shape, units):
    activation = "gelu" if target is Format.TF1 else "gelu_erf"
    epsilon = 1e-12 if target is Format.TF1 else 1e-5
    config = dataclasses.replace(CONFIG, hidden_act=activation, layer_norm_eps=epsilon)
    model = make_bundle(config, shape=shape, units=units)
    model = dataclasses.replace(
        model, tokenizer_settings={"lower_case": True, "strip_accents": False}
    )
    weights.write(model, f"{tmp_path}/out", target)
    assert formats.detect(f"{tmp_path}/out") is target
    found = weights.read(f"{tmp_path}/out")
    assert_same_weights(found.weights, model.weights)
    assert found.vocabulary.tokens == TOKENS
    assert found.resolved_settings() == model.resolved_settings()
    assert found.config == config
    assert found.tasks == model.tasks


@pytest.mark.parametrize("group", [bundle.POOLER, bundle.MASKED_LM, bundle.NEXT_SENTENCE])
@pytest.mark.parametrize("target", formats.WRITABLE)
def test_a_model_may_lack_a_pooler_or_a_head(tmp_path, target, group):
    model = make_bundle(drop=(group,))
    weights.write(model, f"{tmp_path}/out", target)
    assert_same_weights(weights.read(f"{tmp_path}/out").weights, model.weights)


def test_one_of_several_tasks_is_written(tmp_path):
    model = make_bundle(shape="classification")
    more = {
        "heads/spans/kernel": np.ones((24, 2), np.float32),
        "heads/spans/bias": np.ones(2, "f4"),
    }
    tasks = (*model.tasks, {"name": "spans", "shape": "span", "labels": []})
    model = dataclasses.replace(model, weights=model.weights | more, tasks=tasks)
    with pytest.raises(InputError, match=r"tasks classification, spans; choose with --task="):
        weights.write(model, f"{tmp_path}/out", Format.HUGGINGFACE)
    weights.write(model.only("spans"), f"{tmp_path}/out", Format.HUGGINGFACE)
    assert json.loads((tmp_path / "out/config.json").read_text())["architectures"] == [
        "BertForQuestionAnswering"
    ]
    found = weights.read(f"{tmp_path}/out")
    np.testing.assert_array_equal(found.weights["heads/spans/bias"], 1)


def test_the_two_gelus_come_over(tmp_path):
    for ours, theirs in (("gelu", "gelu_new"), ("gelu_erf", "gelu")):
        model = make_bundle(dataclasses.replace(CONFIG, hidden_act=ours))
        folder = f"{tmp_path}/{ours}"
        weights.write(model, folder, Format.HUGGINGFACE)
        assert json.loads(Path(folder, "config.json").read_text())["hidden_act"] == theirs
        assert weights.read(folder).config.hidden_act == ours
    with pytest.raises(InputError, match="gelu with tanh only"):
        weights.write(model, f"{tmp_path}/tf1", Format.TF1)


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        ("openai-gpt-debug", {"hidden_act": "gelu_erf"}, "GPT has only gelu, gelu_tanh, relu"),
        ("openai-gpt-debug", {"hidden_act": "tanh"}, "GPT has only gelu, gelu_tanh, relu"),
        ("distilbert-debug", {"layer_norm_eps": 1e-5}, "layer_norm_eps"),
    ],
)
def test_what_transformers_computes_otherwise_is_not_written(tmp_path, model, change, message):
    config = dataclasses.replace(BertConfig.named(model, vocab_size=len(TOKENS)), **change)
    with pytest.raises(InputError, match=message):
        model = make_bundle(config, drop=(bundle.POOLER, bundle.NEXT_SENTENCE))
        weights.write(model, f"{tmp_path}/out", Format.HUGGINGFACE)


def test_a_pooler_that_transformers_does_not_have_is_not_dropped(tmp_path):
    config = BertConfig.named("gpt2-debug", vocab_size=len(TOKENS))
    model = make_bundle(dataclasses.replace(config, pooler_act="tanh"), shape="choice", units=1)
    with pytest.raises(InputError, match="GPT-2 does not support pooler_act 'tanh'"):
        weights.write(model, f"{tmp_path}/out", Format.HUGGINGFACE)


def edit(folder, change):
    """Changes the arrays of a Hugging Face folder."""
    path = Path(folder, "model.safetensors")
    arrays = safetensors.numpy.load(path.read_bytes())
    change(arrays)
    path.write_bytes(safetensors.numpy.save(arrays))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("bert.encoder.layer.1.output.dense.bias"), r"lacks the weight bert\.encoder\.layer\.1\.output\.dense\.bias"),
        (lambda a: a.update(extra=np.ones(3, "f4")), "does not have: extra"),
        (lambda a: a.pop("bert.pooler.dense.bias"), r"lacks the weight bert\.pooler\.dense\.bias"),
        (
            lambda a: a.update({"bert.embeddings.position_embeddings.weight": np.ones((9, 24), "f4")}),
            r"position_embeddings\.weight has the shape \[9, 24\]; the configuration requires \[64, 24\]",
        ),
        (lambda a: a.update({"cls.predictions.decoder.weight": np.ones((53, 24), "f4")}), "tied"),
        (
            lambda a: a.update({"bert.embeddings.LayerNorm.gamma": np.ones(24, "f4")}),
            r"has bert\.embeddings\.LayerNorm\.gamma and bert\.embeddings\.LayerNorm\.weight, which",
        ),
    ],
)  # fmt: skip
def test_a_weight_that_does_not_fit_is_named(tmp_path, change, message):
    weights.write(make_bundle(), f"{tmp_path}/out", Format.HUGGINGFACE)
    edit(f"{tmp_path}/out", change)
    with pytest.raises(InputError, match=message):
        weights.read(f"{tmp_path}/out")


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read_as_float32(tmp_path, dtype):
    weights.write(make_bundle(), f"{tmp_path}/out", Format.HUGGINGFACE)
    edit(f"{tmp_path}/out", lambda a: a.update({k: v.astype(dtype) for k, v in a.items()}))
    found = weights.read(f"{tmp_path}/out").weights["encoder/pooler/kernel"]
    expected = make_bundle().weights["encoder/pooler/kernel"].astype(dtype)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_a_damaged_or_foreign_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="has no model of a known format"):
        weights.read(str(tmp_path))
    weights.write(make_bundle(), f"{tmp_path}/out", Format.BERT_TF)
    data = next((tmp_path / "out/checkpoint").glob("state.data*"))
    data.write_bytes(data.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match=r"checkpoint: is damaged: the checksum of state\.data"):
        weights.read(f"{tmp_path}/out")
    with pytest.raises(InputError, match="exists already"):
        weights.write(make_bundle(), f"{tmp_path}/out", Format.BERT_TF)


def test_optimizer_slots_of_tf1_are_left_out(tmp_path):
    weights.write(make_bundle(), f"{tmp_path}/out", Format.TF1)
    prefix = f"{tmp_path}/out/bert_model.ckpt"
    reader = tf.train.load_checkpoint(prefix)
    arrays = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    arrays |= {f"{name}/adam_{slot}": value for name, value in arrays.items() for slot in "mv"}
    arrays["global_step"] = np.array(7, np.int64)
    names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
        tensors=[arrays[name] for name in names],
    )  # fmt: skip
    assert_same_weights(weights.read(prefix).weights, make_bundle().weights)


def test_the_command_converts(tmp_path):
    weights.write(make_bundle(), f"{tmp_path}/tf1", Format.TF1)
    command = ["convert", f"--input={tmp_path}/tf1", f"--output={tmp_path}/ours"]
    commands.done(*command)
    assert own.find_folder(f"{tmp_path}/ours")
    assert_same_weights(weights.read(f"{tmp_path}/ours").weights, make_bundle().weights)
    assert "ours: exists already" in commands.error(*command)


def test_another_vocabulary_must_suit_the_case(tmp_path):
    weights.write(make_bundle(), f"{tmp_path}/ours", Format.BERT_TF)
    (tmp_path / "cased.txt").write_text("\n".join([*TOKENS[:-1], "Zoo"]) + "\n")
    command = ["convert", f"--input={tmp_path}/ours"]
    command += [f"--output={tmp_path}/out", f"--vocab={tmp_path}/cased.txt"]
    assert "--lower_case=false" in commands.error(*command)
    (tmp_path / "short.txt").write_text("\n".join(TOKENS[:-1]) + "\n")
    shorter = commands.error(*command, f"--vocab={tmp_path}/short.txt")
    assert "has 52 tokens, the model's own vocabulary 53" in shorter
    commands.done(*command, "--lower_case=false")
    assert not weights.read(f"{tmp_path}/out").resolved_settings()["lower_case"]


def test_a_checkpoint_of_a_folder_is_the_model_too(tmp_path):
    weights.write(make_bundle(), f"{tmp_path}/ours", Format.BERT_TF)
    run = tmp_path / "ours/runs/lr-0.1-seed-2"
    run.mkdir(parents=True)
    shutil.copytree(tmp_path / "ours/checkpoint", run / "kept")
    for place in ("checkpoint", "runs/lr-0.1-seed-2/kept"):
        found = weights.read(f"{tmp_path}/ours/{place}")
        assert_same_weights(found.weights, make_bundle().weights)
        assert found.vocabulary.tokens == TOKENS
    (tmp_path / "ours/bert_config.json").unlink()
    with pytest.raises(InputError, match=r"has a checkpoint, but no bert_config\.json"):
        weights.read(f"{tmp_path}/ours")


@pytest.mark.parametrize("target", [Format.BERT_TF, Format.TF1])
def test_descriptions_of_other_heads_are_named(tmp_path, target):
    config = dataclasses.replace(CONFIG, hidden_act="gelu")
    weights.write(make_bundle(config, shape="classification"), f"{tmp_path}/out", target)
    path = tmp_path / "out/tasks.json"
    (task,) = json.loads(path.read_text())
    path.write_text(json.dumps([task | {"labels": ["a", "b"]}]))
    if target is Format.BERT_TF:
        with pytest.raises(InputError, match=r"tasks\.json: is damaged, or was changed"):
            weights.read(f"{tmp_path}/out")
        (tmp_path / "out/checksums.json").unlink()
    with pytest.raises(
        InputError, match=r"has 3 units, but its description, .* 2 labels, requires 2"
    ):
        weights.read(f"{tmp_path}/out")
    path.write_text(json.dumps([task | {"shape": "span", "labels": []}]))
    with pytest.raises(InputError, match="describes another task|3 units, but its description"):
        weights.read(f"{tmp_path}/out")


def test_a_task_of_an_unknown_kind_names_its_file(tmp_path):
    model = make_bundle(shape="classification")
    weights.write(model, str(tmp_path), Format.BERT_TF)
    path = tmp_path / own.TASKS
    path.write_text(path.read_text().replace('"shape"', '"kind": "clasification", "shape"'))
    (tmp_path / "checksums.json").unlink()
    with pytest.raises(
        InputError,
        match=r"tasks\.json: .* of the kind 'clasification'; of classification there are",
    ):
        weights.read(str(tmp_path))


def test_the_head_on_pairs_is_a_task():
    model = make_bundle()
    pairs = model.next_sentence()
    assert pairs.task()["labels"] == ["follows", "random"] and pairs.next_sentence() is None
    inputs = model.tokenizer()(["the layer", "a mask"], ["a token", "the layer"])
    pooled = model.encoder()(inputs)["pooled_output"]
    kernel, bias = (model.weights[f"next_sentence/{name}"] for name in ("kernel", "bias"))
    found = pairs.task_model()(inputs)["next_sentence"]
    np.testing.assert_allclose(found, pooled @ kernel + bias, atol=1e-5)
    assert make_bundle(drop=(bundle.NEXT_SENTENCE,)).next_sentence() is None


def test_a_next_sentence_head_is_a_task_where_heads_of_tasks_are_plain(caplog):
    """Those of ModernBERT have a dense layer and a norm, which no pre-training has trained."""
    assert make_bundle().next_sentence().tasks[0]["labels"] == ["follows", "random"]
    config = dataclasses.replace(CONFIG, head_transform=True)
    assert make_bundle(config).next_sentence() is None
    assert "next sentences are not told" in caplog.text


def test_other_programs_cut_the_end_of_long_texts_off(caplog):
    task = {"name": "mood", "shape": "classification", "labels": ["a", "b", "c"], "keep": "tail"}
    formats.check_heads(make_bundle(shape="classification", name="mood", task=task), "huggingface")
    assert "mood: keeps another part of long texts (--keep=tail)" in caplog.text
    task = {
        "name": "moods",
        "shape": "multilabel",
        "labels": ["a", "b", "c"],
        "thresholds": [0.2, 0.5, 0.9],
    }
    formats.check_heads(make_bundle(shape="multilabel", name="moods", task=task), "huggingface")
    assert "moods: has a threshold for each label" in caplog.text


def test_the_tokenizer_of_a_model_overwrites_nothing(tmp_path):
    model = make_bundle()
    own.write_tokenizer(model, f"{tmp_path}/a")
    settings = tmp_path / "a" / registry.SETTINGS
    written = settings.read_bytes()
    settings.unlink()  # as if killed between the two files
    own.write_tokenizer(model, f"{tmp_path}/a")
    assert settings.read_bytes() == written
    other = tmp_path / "b" / registry.SETTINGS
    other.parent.mkdir()
    other.write_text('{"lower_case": false, "strip_accents": false}')
    with pytest.raises(InputError, match="has the tokenizer of another model"):
        own.write_tokenizer(model, f"{tmp_path}/b")
    assert json.loads(other.read_text())["lower_case"] is False
