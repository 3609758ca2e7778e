"""Exports under programs that are not ours: TensorFlow's C++ loader, its command, old servers."""

import dataclasses
import glob
import os
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.framework import tensor_pb2

from bert_tf.export import saved_model, sources
from bert_tf.generation.settings import GenerationSettings
from bert_tf.models.config import BertConfig
from bert_tf.objectives.denoising import Denoising
from bert_tf.objectives.masked_lm import LeftToRight
from bert_tf.serving.predictor import Predictor
from pipelines.tokenizers import registry
from pipelines.tokenizers.bpe_vocabulary import BYTE_LETTERS, END_OF_TEXT, ByteBPEVocabulary
from tests import commands
from tests.bert_tf import exported
from tests.bert_tf.models.user_models import randomize

pytestmark = pytest.mark.more

# Op libraries of tensorflow-text that TensorFlow Serving before 2.20 does not have.
_NEWER = ("_trimmer_ops.so", "_utf8_binarize_op.so", "_utf8_binarize_ops.so")
_STRANGE = [*exported.TEXTS, b"\xff broken", "[MASK] ☃ [MASK]"]


def _requests():
    """A request for each signature; string inputs are lists."""
    texts = _STRANGE
    ids = {
        "input_word_ids": np.array([[2, 9, 7, 3], [2, 5, 3, 0]], np.int32),
        "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int32),
        "input_type_ids": np.array([[0, 0, 0, 0], [0, 0, 0, 0]], np.int32),
    }
    pairs = {"text_a": texts, "text_b": texts[::-1]}
    questions = {"question": texts, "context": texts[::-1]}
    found = {
        "mood": {"text": texts},
        "same": pairs,
        "score": pairs,
        "qa": questions,
        "qa1": questions,
        "tags": {"text": texts},
        "tags_words": {"words": [["a", "deep"], ["kernel", ""]]},
        "pick": {"context": texts, "choices": [["one", "", "two"]] * len(texts)},
        "topics": {"text": texts},
        "vector": {"text": texts},
        "fill_mask": {"text": texts},
        "embed": {"text": texts},
        "embed_layers": {"text": texts},
        "next_sentence": pairs,
        "pick_ids": {name: value[:, np.newaxis] for name, value in ids.items()},
    }
    for name in (
        *("mood", "same", "score", "qa", "qa1", "tags", "topics", "vector", "fill_mask", "embed"),
    ):
        found[f"{name}_ids"] = ids
    return found


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The C++ program, compiled against the headers and libraries of the wheel."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    output = str(tmp_path_factory.mktemp("cc") / "run_signatures")
    source = os.path.join(os.path.dirname(__file__), "consumers/run_signatures.cc")
    root = os.path.dirname(tf.__file__)
    libraries = [f"{root}/libtensorflow_cc.so.2", f"{root}/libtensorflow_framework.so.2"]
    subprocess.run(
        [
            *(compiler, "-std=c++17", "-O1", "-w", source, f"-I{root}/include"),
            *("-DEIGEN_MAX_ALIGN_BYTES=64", "-Wl,--no-as-needed", *libraries),
            *(f"-Wl,-rpath,{root}", "-o", output),
        ],
        check=True,
        timeout=300,
    )
    return output


def _write(folder, requests):
    for name, inputs in requests.items():
        os.makedirs(f"{folder}/{name}")
        for key, value in inputs.items():
            array = value if isinstance(value, np.ndarray) else np.array(value, object)
            with open(f"{folder}/{name}/{key}.pb", "wb") as file:
                file.write(tf.make_tensor_proto(array).SerializeToString())


def _read(path):
    with open(path, "rb") as file:
        return tf.make_ndarray(tensor_pb2.TensorProto.FromString(file.read()))


def _of_tokens(values, inputs):
    """What is not at padding, of a signature of token ids; there anything may stand."""
    mask = inputs.get("input_mask")
    if mask is None or values.shape[:2] != mask.shape:
        return values
    return values[mask > 0]


def _run(program, export, folder, requests):
    """Runs requests with the C++ program and the text ops of old servers."""
    _write(folder, requests)
    place = os.path.dirname(tensorflow_text.__file__)
    libraries = [
        path
        for path in sorted(glob.glob(f"{place}/python/ops/*.so"))
        if os.path.basename(path) not in _NEWER
    ]
    done = subprocess.run(
        [program, export, str(folder), *libraries],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{len(requests)} signatures ran" in done.stdout


@pytest.mark.parametrize("name", [pytest.param("gpt2-debug", marks=pytest.mark.slow), "bart-debug"])
def test_cpp_writes_the_texts_that_python_writes(program, name, tmp_path):
    config = BertConfig.named(name, vocab_size=270, max_position_embeddings=50)
    model = randomize((LeftToRight if config.causal else Denoising)(config), 5)
    vocabulary = ByteBPEVocabulary((*BYTE_LETTERS, END_OF_TEXT), ())
    if config.num_decoder_layers:
        vocabulary = ByteBPEVocabulary(
            ("<s>", "<pad>", "</s>", "<unk>", *BYTE_LETTERS, "<mask>"), ()
        )
    source = sources.of_model(model, registry.make(vocabulary), "model", {})
    source = dataclasses.replace(
        source, generation=GenerationSettings(max_new_tokens=12, beams=3, unique_ngram=2)
    )
    export = saved_model.export([source], f"{tmp_path}/export")
    requests = {
        "generate": {"text": _STRANGE},
        "generate_ids": {
            "input_word_ids": np.array([[0, 9, 7, 2], [0, 5, 2, 1]], np.int32),
            "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int32),
            "input_type_ids": np.zeros((2, 4), np.int32),
        },
    }
    (tmp_path / "requests").mkdir()
    _run(program, export, tmp_path / "requests", requests)
    predictor = Predictor(export)
    for signature, inputs in requests.items():
        ((key, value),) = predictor(signature, **inputs).items()
        found = _read(f"{tmp_path}/requests/{signature}/{key}.out.pb")
        assert found.tolist() == value.tolist(), signature
    assert len(set(predictor("generate", text=_STRANGE)["text"].tolist())) > 2
    predictor.close()


def test_cpp_runs_every_signature_with_the_ops_of_old_servers(program, export, predictor, tmp_path):
    requests = _requests()
    assert {name for name in predictor.signatures if name != "serving_default"} - set(requests) == {
        "mood_classify",
        "same_classify",
        "score_regress",
        "topics_classify",
        "embed_layers_ids",
        "next_sentence_ids",
        "next_sentence_classify",
    }
    _run(program, export, tmp_path, requests)
    for name, inputs in requests.items():
        for key, value in predictor(name, **inputs).items():
            found = _read(f"{tmp_path}/{name}/{key}.out.pb")
            if value.dtype == object:
                assert found.tolist() == value.tolist(), (name, key)
            else:
                found, value = (_of_tokens(array, inputs) for array in (found, value))
                np.testing.assert_allclose(found, value, atol=1e-5, err_msg=f"{name} {key}")


def test_saved_model_cli_shows_and_runs_it(export):
    shown = commands.done(
        "tests.saved_model_cli",
        "show",
        "--dir",
        export,
        "--tag_set",
        "serve",
        "--signature_def",
        "mood",
    )
    assert "inputs['text'] tensor_info" in shown.stdout, shown.stderr[-2000:]
    ran = commands.done(
        "tests.saved_model_cli",
        *("run", "--dir", export, "--tag_set", "serve", "--signature_def", "mood"),
        *("--input_exprs", "text=['a layer', 'a mask']"),
    )
    assert "Result for output key probabilities" in ran.stdout, ran.stderr[-2000:]
