"""What a user computes is what it was: see `values` and `compare`."""

import copy
import json
import pathlib

from tests.golden import compare, values

_STORED = pathlib.Path(__file__).with_name("golden.json")


def test_values_are_those_that_are_stored(tmp_path):
    """After a change that means to change some: python -m tests.golden.values on golden.json."""
    stored = json.loads(_STORED.read_text("utf-8"))
    found = json.loads(json.dumps(values.compute(tmp_path)))
    assert list(compare.differences(stored, found)) == []


def test_differences_are_named():
    stored = json.loads(_STORED.read_text("utf-8"))
    changed = copy.deepcopy(stored)
    name = "pretraining/mlm/loss"
    changed["numbers"][name][3] *= 1 + 1e-6
    del changed["exact"]["vocabulary"]
    assert [line.split(": ")[0] for line in compare.differences(stored, changed)] == [
        "exact/vocabulary",
        f"numbers/{name}[3]",
    ]
    changed["machine"]["processor"] = "another"
    assert [line.split(": ")[0] for line in compare.differences(stored, changed)] == [
        "exact/vocabulary"
    ]
    changed["numbers"][name][3] *= 1.1
    assert f"numbers/{name}[3]" in [
        line.split(": ")[0] for line in compare.differences(stored, changed)
    ]
