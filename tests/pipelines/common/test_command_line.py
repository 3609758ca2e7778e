"""What all commands do alike: flags that make no sense, stops, outputs that cannot be."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import commands

PRETRAIN = ("pretrain", "--tfrecords=none")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ((*PRETRAIN, "--output="), "--output=: it must be the path of a file or folder"),
        ((*PRETRAIN, "--warmup_steps=²"), "--warmup_steps=²: it must be whole numbers separated by commas, each at least 0"),
        ((*PRETRAIN, f"--steps={1 << 40}"), "it must be below 2,147,483,647"),
        (("learn-vocabulary", "--corpus=a", "--output=v", "--character_coverage=nan"),
         "character_coverage"),
        (("learn-vocabulary", "--corpus=a", "--output=v", f"--vocab_size={1 << 40}"),
         "vocab_size"),
        (("serve", "--host=example"), "--host=example: is not an address of this machine"),
        (("ask", "--inputs=" + "[" * 100_000), "--inputs: is not JSON"),
        (("ask", '--inputs={"text": NaN}', "--model=m"), "NaN is not a number"),
    ],
)  # fmt: skip
def test_flags_that_make_no_sense_are_one_line(tmp_path, command, message):
    (tmp_path / "versions/1").mkdir(parents=True)
    where = ["--model=versions"] if command[0] == "serve" else []
    line = commands.error(*command, *where, cwd=tmp_path)
    assert line.startswith("error: ") and message in line
    assert os.listdir(tmp_path) == ["versions"]


@pytest.mark.parametrize("output", ["/proc/nothing/here", "/dev/null/below", "/" + "x" * 300])
def test_outputs_that_cannot_be_are_one_line(tmp_path, corpus_path, output):
    flags = (f"--corpus={corpus_path}", f"--output={output}/vocab.txt", "--vocab_size=200")
    line = commands.error("learn-vocabulary", *flags)
    assert line.startswith(f"error: {output[:8]}") and "check the path" in line


@pytest.mark.more
def test_sizes_that_no_memory_holds_are_refused_before_anything_is_made(
    tmp_path, corpus_path, vocab_path, tfrecords
):
    output = tmp_path / "o"
    write = ("write-examples", f"--corpus={corpus_path}", f"--vocab={vocab_path}")
    for flag in ("--max_seq_length=1000000000000", "--workers=10000000"):
        line = commands.error(*write, f"--output={output}", flag)
        assert flag in line and "GB of memory; this machine has" in line
    config = tmp_path / "bert_config.json"
    train = ("pretrain", f"--tfrecords={tfrecords}", f"--output={output}")
    for key, value, message in (
        ("num_hidden_layers", 10**30, "num_hidden_layers is too large"),
        ("num_hidden_layers", 1e30, "it must be a whole number"),
        ("intermediate_size", 10**9, "parameters would take"),
        ("vocab_size", 2 * 10**9, "parameters would take"),
        ("layer_norm_eps", float("nan"), "NaN is not a number"),
    ):
        text = str(value).replace("nan", "NaN")
        config.write_text(f'{{"hidden_size": 128, "num_attention_heads": 2, "{key}": {text}}}')
        assert message in commands.error(*train, f"--model={config}")
    huge = ("--model=tiny", "--batch_size=100000000000")
    assert "a batch of 100,000,000,000 sequences" in commands.error(*train, *huge)
    assert not output.exists()


def _handles_signals(pid):
    """Whether a process has a handler for SIGTERM, which Python itself has not."""
    with open(f"/proc/{pid}/status") as file:
        masks = dict(line.split(":", 1) for line in file)
    return int(masks["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1


@pytest.mark.more_cases
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_command_starts_has_the_usual_message(number):
    """A process of its own: what is tried is the time in which TensorFlow is imported."""
    for delay in (0.0, 0.5, 1.2):
        process = subprocess.Popen(
            [sys.executable, "-m", "bert_tf", "finetune", "--task=mrpc", "--init=none", "--data=none"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while not _handles_signals(process.pid):
            time.sleep(0.001)
        time.sleep(delay)
        process.send_signal(number)
        _, err = process.communicate(timeout=1200)
        if process.returncode != 2:  # else it had ended before: there is no such model
            assert process.returncode == 128 + number, err
            assert err == "stopped; run the same command again to resume.\n"


def _first_child(process):
    """The first process that a process starts."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            children = file.read().split()
        if children:
            return children[0]
        time.sleep(0.01)
    raise AssertionError(process.communicate())


def _runs(pid):
    """Whether a process has not ended, though nobody may have asked for its exit status."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.more
def test_workers_start_beside_tensorflow_and_end_with_the_command(tmp_path, vocab_path):
    """A process of its own: others of the tests have imported TensorFlow before."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bert_tf", "write-examples", "--workers=2", f"--vocab={vocab_path}",
         f"--corpus={tmp_path}/none.txt", f"--output={tmp_path}/o"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    server = _first_child(process)
    with open(f"/proc/{process.pid}/maps") as file:
        assert "tensorflow" not in file.read()
    _, err = process.communicate(timeout=1200)
    assert process.returncode == 2 and err.startswith("error: ") and err.count("\n") == 1
    end = time.monotonic() + 60
    while _runs(server):
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_text_is_read_has_the_usual_message(tmp_path, number):
    (tmp_path / "c.txt").write_text("The words of a long text.\n" * 3_000_000)
    process = commands.Running(
        "learn-vocabulary", f"--corpus={tmp_path}/c.txt", f"--output={tmp_path}/v.txt",
        "--format=sentences", "--vocab_size=60",
    )  # fmt: skip
    while not (tmp_path / "v.txt.partial").exists():
        assert process.poll() is None
        time.sleep(0.005)
    time.sleep(0.1)  # the file is there a moment before it is one to remove
    process.send_signal(number)
    stopped = process.wait()
    assert stopped.returncode == 128 + number
    assert stopped.stderr.endswith("stopped; run the same command again to resume.\n")
    assert "Traceback" not in stopped.stderr
    assert os.listdir(tmp_path) == ["c.txt"]
