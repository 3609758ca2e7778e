"""The engine and the number of threads follow a rule."""

import pytest

from bert_tf import tasks
from bert_tf.export import saved_model
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.serving import engines, selection
from bert_tf.serving.plan import AUTO, EngineName, ExecutionPlan, Precision
from bert_tf.serving.server import run
from bert_tf.serving.server.settings import ServerSettings
from pipelines.common import machine
from pipelines.common.errors import InputError

_TF, _ORT, _OV, _LITE = EngineName
_FLOAT32, _BFLOAT16, _INT8 = Precision


@pytest.mark.parametrize(
    ("checked", "installed", "precision", "wanted"),
    [
        ({}, EngineName, None, (_ORT, _FLOAT32)),
        ({}, [_TF, _OV, _LITE], None, (_TF, _FLOAT32)),
        ({_LITE: "int8"}, EngineName, None, (_LITE, _INT8)),
        ({_OV: "int8", _ORT: "int8"}, EngineName, None, (_ORT, _INT8)),
        ({_LITE: "int8", _ORT: "int8"}, EngineName, None, (_LITE, _INT8)),
        ({_LITE: "int8"}, [_TF, _ORT], None, (_ORT, _FLOAT32)),
        ({_LITE: "int8"}, EngineName, _FLOAT32, (_ORT, _FLOAT32)),
        ({_TF: "bfloat16", _OV: "bfloat16"}, EngineName, None, (_OV, _BFLOAT16)),
        ({_TF: "bfloat16"}, EngineName, _BFLOAT16, (_TF, _BFLOAT16)),
    ],
)
def test_the_first_engine_that_keeps_the_precision(
    export, monkeypatch, checked, installed, precision, wanted
):
    monkeypatch.setattr(selection.engines, "installed", lambda: list(installed))
    monkeypatch.setattr(selection.saved_model, "kept_precisions", lambda path: checked)
    monkeypatch.setattr(selection, "cores", lambda: 2)
    engine, kind = wanted
    assert selection.choose(export, AUTO, None, precision) == ExecutionPlan(engine, 2, kind)


@pytest.mark.parametrize("engine", [AUTO, _TF, _ORT])
@pytest.mark.parametrize(
    ("threads", "cores", "wanted"), [(None, 2, 2), (None, 16, 4), (1, 2, 1), (6, 16, 6)]
)
def test_threads_of_a_computation(export, monkeypatch, engine, threads, cores, wanted):
    monkeypatch.setattr(selection, "cores", lambda: cores)
    assert selection.choose(export, engine, threads).threads == wanted


def test_int8_is_not_batched():
    assert not ExecutionPlan(_ORT, 1, _INT8).batches and ExecutionPlan(_ORT).batches
    assert str(ExecutionPlan(_ORT, 2, _INT8)) == "onnxruntime (int8) with 2 threads"


def test_the_processor_is_part_of_the_key():
    assert "model name" in machine.processor() or "CPU part" in machine.processor()
    assert engines.environment()[0] == machine.processor() and engines.environment()[2]


def test_conversions_belong_to_the_versions_of_packages(export, tmp_path, monkeypatch):
    keys = []
    for versions in (["a"], ["b"]):
        monkeypatch.setattr(engines, "environment", lambda: versions)  # noqa: B023
        keys.append(engines.ConvertedModels(export, str(tmp_path))._key)
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    ("engine", "precision", "words"),
    [
        ("cuda", None, "is unknown; use one of auto, tensorflow"),
        ("onnxruntime", _INT8, "not checked in int8 with onnxruntime; .* --precision=int8"),
        (
            "onnxruntime",
            _BFLOAT16,
            "does not compute in bfloat16; use the engine openvino or tensor",
        ),
        (AUTO, _INT8, "not checked in int8 with the installed engines; .* --precision=int8"),
    ],
)
def test_unknown_engines_and_unchecked_precisions(export, engine, precision, words):
    with pytest.raises(InputError, match=words):
        selection.choose(export, engine, 1, precision)


def test_tensorflow_computes_what_no_other_engine_can(export, monkeypatch):
    manifest = saved_model.read_manifest(export)
    manifest["models"][0]["config"] = ElmoConfig.named("elmo-debug").to_dict()
    monkeypatch.setattr(selection.saved_model, "read_manifest", lambda path: manifest)
    assert selection.choose(export).engine is _TF
    with pytest.raises(InputError, match="only TensorFlow can compute it; leave --engine out"):
        selection.choose(export, _ORT)


def test_texts_are_written_with_tensorflow_unless_an_engine_is_named(export, monkeypatch):
    manifest = saved_model.read_manifest(export)
    manifest["models"] = manifest["models"][:1]
    manifest["models"][0]["tasks"] = [tasks.make("generation").describe()]
    monkeypatch.setattr(selection.saved_model, "read_manifest", lambda path: manifest)
    assert selection.choose(export).engine is _TF
    assert selection.choose(export, _ORT).engine is _ORT


def test_each_version_is_computed_in_a_precision_that_it_was_checked_in(export, monkeypatch):
    """The plan is that of the version that was the newest when the server started."""
    monkeypatch.setattr(run, "Predictor", lambda path, plan, **_: pytest.fail(str(plan)))
    plan = ExecutionPlan(_ORT, 2, _INT8)
    with pytest.raises(pytest.fail.Exception, match=r"onnxruntime \(float32\) with 2 threads"):
        run._load(export, plan, None, ServerSettings())
    with pytest.raises(InputError, match="was not checked in int8 with onnxruntime"):
        run._load(export, plan, _INT8, ServerSettings())
