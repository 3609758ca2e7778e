"""What computes an export is chosen by measuring."""

import json
import logging
import os

import pytest

from bert_tf.serving import choosing, trials
from bert_tf.serving.choosing import Wish
from bert_tf.serving.engines.names import AUTO, EngineName, Precision
from bert_tf.serving.engines.plans import Lane, Plan
from bert_tf.serving.server import run
from bert_tf.serving.server.settings import ServerSettings
from bert_tf.serving.trials import Trial
from pipelines.common.errors import InputError

_ORT, _TF = EngineName.ONNXRUNTIME, EngineName.TENSORFLOW


def _many(crowd, batches=None):
    return {"crowd": crowd, "batches": crowd if batches is None else batches}


def _trial(engine, threads, short, long, together, singly=99):
    changing = (short + long) / 2
    alone = {8: short, 128: long}
    return Trial(Lane(engine, threads), alone, changing, _many(together), _many(singly))


def test_what_is_the_fastest_everywhere_does_everything():
    found = [_trial(_TF, 2, 3, 9, 3), _trial(_ORT, 2, 2, 8, 2), _trial(_ORT, 1, 2, 12, 3)]
    assert choosing.best(found) == Plan.of(Lane(_ORT, 2))


def test_two_ways_where_each_wins_by_more_than_a_tenth():
    alone, together = _trial(_ORT, 2, 2, 8, 4), _trial(_TF, 1, 4, 16, 2)
    assert choosing.best([alone, together]) == Plan(alone.lane, together.lane)
    close = _trial(_TF, 1, 2.1, 8.4, 2)
    assert choosing.best([alone, close]) == Plan.of(close.lane)


def test_sequences_are_grouped_where_that_is_faster():
    grouped, singly = _trial(_ORT, 1, 2, 8, 3, 4), _trial(_TF, 1, 2, 8, 4, 3)
    assert choosing.best([grouped]) == Plan(grouped.lane, grouped.lane, grouped=True)
    assert choosing.best([singly]) == Plan(singly.lane, singly.lane, grouped=False)
    faster = _trial(_ORT, 2, 2, 8, 4, 2)
    assert choosing.best([grouped, singly, faster]) == Plan(faster.lane, faster.lane, grouped=False)


def test_int8_is_never_grouped():
    lane = Lane(_ORT, 1, Precision.INT8)
    trial = Trial(lane, {8: 2}, 2, _many(3), _many(4))
    assert choosing.best([trial]) == Plan.of(lane) == Plan(lane, lane, grouped=False)
    assert trial.many == _many(4)


def test_batches_count_beside_a_crowd():
    crowds = Trial(Lane(_ORT, 2), {8: 2}, 2, _many(2, 3), _many(9))
    batches = Trial(Lane(_TF, 1), {8: 4}, 4, _many(2.1, 2), _many(9))
    assert choosing.best([crowds, batches]) == Plan(crowds.lane, batches.lane)


@pytest.mark.parametrize(("batches", "grouped"), [(3.2, True), (3.5, False)])
def test_sequences_are_grouped_where_that_is_less_slow(batches, grouped):
    trial = Trial(Lane(_ORT), {8: 2}, 2, _many(2, batches), _many(2.2, 3))
    assert trial.grouped == grouped


def test_lengths_that_change_count():
    prepares = Trial(Lane(_ORT, 1), {8: 1, 128: 7}, 20, _many(3), _many(3))
    assert choosing.best([prepares, _trial(_TF, 1, 1.2, 8, 3)]).alone == Lane(_TF, 1)


def test_tensorflow_has_one_number_of_threads():
    found = [_trial(_TF, 2, 2, 8, 4), _trial(_TF, 1, 4, 16, 2)]
    plan = choosing.best(found)
    assert plan.alone == plan.together


def test_a_plan_is_kept(export, tmp_path, monkeypatch):
    asked = []

    def run(path, lanes, folder, lengths):
        assert lengths == (lanes[0] not in asked)
        asked.extend(lanes)
        if lanes[0].engine is not _TF:
            raise trials.FailedTrialError("no such instruction")
        slow = 1 if lengths else 0.9
        return [Trial(lane, {8: slow / lane.threads}, 1, _many(slow), _many(2)) for lane in lanes]

    monkeypatch.setattr(trials, "run", run)
    monkeypatch.setattr(choosing.registry, "installed", lambda: [_TF, _ORT])
    monkeypatch.setattr(choosing, "cores", lambda: 2)
    plan = choosing.choose(export, Wish(), str(tmp_path))
    once = [Lane(_TF, 1), Lane(_TF, 1, parts=2), Lane(_TF, 2), Lane(_ORT, 1), Lane(_ORT, 2)]
    assert plan == Plan.of(Lane(_TF, 2)) and asked == [*once, *once[:3]]
    assert choosing.choose(export, Wish(), str(tmp_path)) == plan and len(asked) == 8
    (kept,) = os.listdir(tmp_path / "plans")
    found = json.loads((tmp_path / "plans" / kept).read_text())["trials"]
    assert [trial["alone"]["8"] for trial in found] == [0.9, 0.9, 0.45]  # the better of two
    asked.clear()
    choosing.choose(export, Wish(threads=1), str(tmp_path))
    assert asked == [Lane(_TF, 1), Lane(_ORT, 1)]  # another wish


def test_what_is_far_slower_is_measured_once(export, tmp_path, monkeypatch):
    asked = []

    def run(path, lanes, folder, lengths):
        asked.append(lanes)
        return [
            Trial(lane, {8: lane.threads}, lane.threads, _many(lane.threads), _many(9))
            for lane in lanes
        ]

    monkeypatch.setattr(trials, "run", run)
    monkeypatch.setattr(choosing.registry, "installed", lambda: [_ORT])
    monkeypatch.setattr(choosing, "cores", lambda: 2)
    assert choosing.choose(export, Wish(), str(tmp_path)).alone == Lane(_ORT, 1)
    assert asked == [[Lane(_ORT, 1), Lane(_ORT, 2)]]


@pytest.mark.parametrize(
    ("wish", "parts"),
    [
        (Wish("tensorflow"), [1, 2, 4, 1]),
        (Wish("tensorflow", threads_of_tensorflow=1), [1, 2, 4]),
        (Wish("tensorflow", threads_of_tensorflow=2), [1]),
        (Wish("tensorflow", threads=1), [1]),
        (Wish("tensorflow", lengths=(8,)), [1, 1]),
        (Wish("tensorflow", lengths=(), parts=1), [1, 1]),
        (Wish("onnxruntime"), [1, 1]),
    ],
)
def test_layers_are_in_parts_where_each_has_a_thread(export, monkeypatch, wish, parts):
    monkeypatch.setattr(choosing, "cores", lambda: 6)
    assert [lane.parts for lane in wish.lanes(export)] == parts


@pytest.mark.parametrize(
    ("kept", "engines"),
    [
        ({"litert": "int8"}, ["litert"]),  # not tried otherwise
        ({"litert": "int8", "onnxruntime": "int8"}, ["onnxruntime"]),
    ],
)
def test_a_precision_is_for_engines_that_keep_it(export, monkeypatch, kept, engines):
    monkeypatch.setattr(choosing.registry, "installed", lambda: list(EngineName))
    monkeypatch.setattr(choosing.saved_model, "kept_precisions", lambda path: kept)
    lanes = Wish(precision=Precision.INT8).lanes(export)
    assert sorted({lane.engine for lane in lanes}) == engines


def test_a_plan_in_json():
    plan = Plan(Lane(_ORT, 2), Lane(lengths=(8, 16), parts=2), grouped=False)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert str(plan).endswith("for several at once, each sequence by itself")


def test_engines_that_cannot_compute_are_left_out(export, tmp_path, monkeypatch, caplog):
    def run(path, lanes, folder, lengths):
        raise trials.FailedTrialError("no such instruction")

    monkeypatch.setattr(trials, "run", run)
    with pytest.raises(InputError, match="cannot be computed by tensorflow here"):
        choosing.choose(export, Wish("tensorflow"), str(tmp_path))
    assert "no such instruction" in caplog.text


def test_nothing_is_measured_where_all_is_said(export, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "run", None)
    found = choosing.choose(export, Wish("onnxruntime", 3), str(tmp_path))
    assert found == Plan.of(Lane(_ORT, 3))
    found = choosing.choose(export, Wish("tensorflow", 1, lengths=(8, 16)), str(tmp_path))
    assert found == Plan.of(Lane(lengths=(8, 16)))


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish("cuda"), "there are auto, tensorflow"),
        (Wish("onnxruntime", 1, Precision.INT8), "PRECISION=int8"),
        (Wish(AUTO, 1, Precision.INT8), "PRECISION=int8"),
    ],
)
def test_what_there_is_not(export, tmp_path, wish, words):
    with pytest.raises(InputError, match=words):
        choosing.choose(export, wish, str(tmp_path))


def test_a_machine_is_measured(export, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    (trial,) = trials.run(export, [Lane(threads=1)], str(tmp_path))
    assert list(trial.alone) == [8, 32] and trial.lane.engine is _TF
    figures = [each for of in (trial.single, trial.together, trial.singly) for each in of.values()]
    assert len(figures) == 7 and all(0 < seconds < 60 for seconds in figures)
    with pytest.raises(trials.FailedTrialError):
        trials.run(f"{export}/none", [Lane(threads=1)], str(tmp_path))


def test_a_trial_that_takes_too_long_says_so(export, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "_LIMIT", 0.01)
    with pytest.raises(trials.FailedTrialError, match=r"^it took more than 0\.01 seconds$"):
        trials.run(export, [Lane(threads=1)], str(tmp_path))


def test_xla_is_tried_where_no_layer_is_in_parts(export, monkeypatch):
    whole, parts = Lane(threads=1), Lane(threads=1, parts=2)
    monkeypatch.setattr(trials, "_trial", lambda lane, *_: Trial(lane, {8: 1}, 1, {}, {}))
    monkeypatch.setattr(trials, "_with_lengths", lambda trial, *_: "with XLA")
    found = trials.measure(export, [whole, parts], None)
    assert found == ["with XLA", Trial(parts, {8: 1}, 1, {}, {})]
    plain = trials.measure(export, [whole, parts], None, lengths=False)
    assert [trial.lane for trial in plain] == [whole, parts]
    others = trials.measure(export, [Lane(_ORT)], None)
    assert [trial.lane for trial in others] == [Lane(_ORT)]


@pytest.mark.parametrize(
    ("asked", "lane"),
    [
        ({"engine": "tensorflow"}, Lane(_TF, 6)),
        ({"engine": "onnxruntime"}, Lane(_ORT, 6)),
        ({"engine": "tensorflow", "threads": 1, "lengths": (8, 16)}, Lane(_TF, 1, lengths=(8, 16))),
        ({"engine": "tensorflow", "lengths": (0,)}, Lane(_TF, 6)),
    ],
)
def test_a_server_measures_nothing_where_its_engine_is_named(export, monkeypatch, asked, lane):
    monkeypatch.setattr(choosing, "_measure", lambda *_: pytest.fail("it is measured"))
    monkeypatch.setattr(run, "cores", lambda: 6)
    assert run._plan(export, ServerSettings(**asked)) == Plan.of(lane)
