"""Jobs: what decides them, their order, what is told of those that fail or diverge, and stops."""

import dataclasses
import multiprocessing
import os
import signal
import threading
import time
from typing import ClassVar

import pytest

from bert_tf.experiments import schedule
from bert_tf.experiments.jobs import Job, with_needs
from bert_tf.experiments.schedule import JobEntry, JobState, table
from pipelines.common import stopping
from pipelines.common.errors import InputError
from tests.bert_tf.experiments.test_plan import make_plan


@dataclasses.dataclass(frozen=True)
class Note(Job):
    """Writes its name behind those of others; `how` says how it ends."""

    kind: ClassVar[str] = "note"

    text: str
    how: str = "well"
    first: Job | None = None
    second: Job | None = None

    @property
    def label(self):
        return self.text

    @property
    def needs(self):
        return tuple(job for job in (self.first, self.second) if job)

    def work(self, plan):
        _note(plan, self.text)
        if self.how == "badly":
            raise InputError("there is no such file")
        if self.how == "by a bug":
            raise KeyError("name")
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "slowly":
            for _ in range(600):
                time.sleep(0.05)
            _note(plan, f"{self.text} to its end")
        if self.how == "diverged":
            return {"scores": {}, "diverged": {"1": "NaN"}}
        return {"scores": {"1": {"score": 0.5}}}


def _note(plan, line):
    with open(f"{plan.folder}/notes", "a") as file:
        file.write(f"{line}\n")


def _run(tmp_path, jobs, processes=1, changed=lambda entry: None):
    plan = make_plan(folder=str(tmp_path))
    entries = {job.name: JobEntry.of(job, plan) for job in with_needs(jobs)}
    schedule.run(entries, plan, [""] * processes, changed)
    return {entry.job.label: entry for entry in entries.values()}


def _notes(tmp_path):
    return (tmp_path / "notes").read_text().split()


def test_jobs_are_done_once_and_after_what_they_need(tmp_path):
    first = Note("first")
    jobs = [
        Note("third", first=first, second=Note("second", first=first)),
        Note("second", first=first),
    ]
    assert len(with_needs(jobs)) == 3
    entries = _run(tmp_path, jobs)
    assert _notes(tmp_path) == ["first", "second", "third"]
    assert {entry.state for entry in entries.values()} == {JobState.DONE}
    # Again: all is there.
    _run(tmp_path, [*jobs, Note("fourth")])
    assert _notes(tmp_path) == ["first", "second", "third", "fourth"]


def test_jobs_that_fail_are_named_and_the_others_run(tmp_path):
    errors = {
        "badly": "there is no such file",
        "by a bug": "KeyError: 'name' (see ",
        "killed": "its process was killed; it may have run out of memory",
    }
    bad = {how: Note(how, how=how) for how in errors}
    needing = [Note(f"needs {how}", first=job) for how, job in bad.items()]
    entries = _run(tmp_path, [*needing, Note("good")])
    for how, error in errors.items():
        assert entries[how].state is JobState.FAILED and entries[how].error.startswith(error)
        assert entries[f"needs {how}"].state is JobState.SKIPPED
        assert entries[f"needs {how}"].error == f"needs note {how}, which has no result"
    assert entries["good"].state is JobState.DONE
    # They are tried again.
    _run(tmp_path, [bad["badly"]])
    assert _notes(tmp_path).count("badly") == 2


def test_a_divergence_is_a_result(tmp_path):
    lost = Note("lost", how="diverged")
    entries = _run(tmp_path, [lost, Note("needs it", first=lost)])
    assert entries["lost"].state is JobState.DONE and entries["needs it"].state is JobState.SKIPPED
    shown = table(list(entries.values()))
    assert "done" in shown and "note lost: diverged" in shown
    assert "skipped" in shown and "note needs it: needs note lost, which has no result" in shown
    _run(tmp_path, [lost])
    assert _notes(tmp_path) == ["lost"]


def test_several_processes_share_the_jobs(tmp_path):
    seen = []
    jobs = [Note(str(number)) for number in range(5)]
    _run(tmp_path, jobs, processes=2, changed=lambda entry: seen.append(entry.state))
    assert sorted(_notes(tmp_path)) == list("01234")
    assert seen.count(JobState.RUNNING) == seen.count(JobState.DONE) == 5
    assert JobState.RUNNING in seen[1:2]  # the second began before the first ended


def test_a_stop_ends_the_job_that_runs(tmp_path):
    """The signal is for this process; the one that works is asked to stop, and the others stay."""
    job = Note("slow", how="slowly")

    entries = []

    def changed(entry):
        entries.append(entry)

        def interrupt():
            while not (tmp_path / "notes").exists():
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()

    before = {number: signal.getsignal(number) for number in stopping.SIGNALS}
    others = multiprocessing.active_children()
    stopping.raise_stopped()
    try:
        with pytest.raises(stopping.Stopped):
            _run(tmp_path, [job], changed=changed)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert entries[-1].state is JobState.WAITING
    assert (tmp_path / "notes").read_text() == "slow\n"
    assert set(multiprocessing.active_children()) <= set(others)  # nor does it go on
    assert job.outcome(make_plan(folder=str(tmp_path))) is None
