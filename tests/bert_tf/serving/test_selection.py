"""Engine and number of threads are selected by measuring."""

import dataclasses
import json
import logging
import subprocess

import msgspec
import pytest

from bert_tf import tasks
from bert_tf.export import saved_model
from bert_tf.models.elmo_config import ElmoConfig
from bert_tf.serving import engines, selection
from bert_tf.serving.plan import AUTO, EngineName, ExecutionPlan, Precision
from bert_tf.serving.selection import Measurement
from bert_tf.serving.server import run
from bert_tf.serving.server.settings import ServerSettings
from pipelines.common import machine
from pipelines.common.errors import InputError

_ORT, _TF = EngineName.ONNXRUNTIME, EngineName.TENSORFLOW


def _measurement(engine, threads, single, many, precision=Precision.FLOAT32):
    return Measurement(ExecutionPlan(engine, threads, precision), single, many)


def test_the_fastest_engine_is_selected():
    found = [_measurement(_TF, 2, 3, 3), _measurement(_ORT, 2, 2, 2), _measurement(_ORT, 1, 4, 3)]
    assert selection.best(found) == ExecutionPlan(_ORT, 2)


def test_two_thread_counts_must_be_faster_by_a_tenth():
    alone, together = _measurement(_ORT, 2, 2, 4), _measurement(_ORT, 1, 4, 2)
    assert selection.best([alone, together]) == ExecutionPlan(_ORT, threads=1, single_threads=2)
    close = _measurement(_ORT, 1, 2.1, 2)
    assert selection.best([alone, close]) == ExecutionPlan(_ORT, 1)


def test_an_engine_must_not_be_slow_at_either():
    found = [_measurement(_ORT, 1, 1, 9), _measurement(_TF, 1, 1.5, 4)]
    assert selection.best(found) == ExecutionPlan(_TF, 1)


def test_tensorflow_has_one_number_of_threads():
    plan = selection.best([_measurement(_TF, 2, 2, 8), _measurement(_TF, 1, 4, 2)])
    assert plan.single_threads is None


def test_int8_is_not_batched():
    plan = selection.best([_measurement(_ORT, 1, 2, 3, Precision.INT8)])
    assert plan == ExecutionPlan(_ORT, 1, Precision.INT8) and not plan.batches
    assert ExecutionPlan(_ORT).batches


def test_a_plan_is_kept(export, tmp_path, monkeypatch):
    asked = []

    def measure(path, plans, cache):
        asked.extend(plans)
        return [Measurement(plan, 1 / plan.threads, 1) for plan in plans if plan.engine is _TF]

    monkeypatch.setattr(selection, "measure", measure)
    monkeypatch.setattr(selection.engines, "installed", lambda: [_TF, _ORT])
    monkeypatch.setattr(selection, "cores", lambda: 2)
    plan = selection.choose(export, AUTO, None, None, str(tmp_path))
    once = [
        ExecutionPlan(_TF, 1),
        ExecutionPlan(_TF, 2),
        ExecutionPlan(_ORT, 1),
        ExecutionPlan(_ORT, 2),
    ]
    assert plan == ExecutionPlan(_TF, 2) and asked == once
    assert selection.choose(export, AUTO, None, None, str(tmp_path)) == plan and asked == once
    asked.clear()
    selection.choose(export, AUTO, 1, None, str(tmp_path))
    assert asked == [ExecutionPlan(_TF, 1), ExecutionPlan(_ORT, 1)]  # measured anew


@pytest.mark.parametrize(
    ("kept", "engines"),
    [
        ({"litert": "int8"}, ["litert"]),  # not among the usual ones
        ({"litert": "int8", "onnxruntime": "int8"}, ["onnxruntime"]),
    ],
)
def test_a_precision_is_for_engines_that_keep_it(export, monkeypatch, kept, engines):
    monkeypatch.setattr(selection.engines, "installed", lambda: list(EngineName))
    monkeypatch.setattr(selection.saved_model, "kept_precisions", lambda path: kept)
    plans = selection.candidates(export, AUTO, None, Precision.INT8)
    assert sorted({plan.engine for plan in plans}) == engines


def test_a_plan_in_json():
    plan = ExecutionPlan(_ORT, 1, Precision.INT8, 4)
    assert msgspec.convert(json.loads(json.dumps(dataclasses.asdict(plan))), ExecutionPlan) == plan
    assert str(plan) == "onnxruntime (int8) with 1 thread, 4 for a single sequence"


def test_engines_that_fail_are_left_out(export, tmp_path, monkeypatch, caplog):
    def fail(command, **_):
        raise subprocess.CalledProcessError(1, command, "", "Traceback\nno such instruction")

    monkeypatch.setattr(selection.subprocess, "run", fail)
    monkeypatch.setattr(selection.engines, "installed", lambda: [_TF])
    monkeypatch.setattr(selection, "cores", lambda: 2)
    with pytest.raises(InputError, match="tensorflow cannot compute it here"):
        selection.choose(export, AUTO, None, None, str(tmp_path))
    assert "tensorflow is left out: no such instruction" in caplog.text


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
        ("onnxruntime", Precision.INT8, "--precision=int8"),
        (AUTO, Precision.INT8, "--precision=int8"),
    ],
)
def test_unknown_engines_and_unchecked_precisions(export, tmp_path, engine, precision, words):
    with pytest.raises(InputError, match=words):
        selection.choose(export, engine, 1, precision, str(tmp_path))


def test_this_machine_is_measured(export, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.INFO, logger="absl")
    plan = ExecutionPlan(_TF, 1)
    (found,) = selection.measure(export, [plan], str(tmp_path))
    assert found.plan == plan and 0 < found.single < 60 and 0 < found.many < 60
    monkeypatch.setattr(selection, "_TIMEOUT", 0.01)
    assert selection.measure(export, [plan], str(tmp_path)) == []
    assert "tensorflow is left out: it takes longer than 0.01 s" in caplog.text


@pytest.mark.parametrize("engine", [_TF, _ORT])
@pytest.mark.parametrize(("threads", "wanted"), [(None, 6), (1, 1)])
def test_nothing_is_measured_if_the_engine_is_named(export, monkeypatch, engine, threads, wanted):
    monkeypatch.setattr(selection, "measure", lambda *_: pytest.fail("it is measured"))
    monkeypatch.setattr(selection, "cores", lambda: 6)
    plan = selection.choose(export, engine, threads, None, "")
    assert plan == ExecutionPlan(engine, wanted)


def test_tensorflow_computes_what_no_other_engine_can(export, monkeypatch):
    manifest = saved_model.read_manifest(export)
    manifest["models"][0]["config"] = ElmoConfig.named("elmo-debug").to_dict()
    monkeypatch.setattr(selection.saved_model, "read_manifest", lambda path: manifest)
    monkeypatch.setattr(selection, "measure", lambda *_: pytest.fail("it is measured"))
    assert selection.choose(export, AUTO, None, None, "").engine is _TF
    with pytest.raises(InputError, match="only TensorFlow can compute it; leave --engine out"):
        selection.choose(export, _ORT, None, None, "")


def test_texts_are_written_with_tensorflow_unless_an_engine_is_named(export, monkeypatch):
    manifest = saved_model.read_manifest(export)
    manifest["models"] = manifest["models"][:1]
    manifest["models"][0]["tasks"] = [tasks.make("generation").describe()]
    monkeypatch.setattr(selection.saved_model, "read_manifest", lambda path: manifest)
    monkeypatch.setattr(selection, "measure", lambda *_: pytest.fail("it is measured"))
    assert selection.choose(export, AUTO, None, None, "").engine is _TF
    assert selection.choose(export, _ORT, None, None, "").engine is _ORT


def test_an_engine_with_other_answers_is_not_measured(export, tmp_path, monkeypatch):
    def load(self, name, computation):
        compute = loaded(self, name, computation)
        return lambda batch: [result + 0.1 for result in compute(batch)]

    engine = engines.ENGINES[_ORT]
    loaded = engine.load
    monkeypatch.setattr(engine, "load", load)
    with pytest.raises(InputError, match="differ"):
        selection._measure_here(export, str(tmp_path), [ExecutionPlan(_ORT, 1)])


def test_each_version_is_computed_in_a_precision_that_it_was_checked_in(export, monkeypatch):
    """The plan is that of the version that was the newest when the server started."""
    monkeypatch.setattr(run, "Predictor", lambda path, plan, **_: pytest.fail(str(plan)))
    plan = ExecutionPlan(_ORT, 2, Precision.INT8)
    with pytest.raises(pytest.fail.Exception, match=r"onnxruntime \(float32\) with 2 threads"):
        run._load(export, plan, None, ServerSettings())
    with pytest.raises(InputError, match="was not checked in int8 with onnxruntime"):
        run._load(export, plan, Precision.INT8, ServerSettings())
