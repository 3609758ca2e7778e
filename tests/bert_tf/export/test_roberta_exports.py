"""Exports of a RoBERTa: answers are whole characters, and padding may stand anywhere."""

import dataclasses

import numpy as np
import pytest

from bert_tf import tasks, weights
from bert_tf.export import portable, saved_model, sources
from bert_tf.serving.engines import SavedModelSession
from bert_tf.serving.plan import EngineName, ExecutionPlan
from bert_tf.serving.predictor import Predictor
from bert_tf.weights import formats
from pipelines.labelled.schema import SpanExample
from pipelines.tokenizers.packing import MODEL_INPUTS
from tests.bert_tf.exported import random_bundle
from tests.pipelines.tokenizers import byte_bpe_reference
from tests.tiny import tiny_config

pytestmark = pytest.mark.more

CONTEXTS = [
    "😀😀😀",
    "한국어 문장은 👩‍👩‍👧 été naïve 中文的句子。",
    "שלום 👍🏽 world: x² ½ e\u0301",
    *byte_bpe_reference.random_texts(20)[-20:],
]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """A folder of a model of random weights, with a task of spans and one of tags."""
    vocabulary = byte_bpe_reference.learn(byte_bpe_reference.CORPUS, 300)
    config = tiny_config(
        len(vocabulary), hidden_size=16, intermediate_size=32, max_position_embeddings=66,
        type_vocab_size=1, model_type="roberta", position_offset=2,
    )  # fmt: skip
    found = [
        dataclasses.replace(tasks.make("squad1", "qa"), max_seq_length=64, stride=20),
        dataclasses.replace(
            tasks.make("tagging", "tags"), max_seq_length=64, labels=("A", "B", "C")
        ),
    ]
    folder = str(tmp_path_factory.mktemp("roberta") / "model")
    bundle = random_bundle(config, vocabulary, found)
    weights.write(bundle, folder, formats.Format.BERT_TF)
    return folder


@pytest.fixture(scope="module")
def export(model, tmp_path_factory) -> str:
    folder = str(tmp_path_factory.mktemp("export") / "roberta")
    saved_model.export(sources.find([f"qa={model}", f"tags={model}"]), folder)
    return f"{folder}/1"


def _check_spans(context: str, places, texts) -> None:
    data = context.encode()
    for (start, end), text in zip(places, texts, strict=True):
        assert data[start:end] == text
        text.decode()
        data[:start].decode()


def test_spans_and_words_are_whole_characters(export):
    session, predictor = SavedModelSession(export), Predictor(export)
    contexts = np.array([context.encode() for context in CONTEXTS], object)
    questions = np.array([b"Who?"] * len(CONTEXTS), object)
    for run in (session.run, lambda name, inputs: predictor(name, **inputs)):
        found = run("qa", {"question": questions, "context": contexts})
        words = run("tags", {"text": contexts})
        for row, context in enumerate(CONTEXTS):
            places = zip(found["n_best_start"][row], found["n_best_end"][row], strict=True)
            _check_spans(context, places, found["n_best_answer"][row])
            characters = slice(found["start_character"][row], found["end_character"][row])
            assert context[characters].encode() == found["answer"][row]
            places = zip(words["starts"][row], words["ends"][row], strict=True)
            _check_spans(context, places, words["tokens"][row])
        assert {len(answer) for answer in found["n_best_answer"][0]} <= {0, 4, 8, 12}


def test_files_have_whole_characters(model):
    bundle = weights.read(model)
    task = tasks.load(bundle.tasks[0])
    examples = [
        SpanExample(str(number), "here", "Who?", context) for number, context in enumerate(CONTEXTS)
    ]
    features = task.features(examples, bundle.tokenizer())
    rng = np.random.default_rng(0)
    ids = features["input_word_ids"]
    logits = [rng.normal(size=(len(ids.row(row)), 2)) for row in range(len(ids))]
    for prediction, context in zip(task.predict(examples, features, logits), CONTEXTS, strict=True):
        data = context.encode()
        for candidate in prediction.candidates:
            assert data[candidate.start : candidate.end].decode() == candidate.text


def _padded(rows) -> dict[str, np.ndarray]:
    """Inputs of ids, of which 1 is padding."""
    ids = np.array(rows, np.int32)
    mask = (ids != 1).astype(np.int32)
    return dict(zip(MODEL_INPUTS, (ids, mask, 0 * ids), strict=True))


TOKENS = [0, 9, 7, 30, 11, 2]
RIGHT = _padded([[*TOKENS, 1, 1, 1]])
OTHERS = _padded([[1, 1, 1, *TOKENS], [1, 0, 9, 1, 7, 30, 1, 11, 2]])


@pytest.mark.parametrize(
    "engine",
    [pytest.param(x, marks=[pytest.mark.slow] * (x != EngineName.ONNXRUNTIME)) for x in EngineName],
)
def test_padding_may_stand_anywhere_in_every_engine(export, engine, engine_cache):
    pytest.importorskip({"litert": "ai_edge_litert"}.get(engine, engine))
    predictor = Predictor(export, plan=ExecutionPlan(engine), cache=engine_cache)
    wanted = predictor("tags_ids", **RIGHT)["logits"][0, : len(TOKENS)]
    found = predictor("tags_ids", **OTHERS)["logits"]
    for row, mask in zip(found, OTHERS["input_mask"], strict=True):
        np.testing.assert_allclose(row[mask > 0], wanted, atol=1e-5)
    predictor.close()


@pytest.mark.slow
def test_padding_may_stand_anywhere_in_other_runtimes(model, tmp_path):
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    onnxruntime = pytest.importorskip("onnxruntime")
    folder = f"{tmp_path}/portable"
    kinds = ["litert", "onnx"]
    portable.export(sources.find([f"tags={model}"]), folder, kinds)
    runner = litert.Interpreter(f"{folder}/tags_ids.tflite").get_signature_runner()
    session = onnxruntime.InferenceSession(f"{folder}/tags_ids.onnx")
    for run in (
        lambda inputs: runner(**inputs)["logits"],
        lambda inputs: session.run(["logits"], inputs)[0],
    ):
        wanted = run(RIGHT)[0, : len(TOKENS)]
        for row, mask in zip(run(OTHERS), OTHERS["input_mask"], strict=True):
            np.testing.assert_allclose(row[mask > 0], wanted, atol=1e-5)


def test_vocabularies_of_two_kinds_are_read_back(model, export, folders, tmp_path):
    saved_model.export(sources.find([f"mood={folders['mood']}", f"tags={model}"]), str(tmp_path))
    both = Predictor(str(tmp_path))
    assert both("mood", text=["a small model"])["logits"].shape == (1, 3)
    found, wanted = (each("tags", text=CONTEXTS) for each in (both, Predictor(export)))
    for name, value in wanted.items():
        same = np.allclose if value.dtype == np.float32 else np.array_equal
        assert same(found[name], value), name
