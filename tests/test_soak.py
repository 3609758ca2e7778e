"""The fault injection finds wrong results, reports how to reproduce them, and counts."""

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf

from benchmarks.soak import (
    corruptions,
    kills,
    mutations,
    samples,
    small_inputs,
    steps,
    table,
    trees,
)
from benchmarks.soak import run as soak
from benchmarks.soak.corruptions import Target
from benchmarks.soak.outcomes import Outcome, Workspace
from benchmarks.soak.samples import Sample
from pipelines.common.errors import InputError
from tests import commands

pytestmark = pytest.mark.more


def test_cases_follow_from_the_seed_the_category_and_the_number(tmp_path):
    def drawn(seed, category, number):
        return Workspace(tmp_path, seed).rng(category, number).random()

    assert drawn(1, "kills", 2) == drawn(1, "kills", 2)
    others = {drawn(2, "kills", 2), drawn(1, "x", 2), drawn(1, "kills", 3)}
    assert len(others - {drawn(1, "kills", 2)}) == 3


def test_concurrent_cases():
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


def test_an_exception_in_a_case_is_a_failure():
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


def test_the_end_of_the_process_of_a_case_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(small_inputs, "make", lambda folder: None)
    case = corruptions.make(Workspace(tmp_path, "not a number"))
    (failure,) = case(0).failures
    assert failure.startswith("the process ended with status 1: ValueError: ")


def _read_damaged(tmp_path, read, unsealed=()):
    folder, copy = tmp_path / "whole", tmp_path / "copy"
    for place in (folder, copy):
        place.mkdir()
        (place / "values.bin").write_bytes(bytes(200 if place is folder else 199))
    target = Target(str(folder), read, unsealed)
    return corruptions._read_damaged(target, copy, copy / "values.bin", read(str(folder)))


def _content(folder):
    with open(f"{folder}/values.bin", "rb") as file:
        return file.read().hex()


def _refuse_copy(message):
    def read(folder):
        if "copy" in folder:
            raise InputError(message.format(folder=folder))
        return ""

    return read


@pytest.mark.parametrize(
    ("read", "unsealed", "expected"),
    [
        (lambda folder: "same", (), ("harmless", None)),
        (_content, (), ("not detected", "other values without an error")),
        (_content, (".bin",), ("not detected, in a format without checksums", None)),
        (_refuse_copy("{folder}/values.bin: is damaged."), (), ("reported", None)),
        (_refuse_copy("is damaged."), (), ("reported", "does not name the place: is damaged.")),
        (
            lambda folder: "copy" in folder and 1 / 0, (),
            ("failed", "ZeroDivisionError: division by zero"),
        ),
    ],
)  # fmt: skip
def test_damage_is_reported_or_harmless_or_a_failure(tmp_path, read, unsealed, expected):
    assert _read_damaged(tmp_path, read, unsealed) == expected


def test_damage_changes_a_file_and_is_described(tmp_path):
    content = bytes(range(1, 101))
    for number in range(12):
        path = tmp_path / str(number)
        path.write_bytes(content)
        kind = corruptions._damage(path, random.Random(number)).split()[0]
        assert (not path.exists()) == (kind == "removed")
        assert kind == "removed" or path.read_bytes() != content


def test_measured_values_are_not_compared(tmp_path):
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
    """Saves nested functions and a variable as a SavedModel."""
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


def test_function_numbers_of_tensorflow_are_not_compared(tmp_path):
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        _save(tmp_path / name, value)
    a, b, c = (trees.contents(tmp_path / name) for name in "abc")
    first, second = ((tmp_path / name / "saved_model.pb").read_bytes() for name in "ab")
    assert first != second and trees.difference(a, b) is None
    assert trees.difference(a, c) == "saved_model.pb differs"


def test_partially_written_files_are_found(tmp_path):
    (tmp_path / "weights.bin").write_text("whole")
    expected = trees.contents(tmp_path)
    assert trees.partially_written(tmp_path, expected) is None
    for name, content in (
        ("weights.bin.partial", "wh"), ("history.jsonl", "{"), ("run.json", "{}"),
    ):  # fmt: skip
        (tmp_path / name).write_text(content)
    assert trees.partially_written(tmp_path, expected) is None
    (tmp_path / "run.json").write_text("{")
    assert trees.partially_written(tmp_path, expected) == "run.json"
    (tmp_path / "run.json").unlink()
    (tmp_path / "weights.bin").write_text("wh")
    assert trees.partially_written(tmp_path, expected) == "weights.bin"
    (tmp_path / "weights.bin").write_text("whole")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    assert trees.partially_written(tmp_path, expected) == "picture.png"
    (tmp_path / "picture.png").write_bytes(b"\x89PNG...IEND\xaeB`\x82")
    assert trees.partially_written(tmp_path, expected) is None
    (tmp_path / "report.md").write_text("# Rep")
    assert trees.partially_written(tmp_path, trees.contents(tmp_path)) == "report.md"


@pytest.fixture
def available(tmp_path, monkeypatch):
    """Steps without inputs, with reference runs that take long."""
    monkeypatch.setattr(small_inputs, "make", small_inputs.SmallInputs)
    monkeypatch.setattr(steps.Steps, "_run", lambda *_: steps.Reference({}, 0, 600.0, 1 << 30))
    return steps.Steps(Workspace(tmp_path, 0), "x")


def test_only_steps_that_end_at_an_error_are_chosen_for_bad_disks(available):
    rng = random.Random(0)
    assert "experiments" in {available.attempt(rng, n).name for n in range(300)}
    names = {available.attempt(rng, n, continuing=False).name for n in range(300, 600)}
    assert "experiments" not in names and len(names) > 10


def test_versions_that_equal_the_first_one_are_not_a_difference():
    one = {"bert/1/a": "x", "bert/1/b": "y"}
    assert steps._first_version({**one, "bert/2/a": "x", "bert/2/b": "y"}) == one
    other = {**one, "bert/2/a": "z", "bert/2/b": "y"}
    assert steps._first_version(other) == other


def test_a_command_that_hangs_is_ended():
    process = commands.Running("tests.bert_tf.training.hanging_worker", "1000")
    with pytest.raises(AssertionError, match="did not end"):
        process.kill_when(lambda: False, timeout=0.2)
    assert process.wait().returncode == -signal.SIGKILL


def test_a_kill_that_comes_too_late_does_not_count(available, monkeypatch):
    attempt = available.attempt(random.Random(0), 0)
    monkeypatch.setattr(
        attempt, "start", lambda: commands.Running("tests.commands")
    )  # ends at once
    assert not kills._kill(attempt, random.Random(0))


def test_mutated_files_are_read_or_refused(tmp_path):
    """The first files of `make soak ARGS=--only=mutations`."""
    samples.write(tmp_path / "samples")
    found = mutations.run(Workspace(tmp_path, 0), 0, 120)
    assert found.failures == ()
    assert found.counts["files"] == 120 and found.counts["reported"] > 60 > found.counts["read"]


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda path: None, ("read", None)),
        (lambda path: 1 / 0, ("failed", "ZeroDivisionError: division by zero")),
        (_refuse_copy("{folder}: is damaged."), ("reported", None)),
        (_refuse_copy("is damaged."), ("reported", "the error does not name it: is damaged.")),
    ],
)
def test_outcomes_of_mutated_files(tmp_path, read, expected):
    assert mutations.outcome(Sample(tmp_path, read), tmp_path / "copy" / "a.txt") == expected


def test_files_that_end_or_exhaust_a_process(tmp_path):
    found = mutations.run(Workspace(tmp_path, 0), 0, 5, "tests.hostile_readers")
    crash, hang, memory = found.failures
    assert crash.startswith("1: crashed, status -6")
    assert hang.startswith("2: took too long, status -14")
    assert re.fullmatch(r"3: .*/mutations/3/a\.txt: took \d{3},\d{3},\d{3} bytes", memory)
    assert found.counts == {"files": 5, "read": 3}


def test_the_record_and_its_table(tmp_path):
    record = tmp_path / "soak.json"
    table.write(str(record), {"seed": 1}, {"kills": {"kills": 1200, "failures": []}})
    table.write(str(record), {"seed": 2}, {"disks": {"tries": 3, "failures": ["disks:1: no"]}})
    found = json.loads(record.read_text())
    assert {name: entry["seed"] for name, entry in found.items()} == {"kills": 1, "disks": 2}
    text = "Before\n<!-- soak: begin -->\nstale rows\n<!-- soak: end -->\nAfter\n"
    written = table.with_table(text, found)
    assert written.startswith("Before\n<!-- soak: begin -->\n| fault |")
    assert "stale rows" not in written and written.endswith("\n<!-- soak: end -->\nAfter\n")
    assert "| 1,200 | ends with the same bits; no partially written file | 0 |" in written
    assert "| 3 | one clear line; the next run ends with the same bits | 1 |" in written
    with pytest.raises(ValueError, match="lacks"):
        table.with_table("no marks", found)


def test_the_readme_has_the_table_of_the_record():
    with open("benchmarks/soak.json", encoding="utf-8") as file:
        record = json.load(file)
    with open("README.md", encoding="utf-8") as file:
        text = file.read()
    assert table.with_table(text, record) == text


def test_a_repeated_case_is_not_recorded(tmp_path, monkeypatch):
    record = tmp_path / "soak.json"
    monkeypatch.setattr(soak, "_run", lambda *_: {"kills": 1, "failures": []})
    monkeypatch.setattr(soak.multiprocessing, "set_forkserver_preload", lambda _: None)
    for selection in ("--case=kills:7", "--only=kills"):
        soak.main([selection, f"--record={record}", f"--work={tmp_path}/work"])
        assert record.exists() == (selection == "--only=kills")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--only=kils", "unknown category 'kils'; give kills, "),
        ("--case=kills", "--case=kills: give a category and a number, such as kills:12"),
        ("--minutes=0", "--minutes=0: give a number above 0"),
    ],
)
def test_wrong_flags(flag, message, capsys):
    with pytest.raises(SystemExit) as raised:
        soak.main([flag])
    assert raised.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("category", ["kills", "corruptions", "disks", "requests", "mutations"])
def test_a_case_of_each_category_succeeds(tmp_path, category):
    record = tmp_path / "soak.json"
    minutes = "0.2" if category == "requests" else "0.001"
    flags = (f"--only={category}", f"--minutes={minutes}", f"--record={record}")
    command = [sys.executable, "-m", "benchmarks.soak", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    (found,) = json.loads(record.read_text()).values()
    assert found["failures"] == [] and found["cases"] == soak.CATEGORIES[category].concurrent
