"""Experiments from a corpus to a report, with models that learn nothing."""

import glob
import json
import multiprocessing
import os
import re
import signal
import threading
import time

import numpy as np
import pytest

from bert_tf import weights
from bert_tf.experiments import run as runner
from bert_tf.experiments.plan import CommandRun, Request
from bert_tf.experiments.studies import (
    BERT,
    FIRST,
    PRESETS,
    STUDIES,
    UNTRAINED,
    Column,
    Preset,
    Row,
    Study,
)
from bert_tf.pretraining import first_weights
from pipelines.common import parallel, stopping
from pipelines.common.errors import InputError
from tests.bert_tf import labelled_data
from tests.bert_tf.experiments.test_own_tasks import write_corpus

pytestmark = pytest.mark.more


def _state(output):
    paths = (p for p in glob.glob(f"{output}/**", recursive=True) if os.path.isfile(p))
    return {p: os.path.getmtime(p) for p in paths if not re.search(r"\.lock$|/report|\.png$", p)}


def test_a_study_from_a_corpus_to_its_report(tmp_path, monkeypatch):
    """Runs are done once; one that fails is named; other data are refused."""
    corpus = write_corpus(tmp_path / "corpus.txt", documents=30, sentences=20)
    (tmp_path / "texts").mkdir()
    labelled_data.make_texts(tmp_path / "texts", train=24, dev=8)
    (tmp_path / "bad.tsv").write_text("text\tlabel\nno label\n")
    rows = (Row("control", UNTRAINED), Row("BERT, 50%", BERT, at=0.5))
    columns = (FIRST, Column(lambda tasks: tasks[1:], "", "--epochs=2"))
    claims = {"Pre-training helps": "BERT, 50% > control"}
    study = Study("Trial", "Does it run?", "no table", (), columns, rows, claims)
    for name in list(STUDIES):
        monkeypatch.delitem(STUDIES, name)
    monkeypatch.setitem(STUDIES, "trial", study)
    monkeypatch.setitem(PRESETS, "seconds", Preset("debug", 64, 120, 4, 24, 1, (1,), ("trial",)))
    tasks = f"mood:classification={tmp_path}/texts bad:classification={tmp_path}/bad.tsv"
    request = Request(f"{tmp_path}/out", corpus, tasks, None, "seconds")

    failed = runner.run(request, ["trial"])
    assert set(failed) == {"finetuning/control-bad", "finetuning/bert-50-bad"}
    assert all("bad.tsv" in error for error in failed.values())
    out = tmp_path / "out"
    found = json.loads((out / "report.json").read_text())["studies"]["trial"]
    assert [len(row["mood"]["values"]) for row in found["scores"].values()] == [3, 3]
    assert found["scores"]["control"]["bad"]["note"] == "failed"
    report = (out / "report.md").read_text()
    assert re.search(r"failed +finetuning/control-bad: error: .*bad.tsv", report)
    control = weights.read(f"{out}/pretraining/untrained")
    table = control.weights["encoder/embeddings/position_embeddings"]
    np.testing.assert_allclose(table, first_weights.sinusoids(*table.shape, 0.05), atol=1e-9)
    words = control.weights["encoder/embeddings/word_embeddings"]
    assert words.std() == pytest.approx(0.88 * 0.05, rel=0.03)  # truncated at two deviations
    tuned = json.loads((out / "finetuning/bert-50-mood/report.json").read_text())
    assert tuned["settings"]["init"].endswith("pretraining/bert/checkpoints/checkpoint-00000002")

    before = _state(f"{out}/pretraining") | _state(f"{out}/finetuning")
    assert set(runner.run(request, ["trial"])) == set(failed)  # they are tried again
    after = _state(f"{out}/pretraining") | _state(f"{out}/finetuning")
    assert {path: after[path] for path in before if "-bad" not in path} == {
        path: time for path, time in before.items() if "-bad" not in path
    }
    with open(corpus, "r+") as file:
        file.write("*")  # of the same size
    with pytest.raises(InputError, match=r"is of experiments with other inputs: .*corpus.txt"):
        runner.run(request, ["trial"])
    with pytest.raises(InputError, match=r"other budget \(was seconds, now 2h\)"):
        runner.run(request._replace(budget="2h"), ["trial"])


def _vocabulary(tmp_path):
    corpus = write_corpus(tmp_path / "corpus.txt", documents=12, sentences=30)
    path = f"{tmp_path}/vocab.txt"
    return CommandRun(
        "vocab.txt", ("learn-vocabulary", f"--corpus={corpus}", f"--output={path}"), path
    )


def test_an_error_is_the_last_line_of_the_command(tmp_path):
    words = ("pretrain", f"--tfrecords={tmp_path}/none", f"--output={tmp_path}/x")
    error = runner._execute(CommandRun("x", words, f"{tmp_path}/x/report.json"), str(tmp_path))
    assert error.startswith("error: ") and "write the examples first" in error
    assert (tmp_path / "log.txt").read_text().endswith(f"{error}\n")


def test_a_command_that_is_killed_has_failed(tmp_path, monkeypatch):
    pools = []
    make = parallel.process_pool
    monkeypatch.setattr(
        parallel, "process_pool", lambda *a, **k: pools.append(make(*a, **k)) or pools[-1]
    )

    def kill():
        while not (tmp_path / "log.txt").exists():
            time.sleep(0.05)
        (pid,) = pools[0]._processes
        os.kill(pid, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    assert runner._execute(_vocabulary(tmp_path), str(tmp_path)).startswith(
        "its process was killed by SIGKILL, "
    )


def test_a_stop_ends_the_command_that_runs(tmp_path):
    def interrupt():
        while not (tmp_path / "log.txt").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    others = multiprocessing.active_children()
    before = {number: signal.getsignal(number) for number in stopping.SIGNALS}
    stopping.raise_stopped()
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(stopping.Stopped):
            runner._execute(_vocabulary(tmp_path), str(tmp_path))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert set(multiprocessing.active_children()) <= set(others)
    assert not (tmp_path / "vocab.txt").exists()
