"""Compares the golden values of two commits, or of two files of values.

    python -m tests.golden.compare HEAD~1 HEAD
    python -m tests.golden.compare before.json after.json

A commit is computed in a worktree of its own; "." is the code at hand. The first difference is
printed with the place it is at; the status is then 1. On one machine everything is compared to the
bit; between machines, numbers within a tolerance and digests of trained weights not at all.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

# Of sums in another order, over twenty steps of training.
TOLERANCE = 1e-3
_ROOT = pathlib.Path(__file__).resolve().parents[2]


def main(before: str, after: str) -> int:
    """Prints the first difference; returns the exit status."""
    found = differences(values_of(before), values_of(after))
    first = next(found, None)
    if first is None:
        print("no difference")
        return 0
    print(first)
    print(f"and {sum(1 for _ in found)} more")
    return 1


def values_of(name: str) -> dict[str, Any]:
    """The values of a file, of a commit, or of the code at hand (".")."""
    if name.endswith(".json"):
        return json.loads(pathlib.Path(name).read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        place = _ROOT
        if name != ".":
            place = pathlib.Path(folder, "code")
            subprocess.run(
                ["git", "worktree", "add", "--quiet", "--detach", place, name],
                cwd=_ROOT,
                check=True,
            )
        try:
            path = f"{folder}/values.json"
            subprocess.run(
                [sys.executable, "-m", "tests.golden.values", path], cwd=place, check=True
            )
            return json.loads(pathlib.Path(path).read_text("utf-8"))
        finally:
            if place != _ROOT:
                subprocess.run(
                    ["git", "worktree", "remove", "--force", place], cwd=_ROOT, check=True
                )


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Describes each difference: exact values, then numbers, then digests of one processor."""
    same_machine = before["machine"]["processor"] == after["machine"]["processor"]
    yield from _differences("exact", before["exact"], after["exact"], 0.0)
    tolerance = 0.0 if same_machine else TOLERANCE
    yield from _differences("numbers", before["numbers"], after["numbers"], tolerance)
    if same_machine:
        yield from _differences("machine", before["machine"], after["machine"], 0.0)


def _differences(place: str, before: Any, after: Any, tolerance: float) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            if name not in before or name not in after:
                yield f"{place}/{name}: is {'new' if name in after else 'gone'}"
            else:
                yield from _differences(f"{place}/{name}", before[name], after[name], tolerance)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from _differences(f"{place}[{index}]", *pair, tolerance)
    elif not _equal(before, after, tolerance):
        yield f"{place}: was {_shown(before)}, is {_shown(after)}"


def _equal(before: Any, after: Any, tolerance: float) -> bool:
    if isinstance(before, float) and isinstance(after, float) and tolerance:
        return math.isclose(before, after, rel_tol=tolerance, abs_tol=tolerance)
    return before == after


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
