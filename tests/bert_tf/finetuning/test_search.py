"""Search for settings of fine-tuning."""

import dataclasses
import json
import os
import shutil

import pytest

from bert_tf import weights
from bert_tf.finetuning import preparation, search, sweep, task_report
from bert_tf.training import run_folder
from bert_tf.training.loop import TrainingDivergedError
from pipelines.common import stopping
from pipelines.common.errors import InputError
from tests.bert_tf.labelled_data import make_texts, settings_of

pytestmark = pytest.mark.more

_TRIALS = 4


def _scored(study):
    return sum(trial.state.is_finished() and trial.value is not None for trial in study.trials)


@pytest.fixture(scope="module", autouse=True)
def trials():
    """A search ends after a number of trials rather than of minutes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "_has_time", lambda study, _: _scored(study) < _TRIALS)
        yield


@pytest.fixture(scope="module")
def settings(tmp_path_factory, init):
    data = make_texts(tmp_path_factory.mktemp("data"))
    return settings_of(init, "classification", data, epochs=2.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, settings, trials):
    """The folder of a complete search, and its report."""
    folder = tmp_path_factory.mktemp("whole")
    return f"{folder}/out", search.search(settings, f"{folder}/out", f"{folder}/cache", 1)


def _end_at(monkeypatch, evaluation, error):
    """Ends the trials with an error after so many evaluations."""
    train, calls = sweep.train, []

    def end(*arguments, evaluated, **options):
        def ended(share, score):
            evaluated(share, score)
            calls.append(share)
            if len(calls) == evaluation:
                raise error

        return train(*arguments, evaluated=ended, **options)

    monkeypatch.setattr(search.sweep, "train", end)


def test_the_best_trial_is_kept(tmp_path, settings, whole, caplog):
    output, report = whole
    trials = report["search"]
    assert (trials[0]["learning_rate"], trials[0]["batch_size"]) == (2e-3, 16)
    scores = [trial["score"] for trial in trials if trial["state"] == "complete"]
    assert report["grid"][0]["score"] == max(scores) > 0.5
    assert len({trial["learning_rate"] for trial in trials}) == len(trials)
    assert report["metrics"]["median"]["accuracy"] == max(scores)
    assert weights.read(output).tasks[0]["labels"] == ["neg", "pos"]
    assert {"predictions.dev.tsv", "search.png", "report.json"} <= set(os.listdir(output))
    assert not os.path.exists(f"{output}/trials")
    assert f"Best of {len(trials)} trials: learning rate" in task_report.summary(report)
    # The search is complete; other settings need another folder.
    late = dataclasses.replace(settings, data_license="MIT")
    assert search.search(late, output, f"{tmp_path}/cache", 1) == report
    assert "--data_license comes too late" in caplog.text
    with pytest.raises(InputError, match="with other"):
        sweep.finetune(settings, output, f"{tmp_path}/cache")
    request = dataclasses.replace(settings.tasks[0], label_map=(("neg", "sad"), ("pos", "glad")))
    renamed = dataclasses.replace(settings, tasks=(request,))
    with pytest.raises(InputError, match="with other"):
        search.search(renamed, output, f"{tmp_path}/cache", 1)


def test_a_stopped_search_goes_on_as_if_it_had_not_been_stopped(
    tmp_path, settings, whole, monkeypatch
):
    _end_at(monkeypatch, 3, stopping.Stopped(15))
    with pytest.raises(stopping.Stopped):
        search.search(settings, f"{tmp_path}/out", f"{tmp_path}/cache", 1)
    other = dataclasses.replace(settings, learning_rates=(1e-3,))
    with pytest.raises(InputError, match="other settings"):
        search.search(other, f"{tmp_path}/out", f"{tmp_path}/cache", 1)
    resumed = search.search(settings, f"{tmp_path}/out", f"{tmp_path}/cache", 1)

    def kept(report):
        states = ("complete", "pruned")
        return [{**t, "seconds": 0} for t in report["search"] if t["state"] in states]

    assert kept(resumed)[:3] == kept(whole[1])[:3]
    assert json.load(open(f"{tmp_path}/out/report.json"))["search"] == resumed["search"]


def test_a_kill_after_the_training_loses_no_scores(tmp_path, settings, whole, monkeypatch):
    train, stop = sweep.train, stopping.Stopped(15)

    def killed(*arguments, **options):
        train(*arguments, **options)
        raise stop

    monkeypatch.setattr(search.sweep, "train", killed)
    output, cache = f"{tmp_path}/out", f"{tmp_path}/cache"
    with pytest.raises(stopping.Stopped):
        search.search(settings, output, cache, 1)
    monkeypatch.setattr(search.sweep, "train", train)
    search.search(settings, output, cache, 1)
    for folder, number in ((output, 1), (whole[0], 0)):
        trial = search._study(folder, settings).trials[number]
        assert trial.state.name == "COMPLETE" and len(trial.intermediate_values) == 10
        assert trial.params["learning_rate"] == pytest.approx(2e-3)


def test_a_kill_between_two_settings_leaves_the_given_ones_first(tmp_path, settings):
    study = search._study(str(tmp_path), settings)
    study.ask().suggest_float("learning_rate", 1e-4, 1e-2, log=True)
    (given,) = (
        t for t in search._study(str(tmp_path), settings).trials if not t.state.is_finished()
    )
    assert given.system_attrs["fixed_params"].keys() == {
        "learning_rate", "batch_size", "epochs", "layer_decay"
    }  # fmt: skip
    study.ask()  # the given ones; then one that was drawn in part
    study.ask().suggest_float("learning_rate", 1e-4, 1e-2, log=True)
    found = search._study(str(tmp_path), settings).trials
    assert [t.system_attrs["fixed_params"] for t in found if not t.state.is_finished()] == [
        given.system_attrs["fixed_params"]
    ]


def test_a_record_that_a_full_disk_has_cut_is_dropped(tmp_path, settings):
    search._study(str(tmp_path), settings).ask()
    with open(tmp_path / run_folder.SEARCH, "a") as log:
        log.write('{"op_code": 4, "worker')
    for _ in range(2):
        assert len(search._study(str(tmp_path), settings).trials) > 0
    assert (tmp_path / run_folder.SEARCH).read_text().endswith("\n")


@pytest.mark.slow
@pytest.mark.parametrize(("evaluation", "trial"), [(2, 0), (4, 1)])
def test_a_full_disk_leaves_what_can_be_resumed(tmp_path, settings, monkeypatch, evaluation, trial):
    output = f"{tmp_path}/out"
    _end_at(monkeypatch, evaluation, InputError("no space is left."))
    with pytest.raises(InputError, match="no space is left"):
        search.search(settings, output, f"{tmp_path}/cache", 1)
    monkeypatch.setattr(search, "_has_time", lambda study, _: _scored(study) <= trial)
    assert run_folder.has_checkpoint(
        search._folder(search._study(output, settings).trials[trial], output)
    )
    found = search.search(settings, output, f"{tmp_path}/cache", 1)["search"]
    assert [each["state"] for each in found] == ["complete"] * (trial + 1)


@pytest.mark.slow
def test_settings_that_fail_are_a_trial_without_a_score(tmp_path, settings, monkeypatch):
    _end_at(monkeypatch, 3, TrainingDivergedError("the loss is NaN."))
    monkeypatch.setattr(search, "_has_time", lambda study, _: _scored(study) < 2)
    found = search.search(settings, f"{tmp_path}/out", f"{tmp_path}/cache", 1)["search"]
    assert [each["state"] for each in found] == ["complete", "fail", "complete"]


def test_another_tokenizer_is_another_search(tmp_path, settings):
    found = []
    for case in (True, False):
        folder = f"{tmp_path}/{case}"
        shutil.copytree(settings.init, folder)
        with open(f"{folder}/checksums.json", "w") as file:
            file.write("{}")
        with open(f"{folder}/tokenizer_config.json", "w") as file:
            json.dump({"lower_case": case, "strip_accents": case}, file)
        changed = dataclasses.replace(settings, init=folder)
        found.append(search._identity(preparation.prepare(changed, f"{tmp_path}/cache")))
    assert found[0] != found[1]


@pytest.mark.slow
def test_after_a_failed_start_other_settings_may_follow(tmp_path, settings, monkeypatch):
    def diverge(*_, **__):
        raise TrainingDivergedError("the loss is NaN.")

    other = dataclasses.replace(settings, learning_rates=(1e9,))
    with monkeypatch.context() as patched:
        patched.setattr(search.sweep, "train", diverge)
        with pytest.raises(TrainingDivergedError, match="the loss is NaN"):
            search.search(other, f"{tmp_path}/out", f"{tmp_path}/cache", 0)
    monkeypatch.setattr(search, "_has_time", lambda study, _: _scored(study) < 1)
    assert len(search.search(settings, f"{tmp_path}/out", f"{tmp_path}/cache", 0)["search"]) == 1


def test_what_a_search_cannot_use(tmp_path, settings, init):
    several = dataclasses.replace(settings, learning_rates=(1e-3, 1e-4))
    with pytest.raises(InputError, match="varies the learning rate itself; give one"):
        search.search(several, f"{tmp_path}/out", f"{tmp_path}/cache", 1)
    kept = dataclasses.replace(settings, keep_runs=True)
    with pytest.raises(InputError, match="--keep_runs: a search keeps the best trial only"):
        search.search(kept, f"{tmp_path}/out", f"{tmp_path}/cache", 1)
    data = make_texts(tmp_path)
    os.remove(f"{data}/dev.tsv")
    alone = settings_of(init, "classification", data, epochs=2.0, dev_fraction=0.0)
    with pytest.raises(InputError, match="and there is none; name some"):
        search.search(alone, f"{tmp_path}/none", f"{tmp_path}/cache", 1)
