"""Workers that are killed, and that hang: the others end, are started again, and all go on."""

import json
import random
import signal
import threading
import time

import pytest
import tensorflow as tf

from bert_tf.training import lost_workers
from pipelines.common.errors import RetryError
from tests import commands
from tests.bert_tf.helpers import cluster_of
from tests.bert_tf.pretraining import runs

pytestmark = pytest.mark.more

RETRY = 75
STEPS = 100


class Supervised:
    """Workers of a run, each of them started again when it has ended with 75 or was killed."""

    def __init__(self, count, *arguments):
        self.statuses = [[] for _ in range(count)]
        self.errors = ["" for _ in range(count)]
        self._workers = [None] * count
        self._command = runs.command(*arguments, f"--steps={STEPS}")
        clusters = cluster_of(count)
        self._threads = [
            threading.Thread(target=self._supervise, args=(index, cluster), daemon=True)
            for index, cluster in enumerate(clusters)
        ]
        for thread in self._threads:
            thread.start()

    def _supervise(self, index, cluster):
        while True:
            worker = commands.Running(*self._command, env={"TF_CONFIG": cluster})
            self._workers[index] = worker
            done = worker.wait()
            self.statuses[index].append(done.returncode)
            self.errors[index] += done.stderr
            if done.returncode not in (RETRY, -signal.SIGKILL):
                return

    def kill(self, index):
        """Kills a worker, as soon as it runs, and waits until all have been started again."""
        before = [len(statuses) for statuses in self.statuses]
        wait_for(lambda: self._workers[index].poll() is None)
        self._workers[index].kill()
        wait_for(lambda: all(map(int.__lt__, before, map(len, self.statuses))))

    def wait(self):
        for thread in self._threads:
            thread.join(600)
            assert not thread.is_alive()
        assert [statuses[-1] for statuses in self.statuses] == [0] * len(self.statuses), self.errors


def wait_for(condition, seconds=300):
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def steps_noted(output):
    """Points of the history so far."""
    path = output / "history.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def weights(output):
    return json.loads((output / "report.json").read_text())["weights_sha256"]


def killed_and_unbroken(count, victims, tfrecords, model_path, folder):
    """The weights of a run whose workers are killed one after the other, and of one left alone."""
    alone = Supervised(count, tfrecords, model_path, folder / "alone")
    alone.wait()
    assert alone.statuses == [[0]] * count
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"moments of the kills: seed {seed}")
    rng = random.Random(seed)
    killed = Supervised(count, tfrecords, model_path, folder / "killed")
    wait_for(lambda: steps_noted(folder / "killed"))
    for victim in victims:
        time.sleep(rng.uniform(0, 3))
        killed.kill(victim)
    killed.wait()
    for index, (*ends, last) in enumerate(killed.statuses):
        assert last == 0
        assert ends.count(-signal.SIGKILL) == victims.count(index)
        assert ends.count(RETRY) == len(ends) - victims.count(index)
        assert "Traceback" not in killed.errors[index]
        assert ends.count(RETRY) == killed.errors[index].count("error: another worker was lost (")
    return weights(folder / "killed"), weights(folder / "alone")


@pytest.mark.slow
def test_all_go_on_where_one_was_killed_and_then_the_chief(tfrecords, model_path, tmp_path):
    found, wanted = killed_and_unbroken(2, (1, 0), tfrecords, model_path, tmp_path)
    assert found == wanted  # bit by bit
    # A run that is finished needs no other worker to say so.
    flags = runs.command(tfrecords, model_path, tmp_path / "killed", f"--steps={STEPS}")
    commands.done(*flags, env={"TF_CONFIG": cluster_of(2)[1]})


@pytest.mark.slow
def test_four_go_on_likewise(tfrecords, model_path, tmp_path):
    found, wanted = killed_and_unbroken(4, (2, 0), tfrecords, model_path, tmp_path)
    assert found == wanted


def test_a_worker_that_is_stopped_is_noticed(tfrecords, model_path, tmp_path):
    flags = runs.command(
        tfrecords, model_path, tmp_path / "out", "--steps=100000", "--worker_timeout=6"
    )
    chief, other = (commands.Running(*flags, env={"TF_CONFIG": worker}) for worker in cluster_of(2))
    try:
        wait_for(lambda: steps_noted(tmp_path / "out") > 1)
        other.send_signal(signal.SIGSTOP)
        done = chief.wait(60)
    finally:
        for worker in (chief, other):
            if worker.poll() is None:
                worker.kill()
    assert done.returncode == RETRY
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ") and last.endswith("they resume from the last checkpoint.")
    assert "nothing has ended for" in last or "another worker was lost" in last


def test_a_worker_that_lives_and_does_nothing_is_noticed():
    done = commands.run("tests.bert_tf.training.hanging_worker", "0.4")
    assert done.returncode == RETRY
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("error: nothing has ended for 0 s (--worker_timeout)")


class _Time:
    """A clock that is set."""

    now = 0.0

    def __call__(self):
        return self.now


def test_how_long_is_too_long_follows_from_the_steps():
    clock = _Time()
    watch = lost_workers.Watchdog(None, lambda seconds: None, clock)
    assert watch.allowed == 1800  # the first step is compiled
    clock.now = 500
    watch.step_ended()
    assert watch.allowed == 600
    for seconds in (100, 80):
        clock.now += seconds
        watch.step_ended()
    assert watch.allowed == 1000
    with watch.paused():
        assert watch.allowed == 1800
        clock.now += 5000
    assert watch.allowed == 1000
    clock.now += 90
    watch.step_ended()
    assert watch.allowed == 1000  # what was no step counts for none
    given = lost_workers.Watchdog(7.0, lambda seconds: None, clock)
    given.step_ended()
    assert given.allowed == 7


def _error(kind, message):
    return kind(None, None, message)


_AT_NODE = """Graph execution error:

Detected at node CollectiveReduceV2_2 defined at (most recent call last):
<stack traces unavailable>
"""
LOST = [
    (_error(tf.errors.UnavailableError, "Collective ops is aborted by: Socket closed\nAdditional"),
     "Unavailable: Socket closed"),
    (_error(tf.errors.UnavailableError, f"{_AT_NODE}Collective ops is aborted by: Socket closed."),
     "Unavailable: Socket closed"),
    (_error(tf.errors.CancelledError, _AT_NODE), "Cancelled"),
    (_error(tf.errors.AbortedError, "peer restarted\nmore"), "Aborted: peer restarted"),
    (_error(tf.errors.InternalError, "Graph execution error:\n\nunexpected /job:worker/task:1"),
     "Internal"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "reason"), LOST)
def test_what_a_lost_worker_causes_is_told_as_such(error, reason, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", cluster_of(2)[0])
    said = rf"^another worker was lost \({reason}\)\. Run the same command"
    with pytest.raises(RetryError, match=said), lost_workers.reported():
        raise error
    monkeypatch.delenv("TF_CONFIG")
    with pytest.raises(type(error)), lost_workers.reported():
        raise error


def test_other_errors_of_workers_stay_what_they_are(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", cluster_of(2)[0])
    for kind in (tf.errors.DataLossError, tf.errors.InternalError):
        with pytest.raises(kind), lost_workers.reported():
            raise _error(kind, "corrupted record at 12")
