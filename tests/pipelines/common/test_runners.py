"""Runners: the same results from one process, from several, and clear words where there is none."""

import collections
import os
import signal

import pytest

from pipelines.common import machine, optional
from pipelines.common.beam_runner import BeamRunner
from pipelines.common.errors import InputError
from pipelines.common.runners import LocalRunner
from tests import commands

THINGS = [f"{number} {number % 3}" for number in range(7)]


def _words(thing):
    if thing == "bad":
        raise InputError("bad: is no number")
    return collections.Counter(thing.encode().split())


@pytest.mark.parametrize("count", [1, 2])
def test_results_and_counts(count):
    runner = LocalRunner(count)
    with runner.started("nowhere", __name__) as workers:
        assert dict(workers.map(_words, THINGS)) == {thing: _words(thing) for thing in THINGS}
        done = []
        total = workers.count(_words, THINGS, lambda: done.append(1))
        assert total == sum(map(_words, THINGS), collections.Counter())
        assert len(done) == len(THINGS)
        assert list(workers.map(_words, ["5"])) == [("5", _words("5"))]
        begun = workers.map(_words, THINGS * 100)
        next(begun)
        begun.close()  # the others are not waited for
        assert dict(workers.map(_words, THINGS)) == {thing: _words(thing) for thing in THINGS}
    with pytest.raises(InputError, match="no number"), runner.started("", __name__) as workers:
        list(workers.map(_words, ["1", "bad"]))


def _end(how):
    os.kill(os.getpid(), how) if how > 2 else os._exit(how)


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("how", "kills", "message"),
    [
        (signal.SIGKILL, [0, 0], "was killed by SIGKILL, perhaps because memory ran out. F"),
        (signal.SIGKILL, [2, 3], "was killed by SIGKILL, because memory ran out. F"),
        (signal.SIGSEGV, [2, 3], "was killed by SIGSEGV. F"),
        (signal.SIGTERM, [2, 3], "was killed by SIGTERM. F"),
        (1, [2, 3], "ended with exit code 1. F"),
    ],
)
def test_what_is_known_of_the_death_of_a_worker_is_said(monkeypatch, how, kills, message):
    monkeypatch.setattr(machine, "oom_kills", lambda: kills.pop(0))
    with (
        pytest.raises(InputError, match=f"a worker process {message}inished work"),
        LocalRunner(2).started("nowhere", __name__) as workers,
    ):
        list(workers.map(_end, [how, how]))


def test_what_to_install_is_said_where_beam_is_missing(monkeypatch):
    monkeypatch.setattr(optional, "is_there", lambda module: module != "apache_beam")
    with pytest.raises(InputError, match=r"apache_beam is not .*pip install apache-beam"):
        BeamRunner(["--runner=DirectRunner"])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--", "--region=x"], "options of a pipeline (--region=x ...) are for --runner="),
        (["--pipeline=--region=x"], "options of a pipeline (--region=x ...)"),
        (["--runner=beam", "--workers=3"], "--workers is for --runner=local; give the number of B"),
        (["--runner=spark"], "it must be one of local, beam"),
    ],
)  # fmt: skip
def test_flags_of_the_other_runner_are_told(flags, message, tmp_path):
    for command in ("learn-vocabulary", "write-examples"):
        more = [f"--vocab={tmp_path}/v.txt"] if command == "write-examples" else []
        words = [f"--corpus={tmp_path}/c.txt", *more, f"--output={tmp_path}/o", *flags]
        assert message in commands.error(command, *words)
