"""Experiments from a corpus to a report: all studies, with models that learn next to nothing."""

import dataclasses
import glob
import json
import os

import pytest

from bert_tf.experiments import run
from bert_tf.experiments.jobs import Place, State
from bert_tf.experiments.scheduler import Schedule
from bert_tf.experiments.settings import STUDIES as NAMES
from pipelines.common.errors import InputError
from pipelines.common.threads import cores
from tests.bert_tf.experiments import small_plan
from tests.bert_tf.experiments.test_own_tasks import write_corpus


def _begin(folder):
    corpus = write_corpus(folder / "corpus.txt", documents=30)
    return small_plan.begin(corpus, f"{folder}/own_tasks", f"{folder}/out")


def test_a_study_goes_on_where_it_was(tmp_path):
    """Its jobs are done once; other studies take them; another request is refused."""
    request, output = _begin(tmp_path)
    with pytest.raises(InputError, match=r"has no plan.json; nothing was begun there"):
        run.show(f"{tmp_path}/other", NAMES)
    entries = run.run(request, output, ("curves",), [""])
    assert entries and {entry.state for entry in entries} <= {State.DONE}
    first = {path: os.path.getmtime(path) for path in glob.glob(f"{output}/runs/*/outcome.json")}
    again = run.run(request, output, ("curves",), [""])
    assert [entry.job.key for entry in again] == [entry.job.key for entry in entries]
    assert {path: os.path.getmtime(path) for path in first} == first
    report = json.load(open(f"{output}/report.json"))
    assert list(report["studies"]) == ["curves"]
    shown = {entry.job.key: entry.state for entry in run.show(output, NAMES)}
    done = {entry.job.key for entry in entries}
    assert all((state is State.DONE) == (key in done) for key, state in shown.items())
    other = dataclasses.replace(request, lower_case=False)
    with pytest.raises(InputError, match=r"is of experiments with other lower_case"):
        run.run(other, output, ("curves",), [""])


@pytest.mark.slow
def test_all_studies(tmp_path):
    request, output = _begin(tmp_path)
    entries = run.run(request, output, NAMES, ["", ""])
    assert [entry.error for entry in entries if entry.state is not State.DONE] == []
    found = json.load(open(f"{output}/report.json"))["studies"]
    assert list(found) == list(NAMES)
    for study in found.values():
        for row in study["scores"].values():
            for score in row.values():
                assert len(score["values"]) in (1, 2), study["title"]
    assert sorted(os.path.basename(p) for p in glob.glob(f"{output}/*.png")) == sorted(
        f"{name}.png" for name in NAMES if found[name]["scores"]
    )


@pytest.mark.parametrize(("budget", "processes"), [(100.0, 1), (10.0, cores())])
def test_jobs_that_are_too_many_for_the_time_share_the_machine(tmp_path, budget, processes):
    schedule = Schedule([], Place(str(tmp_path)), {"a": 30.0, "b": 20.0})
    assert run._processes(schedule, budget) == processes
