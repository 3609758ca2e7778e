"""The test bench of faults finds what it looks for, tells how to find it again, and counts."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver
from hypothesis import strategies as st

from benchmarks.soak import children, corruptions, kills, search, steps, table, trees
from benchmarks.soak import run as soak
from benchmarks.soak.corruptions import Target
from benchmarks.soak.outcomes import Outcome, Place
from pipelines.common.errors import InputError
from tests import commands


def make(place):
    """The cases of a room of this module's own: an answer, an end by a signal, and no end."""
    kinds = {
        0: lambda: Outcome({"tried": 1}),
        1: lambda: os.kill(os.getpid(), signal.SIGSEGV),
        2: lambda: signal.pause(),
        3: lambda: 1 / 0,
    }
    return lambda number: kinds[number]()


def test_a_case_that_ends_or_hangs_its_process_is_told(tmp_path):
    child = children.Child(__name__, Place(tmp_path, 0), 120.0)
    assert child(0) == Outcome({"tried": 1})
    assert child(1).failures == (f"the process ended with status -{signal.SIGSEGV.value}",)
    assert child(3).failures == ("ZeroDivisionError: division by zero",)
    child._limit = 0.2
    assert child(2).failures == ("no end after 0.2 s",)
    child._limit = 120.0
    assert child(0) == Outcome({"tried": 1})
    child.close()


def test_cases_are_drawn_from_the_seed_the_room_and_the_number(tmp_path):
    def drawn(seed, room, number):
        return Place(tmp_path, seed).rng(room, number).random()

    assert drawn(1, "kills", 2) == drawn(1, "kills", 2)
    assert (
        len({drawn(1, "kills", 2), drawn(2, "kills", 2), drawn(1, "x", 2), drawn(1, "kills", 3)})
        == 4
    )


def test_an_input_that_fails_is_made_small():
    def trial(value):
        if len(value) > 2:
            raise KeyError(value)
        if not value:
            raise InputError("f: is empty; give one.")
        return search.RIGHT

    found = search.search("list", st.lists(st.integers()), trial, seed=0, count=200)
    assert found.failures == ("list: KeyError: [0, 0, 0]: [0, 0, 0]",)
    assert search.search("list", st.lists(st.integers()), trial, seed=0, count=200) == found
    found = search.search("list", st.lists(st.integers(), max_size=2), trial, seed=0, count=50)
    assert not found.failures
    assert found.counts["list, told in one line"] and found.counts["list, taken as right"]
    assert found.counts["inputs"] == 50


def test_an_input_that_hangs_is_told(monkeypatch):
    monkeypatch.setattr(search, "_HANGS", 1)
    found = search.search("x", st.just(0), lambda _: signal.pause(), seed=0, count=1)
    assert found.failures == ("x: _Hang: longer than 1 s: 0",)


def _damaged(tmp_path, read, unsealed=()):
    folder = tmp_path / "whole"
    folder.mkdir()
    (folder / "values.bin").write_bytes(bytes(range(200)))
    copy = tmp_path / "copy"
    copy.mkdir()
    path = copy / "values.bin"
    path.write_bytes(bytes(199))
    target = Target(str(folder), read, unsealed)
    return corruptions._come(target, copy, path, read(str(folder)))


def _content(folder):
    with open(f"{folder}/values.bin", "rb") as file:
        return file.read().hex()


def _refused(message):
    def read(folder):
        if "copy" in folder:
            raise InputError(message.format(folder=folder))
        return ""

    return read


def test_as_many_cases_as_there_are_cores_run_at_a_time():
    together = threading.Barrier(2, timeout=60)

    def case(number):
        together.wait()
        return Outcome({"tried": number})

    with ThreadPoolExecutor(2) as pool:
        found = dict(soak._outcomes(case, pool, 2, None, end=0))
        assert found == {0: Outcome({"tried": 0}), 1: Outcome({"tried": 1})}
        assert list(soak._outcomes(Outcome, pool, 2, 7, end=0)) == [(7, Outcome(7))]
        ended = soak._outcomes(lambda number: number, pool, 2, None, end=time.monotonic() + 1)
        assert len({number for number, _ in ended}) > 2


def test_damage_is_named_or_harmless_or_a_failure(tmp_path):
    for number, (read, come, failure) in enumerate(
        (
            (lambda folder: "same", "harmless", None),
            (_content, "not told", "other values, and no word"),
            (_refused("{folder}/values.bin: is damaged."), "named", None),
            (_refused("is damaged."), "named", "does not name the place: is damaged."),
            (
                lambda folder: "copy" in folder and 1 / 0,
                "failed",
                "ZeroDivisionError: division by zero",
            ),
        )
    ):
        place = tmp_path / str(number)
        place.mkdir()
        assert _damaged(place, read) == (come, failure)
    assert _damaged(tmp_path, _content, (".bin",))[1] is None  # its format has no checksums


@pytest.mark.parametrize("number", range(12))
def test_damage_changes_a_file_and_says_how(tmp_path, number):
    path = tmp_path / "file"
    content = bytes(range(1, 101))
    path.write_bytes(content)
    what = corruptions._damage(path, random.Random(number))
    kind = what.split()[0]
    assert (not path.exists()) == (kind == "removed")
    assert kind == "removed" or path.read_bytes() != content


def test_what_is_measured_is_no_difference_between_folders(tmp_path):
    for name, seconds, loss in (("a", 1.5, 2.0), ("b", 2.5, 2.0), ("c", 1.5, 2.5)):
        folder = tmp_path / name
        folder.mkdir()
        value = {"loss": loss, "seconds": seconds, "runs": [{"seconds": seconds}]}
        (folder / "report.json").write_text(json.dumps(value))
        (folder / "history.jsonl").write_text(f"{json.dumps(value)}\n{{half")
    a, b, c = (trees.contents(tmp_path / name) for name in "abc")
    assert trees.difference(a, b) is None
    assert trees.difference(a, c) == "history.jsonl differs"
    assert trees.difference(a, {}) == "history.jsonl is left over"
    assert trees.difference({}, a) == "history.jsonl is missing"


def _save(folder, value):
    """A SavedModel with functions in functions, and a variable."""
    module = tf.Module()
    module.variable = tf.Variable([1.0])

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def function(x):
        _, y = tf.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, y * module.variable), (tf.constant(0), x)
        )
        return tf.cond(y[0] > 0, lambda: y + value, lambda: y)

    module.function = function
    tf.saved_model.save(module, str(folder))


def test_numbers_that_tensorflow_counts_are_no_difference_between_folders(tmp_path):
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        _save(tmp_path / name, value)
    a, b, c = (trees.contents(tmp_path / name) for name in "abc")
    first, second = ((tmp_path / name / "saved_model.pb").read_bytes() for name in "ab")
    assert first != second and trees.difference(a, b) is None
    assert trees.difference(a, c) == "saved_model.pb differs"


def test_half_of_a_file_under_a_final_name_is_found(tmp_path):
    (tmp_path / "weights.bin").write_text("whole")
    wanted = trees.contents(tmp_path)
    assert trees.half_written(tmp_path, wanted) is None
    for name, content in (
        ("weights.bin.partial", "wh"), ("history.jsonl", "{"), ("run.json", "{}"),
        ("vectors.npy.lock", ""),
    ):  # fmt: skip
        (tmp_path / name).write_text(content)
    assert trees.half_written(tmp_path, wanted) is None
    (tmp_path / "run.json").write_text("{")
    assert trees.half_written(tmp_path, wanted) == "run.json"
    (tmp_path / "run.json").unlink()
    (tmp_path / "weights.bin").write_text("wh")
    assert trees.half_written(tmp_path, wanted) == "weights.bin"
    (tmp_path / "weights.bin").write_text("whole")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert trees.half_written(tmp_path, wanted) == "picture.png"
    (tmp_path / "picture.png").write_bytes(b"\x89PNG...IEND\xaeB`\x82")
    assert trees.half_written(tmp_path, wanted) is None
    (tmp_path / "report.md").write_text("# Rep")
    assert trees.half_written(tmp_path, trees.contents(tmp_path)) == "report.md"


def test_only_outputs_that_are_empty_at_first_are_tried_on_bad_disks():
    rng = random.Random(0)
    assert "experiments" in {steps.drawn(rng) for _ in range(500)}
    assert "experiments" not in {steps.drawn(rng, prepared=False) for _ in range(500)}


def test_versions_that_equal_the_first_one_are_no_difference():
    one = {"bert/1/a": "x", "bert/1/b": "y"}
    assert steps._first_version({**one, "bert/2/a": "x", "bert/2/b": "y"}) == one
    other = {**one, "bert/2/a": "z", "bert/2/b": "y"}
    assert steps._first_version(other) == other


def test_the_table_has_what_was_tried(tmp_path):
    record = tmp_path / "soak.json"
    about = {"seed": 1}
    table.write(str(record), about, {"kills": {"kills": 1200, "failures": []}})
    table.write(str(record), {"seed": 2}, {"disks": {"tries": 3, "failures": ["disks:1: no"]}})
    found = json.loads(record.read_text())
    assert {name: entry["seed"] for name, entry in found.items()} == {"kills": 1, "disks": 2}
    text = "Before\n<!-- soak: begin -->\nstale rows\n<!-- soak: end -->\nAfter\n"
    told = table.with_table(text, found)
    assert told.startswith("Before\n<!-- soak: begin -->\n| tried |") and "stale rows" not in told
    assert told.endswith("\n<!-- soak: end -->\nAfter\n")
    assert "| 1,200 | ends with the same bits; no half-written file | 0 |" in told
    assert "| 3 | one clear line; the next run ends with the same bits | 1 |" in told
    with pytest.raises(ValueError, match="lacks"):
        table.with_table("no marks", found)


def test_the_readme_has_the_table_of_the_record():
    with open("benchmarks/soak.json", encoding="utf-8") as file:
        record = json.load(file)
    with open("README.md", encoding="utf-8") as file:
        text = file.read()
    assert table.with_table(text, record) == text


def _soak(*flags):
    command = [sys.executable, "-m", "benchmarks.soak", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--only=kils", "error: kils: is nothing to try; there are kills, "),
        ("--case=kills", "error: --case=kills: give a name and a number, such as kills:12."),
        ("--minutes=0", "error: --minutes=0: it must be"),
    ],
)
def test_what_is_asked_for_wrongly_is_one_line(flag, message):
    done = _soak(flag)
    assert done.returncode == 2
    assert done.stderr.startswith(message) and len(done.stderr.splitlines()) == 1


def test_what_a_case_cannot_cope_with_is_a_failure():
    def case(number):
        if number == 1:
            raise AssertionError("['export'] did not end")
        return Outcome({"tried": 1})

    with ThreadPoolExecutor(1) as pool:
        found = dict(soak._outcomes(case, pool, 3, None, 0.0))
        (alone,) = soak._outcomes(case, pool, 3, 1, 0.0)
    failed = Outcome({}, ("AssertionError: ['export'] did not end",))
    assert found == {0: Outcome({"tried": 1}), 1: failed, 2: Outcome({"tried": 1})}
    assert alone == (1, failed)


def test_a_command_that_hangs_is_ended(tmp_path):
    process = commands.Running("tests.bert_tf.training.hanging_worker", "1000")
    with pytest.raises(AssertionError, match="did not end"):
        process.kill_when(lambda: False, timeout=0.2)
    assert process.wait().returncode == -signal.SIGKILL


def test_a_case_that_is_tried_again_counts_for_no_record(tmp_path, monkeypatch):
    record = tmp_path / "soak.json"
    monkeypatch.setattr(soak, "_try", lambda *_: {"kills": 1, "failures": []})
    monkeypatch.setattr(children, "preload", lambda: None)
    for case in ("kills:7", None):
        with flagsaver.flagsaver(
            *((soak._CASE, case), (soak._ONLY, ["kills"])),
            *((soak._RECORD, str(record)), (soak._WORK, f"{tmp_path}/work")),
        ):
            flags.FLAGS.mark_as_parsed()
            soak.main()
        assert record.exists() == (case is None)


def test_a_kill_that_comes_too_late_is_none(tmp_path):
    whole = steps.Whole({}, 0, 600.0, 1 << 30)
    process = commands.Running("tests.commands")  # ends at once
    assert not kills._killed(process, random.Random(0), tmp_path, whole)


@pytest.mark.slow
@pytest.mark.parametrize("room", ["kills", "corruptions", "inputs", "bodies", "disks", "requests"])
def test_a_case_of_each_room_goes_well(tmp_path, room):
    record = tmp_path / "soak.json"
    minutes = "0.2" if room == "requests" else "0.001"
    done = _soak(f"--only={room}", f"--minutes={minutes}", f"--record={record}")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    (found,) = json.loads(record.read_text()).values()
    assert found["failures"] == [] and found["cases"] == soak.ROOMS[room].at_once
