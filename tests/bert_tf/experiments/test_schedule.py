"""Jobs: what decides them, their order, what is told of those that fail or diverge, and stops."""

import dataclasses
import multiprocessing
import os
import signal
import threading
import time
from typing import ClassVar

import pytest

from bert_tf.experiments.jobs import Job, Place, State, with_needs
from bert_tf.experiments.scheduler import Schedule, table
from pipelines.common import stopping
from pipelines.common.errors import InputError


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

    def cost(self, speed):
        return 1.0

    def work(self, place):
        _note(place, self.text)
        if self.how == "badly":
            raise InputError("there is no such file")
        if self.how == "by a bug":
            raise KeyError("name")
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "slowly":
            for _ in range(600):
                time.sleep(0.05)
            _note(place, f"{self.text} to its end")
        if self.how == "diverged":
            return {"seconds": 1.0, "scores": {}, "diverged": {"1": "no number"}}
        return {"seconds": 2.0, "scores": {"1": {"score": 0.5}}}


def _note(place, line):
    with open(f"{place.root}/notes", "a") as file:
        file.write(f"{line}\n")


def _run(tmp_path, jobs, processes=1, changed=lambda entry: None):
    schedule = Schedule(with_needs(jobs), Place(str(tmp_path)), _costs(jobs))
    schedule.run([{}] * processes, changed)
    return {entry.job.label: entry for entry in schedule.entries.values()}


def _costs(jobs):
    return {job.key: 1.0 for job in with_needs(jobs)}


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
    assert {entry.state for entry in entries.values()} == {State.DONE}
    # Again: all is there.
    _run(tmp_path, [*jobs, Note("fourth")])
    assert _notes(tmp_path) == ["first", "second", "third", "fourth"]


def test_what_decides_a_job():
    assert Note("a").key == Note("a").key
    others = [
        Note("b"),
        Note("a", how="badly"),
        Note("a", first=Note("b")),
        Note("a", second=Note("b")),
    ]
    assert len({Note("a").key, *(other.key for other in others)}) == 5
    assert Note("a b").name.startswith("note-a-b-")


@pytest.mark.parametrize(
    "how,error",
    [
        ("badly", "there is no such file"),
        ("by a bug", "KeyError: 'name' (see "),
        ("killed", "the process ended with status -9 (it may have taken more memory"),
    ],
)
def test_a_job_that_fails_is_told_and_the_others_go_on(tmp_path, how, error):
    bad = Note("bad", how=how)
    entries = _run(tmp_path, [Note("needs it", first=bad), bad, Note("good")])
    assert entries["bad"].state is State.FAILED and entries["bad"].error.startswith(error)
    assert entries["needs it"].state is State.SKIPPED
    assert entries["needs it"].error == "needs note bad, which there is not"
    assert entries["good"].state is State.DONE
    # It is tried again.
    _run(tmp_path, [bad])
    assert _notes(tmp_path).count("bad") == 2


def test_a_divergence_is_a_result(tmp_path):
    lost = Note("lost", how="diverged")
    entries = _run(tmp_path, [lost, Note("needs it", first=lost)])
    assert entries["lost"].state is State.DONE and entries["needs it"].state is State.SKIPPED
    shown = table(list(entries.values()))
    assert "done" in shown and "note lost: diverged" in shown
    assert "skipped" in shown and "note needs it: needs note lost, which there is not" in shown
    _run(tmp_path, [lost])
    assert _notes(tmp_path) == ["lost"]


def test_several_processes_share_the_jobs(tmp_path):
    seen = []
    jobs = [Note(str(number)) for number in range(5)]
    _run(tmp_path, jobs, processes=2, changed=lambda entry: seen.append(entry.state))
    assert sorted(_notes(tmp_path)) == list("01234")
    assert seen.count(State.RUNNING) == seen.count(State.DONE) == 5
    assert State.RUNNING in seen[1:2]  # the second began before the first ended


def test_time_left_follows_from_what_was_taken(tmp_path, monkeypatch):
    monkeypatch.setattr("bert_tf.experiments.scheduler._TELLING", 1)
    jobs = [Note("a"), Note("b"), Note("c")]
    schedule = Schedule(with_needs(jobs), Place(str(tmp_path)), _costs(jobs))
    assert schedule.seconds_left(1) == 3.0
    _run(tmp_path, jobs[:1])
    schedule = Schedule(with_needs(jobs), Place(str(tmp_path)), _costs(jobs))
    assert schedule.seconds_left(1) == 4.0  # each took twice as long as was thought
    assert schedule.seconds_left(2) == 2.0


def test_a_stop_ends_the_job_that_runs(tmp_path):
    """The signal is for this process; the one that works is asked to stop, and the others stay."""
    job = Note("slow", how="slowly")
    schedule = Schedule([job], Place(str(tmp_path)), _costs([job]))

    def changed(entry):
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
            schedule.run([{}], changed)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (tmp_path / "notes").read_text() == "slow\n"
    assert set(multiprocessing.active_children()) <= set(others)  # nor does it go on
    assert Place(str(tmp_path)).outcome(job) is None
