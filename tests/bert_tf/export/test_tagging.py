"""Entities, and tags of a CRF, in exports: as the host finds them, and where they say."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tasks, weights
from bert_tf.export import portable, saved_model, sources
from bert_tf.finetuning import batches, task_data
from bert_tf.models.head_config import HeadConfig
from bert_tf.serving.predictor import Predictor
from bert_tf.tasks import objectives
from pipelines.common.errors import InputError
from pipelines.labelled.schema import WordsExample
from pipelines.tokenizers.wordpiece_vocabulary import WordPieceVocabulary
from tests.bert_tf.exported import MAX_LENGTH, TEXTS, random_bundle
from tests.tiny import tiny_config

LABELS = ("B-X", "B-Y Z", "I-X", "I-Y Z", "O")


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, id="scheme", marks=pytest.mark.slow), pytest.param(True, id="crf")],
)
def bundle(request, vocab_path):
    """A tagger of random weights."""
    tokens = WordPieceVocabulary.load(vocab_path)
    config = tiny_config(len(tokens), num_attention_heads=4, max_position_embeddings=48)
    task = dataclasses.replace(
        tasks.make("ner", head=HeadConfig(crf=request.param)),
        labels=LABELS,
        max_seq_length=MAX_LENGTH,
    )
    return random_bundle(config, tokens, [task], seed=3)


@pytest.fixture(scope="module")
def model(bundle, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("tagger") / "model")
    weights.write(bundle, folder)
    return folder


@pytest.fixture(scope="module")
def export(model, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("tagger-export"))
    return saved_model.export(sources.find([f"ner={model}"]), folder)


def _host(model, examples):
    """Predictions without an export."""
    bundle = weights.read(model)
    task, tokenizer = tasks.load(bundle.tasks[0]), bundle.tokenizer()
    objective = objectives.make(bundle.task_model([task]), task, lambda: tokenizer)
    predict = batches.make_logits_function(objective, tf.distribute.get_strategy())
    features = task_data.make_features(task, examples, tokenizer)
    return task, task.predict(examples, features, predict(features))


@pytest.mark.more_cases
@pytest.mark.parametrize("engine", ["tensorflow", "onnxruntime"])
def test_tags_and_entities_are_those_of_the_host(model, export, engine, tmp_path):
    predictor = Predictor(export, engine, cache=str(tmp_path))
    texts = [*TEXTS, "the layer trains every mask " * 30]
    found = predictor(text=texts)
    rows = [[token.decode() for token in row if token] for row in found["tokens"]]
    starts = [row[: len(x)] for row, x in zip(found["start_characters"], rows, strict=True)]
    examples = [
        WordsExample(str(i), "x", tuple(words), None, i, text, tuple(places.tolist()))
        for i, (text, words, places) in enumerate(zip(texts, rows, starts, strict=True))
    ]
    task, predictions = _host(model, examples)
    by_words = predictor("ner_words", **task.requests(examples))
    total = 0
    for index, (example, wanted) in enumerate(zip(examples, predictions, strict=True)):
        count = len(example.words)
        tags = [tag.decode() for tag in found["tags"][index, :count]]
        assert tuple(tags) == wanted.tags
        valid, around = task.scheme.valid(LABELS), len(LABELS)
        places = [around, *(LABELS.index(tag) for tag in tags), around]
        assert all(valid[pair] for pair in itertools.pairwise(places))
        np.testing.assert_allclose(
            found["probabilities"][index, :count], wanted.probabilities, rtol=1e-2, atol=1e-4
        )
        total += check_entities(found, index, *task.entities(example, wanted))
        joined = dataclasses.replace(example, text=None)
        check_entities(by_words, index, *task.entities(joined, wanted))
    assert total > 9
    predictor.close()


def check_entities(outputs, index, text, entities):
    """The entities of a row of outputs are those of the host; returns their number."""
    found = {
        name: outputs[f"entity_{name}"][index]
        for name in ("types", "texts", "starts", "ends", "probabilities")
    }
    types = [type_.decode() for type_ in found["types"] if type_]
    assert types == [entity.type for entity in entities]
    for number, entity in enumerate(entities):
        start, end = found["starts"][number], found["ends"][number]
        assert (start, end) == (entity.start, entity.end)
        assert found["texts"][number].decode() == text[start:end]
        share = found["probabilities"][number]
        np.testing.assert_allclose(share, entity.probability, rtol=1e-2, atol=1e-4)
    return len(entities)


@pytest.mark.more
def test_texts_without_words_and_whole_graphs(export):
    predictor = Predictor(export)
    for texts in ([""], ["", "the layer"], [" ", "\u200b"]):
        found = predictor(text=texts)
        assert found["entity_types"].shape == found["entity_texts"].shape
        assert found["tags"].shape[0] == len(found["entity_starts"]) == len(texts)
        whole = tf.saved_model.load(saved_model.newest(export)).signatures["ner"]
        for name, value in whole(text=tf.constant(texts)).items():
            assert value.shape == found[name].shape
            if value.dtype == tf.float32:
                np.testing.assert_allclose(value, found[name], atol=1e-5)
            else:
                assert value.numpy().tolist() == found[name].tolist()
    found = predictor("ner_words", words=[["the", ""], ["", ""]])
    assert found["tags"].shape == (2, 2) and found["tags"][1].tolist() == [b"", b""]
    predictor.close()


def test_portable_files_have_what_a_host_needs_to_decode(bundle, model, tmp_path):
    portable.export(sources.find([f"ner={model}"]), str(tmp_path / "files"), ["onnx"])
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(tmp_path / "files" / "ner_ids.onnx"))
    names = [output.name for output in session.get_outputs()]
    assert ("transitions" in names) == bundle.tasks[0].get("head", {}).get("crf", False)
    if "transitions" in names:
        inputs = {x.name: np.ones((2, 5), np.int32) for x in session.get_inputs()}
        found = dict(zip(names, session.run(names, inputs), strict=True))["transitions"]
        for each in found:
            np.testing.assert_allclose(each, bundle.weights["heads/ner/transitions"], rtol=1e-6)


@pytest.mark.parametrize("target", ["huggingface", "tf1"])
def test_a_crf_has_no_place_in_other_formats(bundle, tmp_path, target):
    if "head" not in bundle.tasks[0]:
        return weights.write(bundle, tmp_path / target, target)
    with pytest.raises(InputError, match=f"ner has a CRF, which {target} does not support; write"):
        weights.write(bundle, tmp_path / target, target)
