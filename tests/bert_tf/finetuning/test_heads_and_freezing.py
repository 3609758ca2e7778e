"""Heads with a BiLSTM or of other layers, and encoders that are frozen, as a whole or in part."""

import dataclasses
import glob
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import weights
from bert_tf.finetuning import freezing, sweep
from bert_tf.finetuning.freezing import Frozen
from bert_tf.models import encoders
from bert_tf.models.config import BertConfig
from bert_tf.models.encoder import BertEncoder
from bert_tf.models.families import FAMILIES
from bert_tf.models.head_config import HeadConfig, HeadLayers
from bert_tf.serving import file_prediction
from bert_tf.training import hardware
from bert_tf.vectors import blocks
from pipelines.common import machine
from pipelines.common.errors import InputError
from pipelines.labelled.source import Source
from tests.bert_tf.labelled_data import (
    BART,
    CONFIG,
    make_choices,
    make_pairs,
    make_spans,
    make_tags,
    make_texts,
    settings_of,
    tune,
    write_init,
)

pytestmark = pytest.mark.more

_LSTM = {"bilstm_layers": 1, "bilstm_width": 16}


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param(layers, marks=[pytest.mark.slow] * (layers is not HeadLayers.CONCAT_LAST_4))
        for layers in HeadLayers
    ],
)
def test_tags_by_features_of_frozen_layers(tmp_path, init, layers):
    """The feature-based approach, of each choice of layers; the weights stay as they were."""
    report, output = tune(
        tmp_path, init, "ner", make_tags, head_layers=layers, freeze="all", epochs=8.0,
        learning_rates=(1e-2,), **_LSTM,
    )  # fmt: skip
    assert report["metrics"]["median"]["f1"] > 0.8
    before, after = weights.read(init), weights.read(output)
    for name, value in before.weights.items():
        if name.startswith("encoder/") and "pooler" not in name:
            np.testing.assert_array_equal(after.weights[name], value)
    # A block of the layers that are read, of each split.
    kept = glob.glob(f"{tmp_path}/cache/ner/frozen-*/00000.npy")
    indices = HeadConfig(layers).indices(CONFIG.num_hidden_layers)
    assert {np.load(path, mmap_mode="r").shape[1:] for path in kept} == {(len(indices), 32)}
    (task,) = json.load(open(f"{output}/tasks.json"))
    assert task["head"] == {"layers": layers.value, **_LSTM}
    # What was scored of kept outputs is what the model answers by itself.
    before = open(f"{output}/predictions.dev.txt").read()
    dev = Source(f"{tmp_path}/data/dev.txt")
    (path, *_), _ = file_prediction.predict_file(output, dev, f"{tmp_path}/again", labelled=True)
    assert open(path).read() == before


SHAPES = {
    "classification": make_texts,
    "pair": make_pairs,
    "choice": make_choices,
    "span": make_spans,
}
_CASES = [(kind, freeze) for freeze in (None, "all") for kind in SHAPES]
_QUICK_CASES = (("choice", "all"),)


@pytest.mark.parametrize(
    "kind,freeze",
    [
        case if case in _QUICK_CASES else pytest.param(*case, marks=pytest.mark.slow)
        for case in _CASES
    ],
)
def test_a_bilstm_serves_every_shape(tmp_path, init, kind, freeze):
    report, output = tune(
        tmp_path, init, kind, SHAPES[kind], freeze=freeze, head_layers="weighted_each", epochs=8.0,
        learning_rates=(1e-2,), **_LSTM,
    )  # fmt: skip
    (baseline,) = {report["baselines"].get(name) for name in ("accuracy", "f1")} - {None} or {0.3}
    score = next(run["score"] for run in report["grid"])
    assert score > baseline + 0.15
    model = weights.read(output)
    assert f"heads/{kind}/body/bilstm/layer_0_forward/kernel" in model.weights


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "make"), [("classification", make_texts), ("ner", make_tags)])
def test_heads_begin_with_the_dense_layer_and_norm_of_the_masked_lm(kind, make, tmp_path):
    """Of a ModernBERT, as in transformers; the output layer is new."""
    values = {x: getattr(CONFIG, x) for x in ("vocab_size", "hidden_size", "num_attention_heads")}
    config = BertConfig.named("modernbert-debug", **values, intermediate_size=48)
    first, quick = write_init(str(tmp_path / "init"), config), {"learning_rates": (1e-12,)}
    _, output = tune(tmp_path, first, kind, make, epochs=0.2, **quick)
    before, model = weights.read(first).weights, weights.read(output)
    head = f"heads/{kind}/transform/"
    for ours, theirs in {"dense/kernel": "transform/kernel", "norm/gamma": "norm/gamma"}.items():
        np.testing.assert_allclose(
            model.weights[head + ours], before[f"masked_lm/{theirs}"], atol=1e-6
        )
    # A head that was trained is not replaced.
    model.weights[f"{head}dense/kernel"][:] = 0.5
    trained = dataclasses.replace(model, weights=before | model.weights)
    weights.write(trained, f"{tmp_path}/trained", weights.formats.Format.BERT_TF)
    (tmp_path / "again").mkdir()
    _, output = tune(tmp_path / "again", f"{tmp_path}/trained", kind, make, epochs=0.2, **quick)
    np.testing.assert_allclose(weights.read(output).weights[f"{head}dense/kernel"], 0.5, atol=1e-6)


@pytest.mark.slow
def test_frozen_features_train_a_plain_head(tmp_path, init):
    """The head reads the pooler, which is trained with it, on the last layer that was kept."""
    _, output = tune(
        tmp_path, init, "classification", make_texts, freeze="all", epochs=10.0,
        learning_rates=(1e-2,),
    )  # fmt: skip
    losses = [
        json.loads(line)["loss"] for line in open(glob.glob(f"{output}/runs/*/history.jsonl")[0])
    ]
    assert losses[-1] < losses[0] - 0.01
    before, after = weights.read(init).weights, weights.read(output).weights
    name = "encoder/pooler/kernel"
    assert np.abs(before[name] - after[name]).max() > 0


def test_kept_outputs_change_nothing(tmp_path, init, monkeypatch):
    """A frozen encoder without dropout gives the same training, computed or read."""
    settings = {"freeze": "all", "epochs": 2.0, **_LSTM}
    kept, _ = tune(tmp_path, init, "ner", make_tags, **settings)
    again = settings_of(init, "ner", f"{tmp_path}/data", **settings)
    freezing.remove_outputs(f"{tmp_path}/cache")
    sweep.finetune(again, f"{tmp_path}/out", f"{tmp_path}/cache", False)
    assert not glob.glob(f"{tmp_path}/cache/ner/frozen-*")  # a finished run needs none
    monkeypatch.setattr("bert_tf.finetuning.freezing.with_outputs", lambda data, *_: data)
    computed = sweep.finetune(again, f"{tmp_path}/computed", f"{tmp_path}/cache", False)
    for name, value in kept["metrics"]["median"].items():
        assert computed["metrics"]["median"][name] == pytest.approx(value, abs=2e-2)


def test_kept_outputs_are_made_block_by_block(tmp_path, init, monkeypatch):
    """A run that was killed resumes, and damage is reported with a remedy that works."""
    monkeypatch.setattr(blocks, "MAX_VALUES", 32 * 200)
    settings = {"freeze": "all", "epochs": 0.5, **_LSTM}
    first, _ = tune(tmp_path, init, "ner", make_tags, **settings)
    again = settings_of(init, "ner", f"{tmp_path}/data", **settings)
    paths = sorted(glob.glob(f"{tmp_path}/cache/ner/frozen-*/*"))
    kept = {path: open(path, "rb").read() for path in paths}
    damaged = next(path for path in paths if path.endswith("/00001.npy"))
    missing, manifest = (damaged.replace("00001.npy", x) for x in ("00000.npy", "manifest.json"))

    def tune_again():
        report = sweep.finetune(again, f"{tmp_path}/again", f"{tmp_path}/cache", False)
        assert {path: open(path, "rb").read() for path in paths} == kept
        assert report["metrics"] == first["metrics"]

    os.truncate(damaged, len(kept[damaged]) // 2)
    with pytest.raises(InputError, match=f"{damaged}: is missing, damaged, or was.*{manifest}"):
        tune_again()
    os.remove(manifest)
    os.remove(missing)
    with pytest.raises(InputError, match=f"{damaged}: is damaged; remove it, and run bert-tf fi"):
        tune_again()
    os.remove(damaged)
    tune_again()


def test_clean_removes_kept_outputs(tmp_path, init, capsys):
    tune(tmp_path, init, "ner", make_tags, freeze="all", epochs=0.2, **_LSTM)
    (tmp_path / "cache" / "ner" / "mine").mkdir()
    freezing.remove_outputs(f"{tmp_path}/cache")
    assert "removed" in capsys.readouterr().out
    assert not glob.glob(f"{tmp_path}/cache/ner/frozen-*")
    assert (tmp_path / "cache/ner/mine").exists()
    (tmp_path / "cache/ner/mine").rmdir()
    freezing.remove_outputs(f"{tmp_path}/cache")
    assert f"{tmp_path}/cache" in capsys.readouterr().out


def test_a_run_may_be_scored_at_its_end_alone(tmp_path, init):
    report, _ = tune(tmp_path, init, "classification", make_texts, evaluations=0, epochs=3.0)
    (run,) = report["grid"]
    assert len(run["evaluations"]) == 1
    with pytest.raises(InputError, match="--patience: counts evaluations, and --evaluations is 0"):
        settings_of(init, "classification", "x", evaluations=0, patience=1).check()


def test_some_layers_are_frozen(tmp_path, init):
    _, output = tune(tmp_path, init, "classification", make_texts, freeze="embeddings,0", epochs=1.0)  # fmt: skip
    before, after = weights.read(init).weights, weights.read(output).weights
    for name, value in before.items():
        if name.startswith(("encoder/embeddings", "encoder/block_0")):
            np.testing.assert_array_equal(after[name], value, name)
        if name.startswith("encoder/block_1/") and name.endswith("/kernel"):
            assert np.abs(after[name] - value).max() > 0, name
    assert not glob.glob(f"{tmp_path}/cache/classification/frozen-*")


@pytest.mark.parametrize(
    "text,embeddings,blocks,whole",
    [
        (None, False, set(), False),
        ("all", True, {0, 1, 2, 3}, True),
        ("embeddings", True, set(), False),
        ("0-3", False, {0, 1, 2, 3}, False),
        ("embeddings, 0-1, 3", True, {0, 1, 3}, False),
        ("embeddings,0-3", True, {0, 1, 2, 3}, True),
    ],
)
def test_what_freeze_names(text, embeddings, blocks, whole):
    config = dataclasses.replace(CONFIG, num_hidden_layers=4)
    assert Frozen.parse(text, config) == Frozen(embeddings, frozenset(blocks), whole)


def test_weights_that_are_frozen_need_no_moments(monkeypatch):
    asked = []
    monkeypatch.setattr(machine, "check_memory", lambda size, what: asked.append((size, what)))
    encoder = encoders.unallocated(CONFIG)
    frozen = sum(x.parameters for x in Frozen.parse("embeddings,0", CONFIG).layers(encoder))
    assert frozen == encoder.embeddings.parameters + encoder.blocks[0].parameters
    hardware.check_memory(CONFIG, 1, 1, tf.distribute.OneDeviceStrategy("cpu"), frozen=frozen)
    trained = encoder.parameters - frozen
    what = f"training {trained:,} parameters beside {frozen:,} frozen ones"
    assert asked[0] == (16 * trained + 4 * frozen, what)


@pytest.mark.parametrize(
    "text,message",
    [
        ("4", "--freeze=4: 4 is not among the layers 0 to 3."),
        ("2-1", "--freeze=2-1: 2-1 is not among the layers 0 to 3."),
        ("pooler", "'pooler' is neither `embeddings`, `all`, nor a layer or a range of the"),
        ("", "'' is neither"),
        ("0,,1", "'' is neither"),
    ],
)
def test_what_freeze_cannot_name(text, message):
    with pytest.raises(InputError) as error:
        Frozen.parse(text, dataclasses.replace(CONFIG, num_hidden_layers=4))
    assert message in str(error.value)


_READ = [
    (family, layers, freeze)
    for family in ("bert", "albert", "gpt2", "openai-gpt", "bart")
    for layers in (HeadLayers.EMBEDDINGS, HeadLayers.SECOND_TO_LAST)
    for freeze in (None, "all")
]
_QUICK_READ = (
    ("albert", HeadLayers.EMBEDDINGS, "all"),
    ("openai-gpt", HeadLayers.SECOND_TO_LAST, None),
)


@pytest.mark.parametrize(
    ("family", "layers", "freeze"),
    [
        *(
            pytest.param(*case, marks=[pytest.mark.slow] * (case not in _QUICK_READ))
            for case in _READ
        ),
        pytest.param("mpnet", HeadLayers.EMBEDDINGS, None, marks=pytest.mark.more),
    ],
)
def test_what_no_head_reads_is_not_trained(tmp_path, family, layers, freeze):
    """Above the layers that are read, and around frozen ones, there is no gradient."""
    config = BART
    if family != "bart":
        config = dataclasses.replace(CONFIG, **FAMILIES[family].values)
    config = dataclasses.replace(
        config, num_hidden_layers=2, vocab_size=CONFIG.vocab_size, max_position_embeddings=128,
    )  # fmt: skip
    init = write_init(str(tmp_path / "init"), config)
    _, output = tune(
        tmp_path, init, "ner", make_tags, head_layers=layers, freeze=freeze, epochs=0.3,
        weight_decay=0.1,
    )  # fmt: skip
    before, after = weights.read(init).weights, weights.read(output).weights
    changed = {
        name.split("/")[1]
        for name, value in before.items()
        if name.startswith("encoder/") and not np.array_equal(after[name], value)
    }
    lower = {"embeddings", "block_0"} if layers is HeadLayers.SECOND_TO_LAST else {"embeddings"}
    lower |= (
        {"block_0", "block_1"} if family == "openai-gpt" else set()
    )  # its language model reads the last
    assert changed == (set() if freeze else lower)


def test_layers_that_are_shared_are_one():
    config = dataclasses.replace(CONFIG, num_hidden_layers=4, shared_layers=True)
    assert Frozen.parse("embeddings,0", config).whole
    with pytest.raises(InputError, match="the layers, which are one: 0"):
        Frozen.parse("1", config)


def test_other_layers_of_whole_texts_need_a_bilstm(tmp_path, init):
    with pytest.raises(InputError, match="add a BiLSTM"):
        tune(tmp_path, init, "classification", make_texts, head_layers="embeddings")


def test_other_formats_have_no_place_for_such_heads(tmp_path, init):
    _, output = tune(tmp_path, init, "ner", make_tags, epochs=0.2, **_LSTM)
    model = weights.read(output)
    for target in ("tf1", "huggingface"):
        with pytest.raises(InputError, match=f"ner has a head that {target} does not support"):
            weights.write(model, f"{tmp_path}/{target}", target)
    weights.write(model, f"{tmp_path}/again")
    assert weights.read(f"{tmp_path}/again").sha256() == model.sha256()


def test_a_damaged_description_of_a_head_is_named(tmp_path, init):
    _, output = tune(tmp_path, init, "ner", make_tags, epochs=0.2, **_LSTM)
    os.remove(f"{output}/checksums.json")
    tasks = json.load(open(f"{output}/tasks.json"))
    for head, message in (
        ({"layers": "first"}, "the head: layers 'first' is unknown"),
        ({"bilstm": 2}, "the head: unknown key 'bilstm'"),
        ({"bilstm_layers": 1, "bilstm_width": 17}, "has the shape"),
    ):
        json.dump([tasks[0] | {"head": head}], open(f"{output}/tasks.json", "w"))
        with pytest.raises(InputError, match=message):
            weights.read(output)


def test_causal_models_read_the_last_token(tmp_path, init):
    """[CLS] of a left-to-right model sees nothing else, so it could not tell texts apart."""
    bundle = weights.read(init)
    config = dataclasses.replace(bundle.config, causal=True)
    weights.write(dataclasses.replace(bundle, config=config), f"{tmp_path}/causal")
    report, output = tune(tmp_path, f"{tmp_path}/causal", "classification", make_texts, epochs=14.0)
    assert report["metrics"]["median"]["accuracy"] > 0.85
    with pytest.raises(InputError, match="reads the last token, as the model is causal"):
        weights.write(weights.read(output), f"{tmp_path}/hf", "huggingface")
    encoder = BertEncoder(config)
    ids = tf.constant([[2, 5, 6, 7, 3, 0, 0], [2, 5, 3, 0, 0, 0, 0]])
    pooled = encoder([ids, tf.cast(ids > 0, tf.int32), 0 * ids])["pooled_output"]
    alone = encoder([ids[:1, :5], tf.ones([1, 5], tf.int32), tf.zeros([1, 5], tf.int32)])
    np.testing.assert_allclose(pooled[0], alone["pooled_output"][0], atol=1e-6)


def test_fewer_training_examples_are_some_of_more(tmp_path, init):
    from bert_tf.finetuning import task_data

    (tmp_path / "data").mkdir()
    tokenizer = weights.read(init).tokenizer()
    places = {}
    for count in (10, 50, None, 1000):
        settings = settings_of(init, "classification", make_texts(tmp_path / "data"))
        settings = dataclasses.replace(settings, train_examples=count)
        data = task_data.load(settings.tasks[0], settings, tokenizer)
        places[count] = [example.place for example in data.train.examples]
    assert [len(found) for found in places.values()] == [10, 50, 192, 192]
    assert set(places[10]) < set(places[50]) < set(places[None])
    assert places[50] == [place for place in places[None] if place in places[50]]
