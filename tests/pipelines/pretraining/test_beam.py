"""Apache Beam against the processes of one machine: the same bytes, whatever runs and is killed."""

import filecmp
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests import commands, webhdfs
from tests.conftest import make_documents, write_documents
from tests.ports import free_ports

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
# Beam's own runner, in the process of the command; by its whole name it takes all that it is given.
IN_PROCESS = ("--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner",)
PROCESSES = (*IN_PROCESS, "--direct_running_mode=multi_processing", "--direct_num_workers=2")
RUNNERS = {
    "processes": PROCESSES,
    "bundles_twice": (*IN_PROCESS, "--direct_runner_bundle_repeat=1"),
}
EXAMPLES = ("--max_seq_length=32", "--max_predictions_per_seq=5", "--held_out_fraction=0.1")


@pytest.fixture(scope="module")
def python():
    """The Python of the environment that has Beam."""
    found = os.environ.get("BEAM_PYTHON")
    if not found:
        pytest.skip("BEAM_PYTHON names no Python with apache_beam; make test-all sets it")
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Three files, which become several units."""
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(3):
        write_documents(folder / f"{number}.txt", make_documents(4000, seed=number))
    return f"{folder}/*.txt"


@pytest.fixture(scope="module")
def whole(corpus, vocab_path, tmp_path_factory):
    """The examples as processes of this machine write them."""
    output = tmp_path_factory.mktemp("whole") / "o"
    commands.done(*_writing(corpus, vocab_path, output))
    assert len(glob.glob(f"{output}/train-*")) > 1 and glob.glob(f"{output}/held_out-*")
    return output


def _writing(corpus, vocab, output):
    paths = (f"--corpus={corpus}", f"--vocab={vocab}", f"--output={output}")
    return ("write-examples", *paths, *EXAMPLES)


def _start(python, command, options):
    """Starts a command under Beam."""
    words = [python, "-m", "bert_tf", *command, "--runner=beam", "--", *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.Popen(words, stdout=-1, stderr=-1, text=True, cwd=ROOT, env=env)


def _run(python, command, options):
    process = _start(python, command, options)
    out, err = process.communicate(timeout=1200)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _done(python, command, options):
    done = _run(python, command, options)
    assert done.returncode == 0, done.stderr[-3000:]


def _assert_same(one, other):
    names = sorted(os.listdir(one))
    assert sorted(os.listdir(other)) == names
    assert filecmp.cmpfiles(one, other, names, shallow=False) == (names, [], [])


@pytest.mark.parametrize("name", RUNNERS)
def test_examples_are_those_of_one_machine(python, name, corpus, vocab_path, whole, tmp_path):
    output = tmp_path / "o"
    _done(python, _writing(corpus, vocab_path, output), RUNNERS[name])
    _assert_same(whole, output)


def test_all_paths_may_be_on_hdfs(python, corpus, vocab_path, whole, tmp_path):
    shutil.copytree(os.path.dirname(corpus), tmp_path / "corpus")
    shutil.copy(vocab_path, tmp_path / "vocab.txt")
    with webhdfs.serving(tmp_path) as place:
        paths = (f"{place}/corpus/*.txt", f"{place}/vocab.txt", f"{place}/o")
        _done(python, _writing(*paths), PROCESSES)
    names = sorted(os.listdir(whole))
    assert sorted(os.listdir(tmp_path / "o")) == names
    names.remove("manifest.json")  # it names the corpus
    assert filecmp.cmpfiles(whole, tmp_path / "o", names, shallow=False) == (names, [], [])


@pytest.fixture
def job_server(python, tmp_path):
    """Beam's own server for portable runners; its address."""
    (port,) = free_ports(1)
    module = "apache_beam.runners.portability.local_job_service_main"
    log = open(tmp_path / "server.log", "w")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [python, "-m", module, f"--port={port}", f"--staging_dir={tmp_path}/staging"]
    server = subprocess.Popen(words, stdout=log, stderr=log, cwd=ROOT, env=env)
    while server.poll() is None:
        with socket.socket() as there:
            if there.connect_ex(("localhost", port)) == 0:
                break
        time.sleep(0.1)
    yield f"localhost:{port}"
    for process in [*psutil.Process(server.pid).children(recursive=True), server]:
        process.kill()
    server.wait()


@pytest.mark.parametrize(
    "environment",
    [
        ("--environment_type=LOOPBACK",),
        (
            "--environment_type=beam:env:harness_subprocess_python:v1",
            "--environment_config={python} -m apache_beam.runners.worker.sdk_worker_main",
        ),
    ],
    ids=["loopback", "subprocess"],
)
def test_examples_of_a_portable_runner_are_the_same(
    python, environment, job_server, corpus, vocab_path, whole, tmp_path
):
    options = ["--runner=PortableRunner", f"--job_endpoint={job_server}"]
    options += [word.format(python=python) for word in environment]
    _done(python, _writing(corpus, vocab_path, tmp_path / "o"), options)
    _assert_same(whole, tmp_path / "o")


def _workers(process):
    """The processes that Beam has started, without the shells around them."""
    found = psutil.Process(process.pid).children(recursive=True)
    return [child for child in found if child.cmdline()[1:2] == ["-m"]]


def _wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.002)


def test_work_of_a_killed_worker_is_done_anew(python, corpus, vocab_path, whole, tmp_path):
    output = tmp_path / "o"
    process = _start(python, _writing(corpus, vocab_path, output), PROCESSES)
    _wait_for(lambda: glob.glob(f"{output}/train-*.partial-*"), process)
    for worker in _workers(process):
        worker.kill()
    _, err = process.communicate(timeout=1200)
    assert process.returncode == 0, err[-3000:]
    assert "a worker of Beam was killed; its unfinished work is done again" in err
    _assert_same(whole, output)


def test_a_command_that_was_killed_goes_on(python, corpus, vocab_path, whole, tmp_path):
    output = tmp_path / "o"
    process = _start(python, _writing(corpus, vocab_path, output), PROCESSES)
    _wait_for(lambda: glob.glob(f"{output}/.unfinished/0*.json"), process)
    workers = _workers(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for worker in workers:
        worker.kill()
    assert not (output / "manifest.json").exists()
    _done(python, _writing(corpus, vocab_path, output), IN_PROCESS)
    _assert_same(whole, output)


def test_a_document_costs_the_same_in_a_much_larger_corpus(python, tmp_path):
    """In 1,000 files and a hundred units, and in 100,000 files and ten thousand units."""
    # The first of them compiles.
    command = (python, "-m", "tests.pipelines.pretraining.many_files", tmp_path, "100")
    done = subprocess.run([*command, "1000", "100000"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    _, small, large = map(json.loads, done.stdout.splitlines())
    assert large["documents"] == 100 * small["documents"] and large["shards"] > 10_000
    assert large["seconds_per_document"] < 1.2 * small["seconds_per_document"]
    assert large["peak_megabytes"] < 1.5 * small["peak_megabytes"]


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--vocab_size=150"], PROCESSES),
        (["--kind=byte_bpe", "--vocab_size=400", "--sample_megabytes=1"], IN_PROCESS),
    ],
)
def test_vocabularies_are_those_of_one_machine(python, flags, options, corpus, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    command = ["learn-vocabulary", f"--corpus={corpus}", *flags]
    commands.done(*command, f"--output={here}/v")
    _done(python, [*command, f"--output={there}/v"], options)
    names = [str(p.relative_to(here)) for p in sorted(here.rglob("*")) if p.is_file()]
    assert (
        names
        and [str(p.relative_to(there)) for p in sorted(there.rglob("*")) if p.is_file()] == names
    )
    assert filecmp.cmpfiles(here, there, names, shallow=False) == (names, [], [])


def test_bad_input_is_one_line(python, vocab_path, tmp_path):
    (tmp_path / "c.txt").write_bytes(b"Good.\nBad \xff.\n")
    done = _run(python, _writing(tmp_path / "c.txt", vocab_path, tmp_path / "o"), IN_PROCESS)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ") and "line 2, byte 10: byte 0xff" in last


def test_options_that_beam_does_not_take_are_told(python, corpus, vocab_path, tmp_path):
    command = _writing(corpus, vocab_path, tmp_path / "o")
    done = _run(python, command, [*IN_PROCESS, "--direct_num_workers=many"])
    assert done.returncode == 2
    assert "error: Beam does not accept " in done.stderr.strip().splitlines()[-1]
