"""The fault injection finds wrong results, reports how to reproduce them, and counts."""

import json
import subprocess
import sys

import pytest

from benchmarks.soak import corruptions, mutations, samples, table, trees
from benchmarks.soak import run as soak
from benchmarks.soak.corruptions import Target
from benchmarks.soak.outcomes import Workspace
from benchmarks.soak.samples import Sample
from pipelines.common.errors import InputError

pytestmark = pytest.mark.more


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


def test_the_readme_has_the_table_of_the_record():
    with open("benchmarks/soak.json", encoding="utf-8") as file:
        record = json.load(file)
    with open("README.md", encoding="utf-8") as file:
        text = file.read()
    assert table.with_table(text, record) == text


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
