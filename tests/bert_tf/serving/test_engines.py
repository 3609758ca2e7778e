"""All engines answer as the SavedModel itself does, in TensorFlow Serving's way."""

import functools
import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from bert_tf.export import saved_model, sources
from bert_tf.serving import predictor as predictor_module
from bert_tf.serving.engines import ConvertedModels, OnnxRuntimeEngine, SavedModelSession
from bert_tf.serving.plan import EngineName, ExecutionPlan
from bert_tf.serving.predictor import Predictor
from pipelines.common import manifest
from pipelines.common.errors import InputError
from pipelines.common.machine import cores
from tests.bert_tf import exported

pytestmark = pytest.mark.more

_TEXTS = [text or "x" for text in exported.TEXTS]


@pytest.fixture(scope="module")
def whole(export):
    return SavedModelSession(export)


# Of a server's own choice; TensorFlow's graphs take two minutes, and LiteRT one.
_OFTEN = (EngineName.ONNXRUNTIME, EngineName.OPENVINO)
_PLANS = [
    pytest.param(ExecutionPlan(name), marks=[pytest.mark.slow] * (name not in _OFTEN))
    for name in EngineName
]


@pytest.fixture(scope="module")
def one_session():
    """All predictors share one session: its graphs take long to be made ready."""
    with pytest.MonkeyPatch.context() as patched:
        shared = functools.cache(SavedModelSession)
        patched.setattr(predictor_module, "SavedModelSession", shared)
        patched.setattr(SavedModelSession, "close", lambda session: None)
        yield


@pytest.fixture(scope="module", params=_PLANS, ids=str)
def predictor_of_plan(request, export, engine_cache, one_session):
    name = request.param.engine
    pytest.importorskip({"litert": "ai_edge_litert"}.get(name, name))
    found = Predictor(export, plan=request.param, cache=engine_cache)
    yield found
    found.close()


def _strings(values):
    found = np.empty(len(values), object)
    found[:] = [value.encode() for value in values]
    return found


def _requests(predictor):
    """Samples of all signatures, and batches of mixed lengths."""
    found = [(name, predictor._arrays(name, each)) for name, each in predictor.samples.items()]
    several, others = _strings(_TEXTS), _strings(_TEXTS[::-1])
    found += [(name, {"text": several}) for name in ("mood", "tags", "embed", "embed_layers")]
    found += [(name, {"text_a": several, "text_b": others}) for name in ("same", "score")]
    found += [(name, {"question": others, "context": several}) for name in ("qa", "qa1")]
    masked = ["a [MASK] of [MASK]", "none", "[MASK]"]
    return [*found, ("fill_mask", {"text": _strings(masked)})]


def _compare(predictor, whole, name, inputs):
    wanted, found = whole.run(name, inputs), predictor(name, **inputs)
    assert found.keys() == wanted.keys(), name
    for key, value in wanted.items():
        assert found[key].dtype == value.dtype and found[key].shape == value.shape, (name, key)
        if value.dtype == object:
            assert found[key].tolist() == value.tolist(), (name, key)
        else:
            np.testing.assert_allclose(found[key], value, atol=2e-5, err_msg=f"{name} {key}")


_THREADS = """
import os, sys
import tensorflow as tf
from bert_tf.serving.engines import SavedModelSession
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
SavedModelSession(sys.argv[2])
print(len(os.listdir("/proc/self/task")))
"""


def test_a_session_leaves_the_number_of_threads_as_it_was_chosen(export):
    """What computes first in a process decides for all that follows: here, it is a session."""
    asked = cores() + 40
    command = [sys.executable, "-c", _THREADS, str(asked), f"{export}/{saved_model.PARTS}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert asked <= int(done.stdout) < asked + 20


def test_answers_are_those_of_the_saved_model(predictor_of_plan, whole):
    assert (predictor_of_plan.difference or 0.0) < 2e-5
    names = set()
    for name, inputs in _requests(predictor_of_plan):
        _compare(predictor_of_plan, whole, name, inputs)
        names.add(name)
    assert names == set(predictor_of_plan.manifest["signatures"])


def test_plain_texts_need_no_graph(export, whole, tmp_path, monkeypatch):
    found = Predictor(Path(export), cache=str(tmp_path))
    asked = []
    monkeypatch.setattr(found, "_session", _Noted(found._session, asked))
    plain = ["The small model reads every layer.", "", "x" * 300, "It's a [MASK] (c)!\tEnd " * 9]
    for name in ("mood", "embed", "embed_layers"):
        _compare(found, whole, name, {"text": _strings(plain)})
    for name in ("same", "score"):
        _compare(found, whole, name, {"text_a": _strings(plain), "text_b": _strings(plain[::-1])})
    assert not asked
    _compare(found, whole, "embed", {"text": _strings(["a na\u00efve [MASK]"])})
    _compare(found, whole, "mood", {"text": _strings(["plain", "na\u00efve"])})
    assert asked == [
        *("embed/preprocess", "embed/postprocess", "mood/preprocess", "mood/postprocess")
    ]


class _Noted:
    """A session that notes what is asked of it."""

    def __init__(self, session, asked):
        self._session, self._asked = session, asked

    def run(self, name, inputs):
        self._asked.append(name)
        return self._session.run(name, inputs)


@pytest.mark.parametrize(
    ("added", "words"),
    [
        (1.0, "onnxruntime differs from TensorFlow by .* here, which rounding does not explain"),
        (np.nan, "onnxruntime computes NaN or infinity here"),
        ("a", "onnxruntime does not run this model; use --engine=tensorflow"),
    ],
)
def test_an_engine_that_computes_something_else_is_refused(
    export, tmp_path, monkeypatch, added, words
):
    pytest.importorskip("onnxruntime")
    load = OnnxRuntimeEngine.load

    def wrong(engine, name, computation):
        compute = load(engine, name, computation)
        return lambda sequences: [value + added for value in compute(sequences)]

    monkeypatch.setattr(OnnxRuntimeEngine, "load", wrong)
    for _ in range(2):  # what was measured wrong is not kept
        with pytest.raises(InputError, match=words):
            Predictor(export, "onnxruntime", cache=str(tmp_path))


def test_other_engines_release_the_weights(folders, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    entries = [f"{name}={folders[name]}" for name in ("mood", "pretrained")]
    path = saved_model.export(sources.find(entries), f"{tmp_path}/bert")
    found, load = [], predictor_module.reading.assembly

    def assembly(path, dtype):
        loaded = load(path, dtype)
        found.extend(map(weakref.ref, loaded.variables))
        return loaded

    monkeypatch.setattr(predictor_module.reading, "assembly", assembly)
    predictor = Predictor(path, "onnxruntime", cache=str(tmp_path))
    gc.collect()
    assert found and all(reference() is None for reference in found)
    assert predictor("mood", text=["a layer"])["label"].shape == (1,)
    assert predictor("embed", text=["a layer"])["mean_output"].shape == (1, 32)
    predictor.close()


def test_exports_in_bfloat16_may_be_computed_in_float32(bfloat16_export):
    answers = {}
    for precision in (None, "float32"):
        predictor = Predictor(bfloat16_export, precision=precision)
        answers[predictor.plan.precision] = predictor("mood", text=_TEXTS)["logits"]
        predictor.close()
    difference = np.abs(answers["bfloat16"] - answers["float32"]).max()
    assert 1e-4 < difference < 0.5


def test_threads_that_tensorflow_cannot_have_are_told(export):
    with pytest.raises(InputError, match="threads=77: TensorFlow has .* in this process"):
        Predictor(export, threads=77)


def test_exports_without_checksums_are_converted_by_what_is_in_them(tmp_path):
    export = tmp_path / "1"
    (export / "assets.extra").mkdir(parents=True)
    for name in ("saved_model.pb", "assets.extra/labels.json"):
        (export / name).write_text(name)
    (export / "manifest.json").write_text("{}")
    sums = saved_model.checksums(str(export))
    assert list(sums) == ["assets.extra/labels.json", "saved_model.pb", "manifest.json"]
    first = ConvertedModels(str(export), str(tmp_path)).path("a", lambda: b"1")
    (export / "assets.extra" / "labels.json").write_text("others")
    assert ConvertedModels(str(export), str(tmp_path)).path("a", lambda: b"2") != first
    manifest.write_sealed(f"{export}/manifest.json", {}, ["saved_model.pb"])
    assert list(saved_model.checksums(str(export))) == ["saved_model.pb", "manifest.json"]
