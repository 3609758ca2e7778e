"""Exports of models whose attention, biases and norms are not those of BERT."""

import dataclasses

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from bert_tf import BertConfig, tasks, weights
from bert_tf.export import conversion, portable, saved_model, sources
from bert_tf.export.module import Assembly, trace_portable
from bert_tf.inspection import model_page
from bert_tf.inspection.settings import InspectionSettings
from bert_tf.serving.plan import EngineName, ExecutionPlan
from bert_tf.serving.predictor import Predictor
from bert_tf.weights import formats
from pipelines.tokenizers.packing import MODEL_INPUTS
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests.bert_tf.exported import random_bundle

pytestmark = pytest.mark.more

CHANGES = {"mpnet": {}, "modernbert": {"local_attention": 8, "pool_mean": True}, "nomic_bert": {}}
KINDS = {"mood": "classification", "tags": "tagging"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] * (name != "modernbert")) for name in CHANGES
    ],
)
def model(request, vocab_path, tmp_path_factory) -> str:
    """A folder of a model of random weights with two tasks."""
    vocabulary = WordPieceVocabulary.load(vocab_path)
    config = BertConfig.named(
        f"{request.param}-debug", vocab_size=len(vocabulary), **CHANGES[request.param]
    )
    found = [
        dataclasses.replace(tasks.make(kind, name), max_seq_length=40, labels=("a", "b", "c"))
        for name, kind in KINDS.items()
    ]
    folder = str(tmp_path_factory.mktemp(request.param) / "model")
    bundle = random_bundle(config, vocabulary, found, deviation=0.3, without=("next_sentence",))
    weights.write(bundle, folder, formats.Format.BERT_TF)
    return folder


@pytest.fixture(scope="module")
def export(model, tmp_path_factory) -> str:
    folder = str(tmp_path_factory.mktemp("export") / "one")
    saved_model.export(sources.find([f"{name}={model}" for name in KINDS]), folder)
    return f"{folder}/1"


def test_a_local_last_layer_for_the_first_token_alone(vocab_path, tmp_path):
    vocabulary = WordPieceVocabulary.load(vocab_path)
    config = BertConfig.named(
        "modernbert-debug", vocab_size=len(vocabulary), num_hidden_layers=2, local_attention=8
    )
    task = dataclasses.replace(
        tasks.make("classification", "mood"), max_seq_length=40, labels=("a", "b")
    )
    bundle = random_bundle(config, vocabulary, [task], deviation=0.3, without=("next_sentence",))
    weights.write(bundle, f"{tmp_path}/model", formats.Format.BERT_TF)
    found = sources.find([f"mood={tmp_path}/model"])
    assert portable.export(found, f"{tmp_path}/out", ["litert"], lambda path: [])


def test_other_runtimes_compute_the_same(model, tmp_path):
    found = sources.find([f"{name}={model}" for name in KINDS])
    report = portable.export(found, str(tmp_path), list(portable.TARGETS), lambda path: [])
    assert {name for name in report if "int8" not in name} >= {
        f"{name}_ids{ending}" for name in KINDS for ending in (".tflite", ".onnx")
    }


@pytest.mark.slow
@pytest.mark.parametrize("engine", EngineName)
def test_every_engine_gives_the_same(export, engine, engine_cache):
    pytest.importorskip({"litert": "ai_edge_litert"}.get(engine, engine))
    predictor = Predictor(export, plan=ExecutionPlan(engine), cache=engine_cache)
    mask = (np.arange(30) < np.array([[30], [21], [3]])).astype(np.int32)
    ids = np.random.default_rng(0).integers(5, 90, mask.shape, np.int32) * mask
    inputs = dict(zip(MODEL_INPUTS, (ids, mask, 0 * ids), strict=True))
    for name in KINDS:
        wanted, found = (each(f"{name}_ids", **inputs) for each in (Predictor(export), predictor))
        wanted, found = (
            x["logits"] if x["logits"].ndim == 2 else x["logits"][mask > 0] for x in (wanted, found)
        )
        np.testing.assert_allclose(found, wanted, atol=1e-4)
    predictor.close()


def test_a_decoder_with_one_head(vocab_path, tmp_path):
    """It is what tf2onnx joined to a wrong operation."""
    vocabulary = WordPieceVocabulary.load(vocab_path)
    config = BertConfig.named("bart-debug", vocab_size=len(vocabulary))
    assert config.num_attention_heads == 1
    bundle = random_bundle(config, vocabulary, [], deviation=0.3, without=("next_sentence",))
    weights.write(bundle, f"{tmp_path}/model", formats.Format.BERT_TF)
    (model,) = Assembly(
        sources.find([f"pretrained={tmp_path}/model"]), "float32", portable=True
    ).models
    (signature,) = (each for each in model.signatures if each.name == "embed_ids")
    function = trace_portable(signature)
    session = onnxruntime.InferenceSession(conversion.to_onnx(function))
    ids = np.random.default_rng(0).integers(5, len(vocabulary), (4, 24), np.int32)
    inputs = dict(zip(MODEL_INPUTS, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
    wanted = function(**{name: tf.constant(value) for name, value in inputs.items()})
    given = {each.name: inputs[each.name] for each in session.get_inputs()}
    for output in session.get_outputs():
        (found,) = session.run([output.name], given)
        np.testing.assert_allclose(found, wanted[output.name], atol=1e-5)


def test_it_is_inspected(model):
    page = model_page.inspect(model, ["The small model reads."], InspectionSettings(), "mood")
    assert page
