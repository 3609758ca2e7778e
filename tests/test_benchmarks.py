"""The benchmarks run what they name, and write what they measured."""

import json
import subprocess
import sys

import pytest


def _benchmarks(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_flags_are_told():
    done = _benchmarks("--help")
    assert done.returncode == 0
    assert "--only" in done.stdout and "--peer_python" in done.stdout


@pytest.mark.slow
def test_ours_is_measured_where_no_peer_is_named(tmp_path):
    results = tmp_path / "results.json"
    done = _benchmarks("--only=tokenizer,writer", f"--results={results}")
    assert done.returncode == 0, done.stderr
    rows = json.loads(results.read_text())
    assert set(rows) == {"tokenizer", "writer"}
    assert all(row["ours"] > 0 and row["peer"] is None for row in rows.values())


@pytest.mark.slow
def test_a_comparison_needs_its_peer(tmp_path):
    done = _benchmarks("--only=finetune", "--glue=x", f"--results={tmp_path}/results.json")
    assert done.returncode == 2
    assert "name the Python that has the peers (--peer_python)" in done.stderr
