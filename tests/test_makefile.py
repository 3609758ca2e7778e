"""The Makefile: what the user says reaches the commands as it is, whatever characters it has."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Each would be lost, split or run if make or a shell read it.
NASTY = """it's a "b" $HOME $(touch made) `touch made`; touch made #x"""


@pytest.fixture
def make(tmp_path):
    """Runs a target with variables; returns the commands that it would have run, as lists."""
    record = tmp_path / "record.jsonl"
    python = tmp_path / "an env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"open({str(record)!r}, 'a').write(json.dumps(sys.argv[1:]) + chr(10))\n"
    )
    python.chmod(0o755)
    ready = tmp_path / "an env" / ".ready"
    ready.touch()
    os.utime(ready, (2e9, 2e9))

    def run(target, **variables):
        record.write_text("")
        words = [f"{name}={value}" for name, value in variables.items()]
        done = subprocess.run(
            ["make", "-f", f"{ROOT}/Makefile", target, f"VENV={python.parent.parent}", *words],
            capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "made").exists()
        return [json.loads(line) for line in record.read_text().splitlines()]

    (tmp_path / "requirements.txt").touch()
    os.utime(tmp_path / "requirements.txt", (1e9, 1e9))
    return run


# By target: its variables, and the flag that each becomes in the last command.
FLAGS = {
    "examples": {"CORPUS": "--input", "VOCAB": "--vocab", "TFRECORDS": "--output",
                 "HELD_OUT": "--held_out_fraction", "SEED": "--seed",
                 "EXAMPLE_FLAGS": "--more_flags"},
    "vocab": {"CORPUS": "--input", "SEED": "--seed", "VOCAB_FLAGS": "--more_flags"},
    "pretrain": {"TFRECORDS": "--tfrecords", "OUT": "--output", "MODEL": "--model",
                 "STEPS": "--steps", "SEED": "--seed", "RECIPE": "--flagfile",
                 "TRAIN_FLAGS": "--more_flags"},
    "finetune": {"TASK": "--task", "DATA": "--data", "INIT": "--init", "OUT": "--output",
                 "SEEDS": "--seeds", "EPOCHS": "--epochs", "BATCH": "--batch_size",
                 "LR": "--learning_rate", "TUNE_FLAGS": "--more_flags"},
    "predict": {"MODEL": "--model", "INPUT": "--input", "TASK": "--task", "KIND": "--kind",
                "OUT": "--output", "TUNE_FLAGS": "--more_flags"},
    "embed": {"MODEL": "--model", "INPUT": "--input", "OUT": "--output",
              "EMBED_FLAGS": "--more_flags"},
    "convert": {"INPUT": "--input", "OUT": "--output", "FORMAT": "--format", "TASK": "--task",
                "VOCAB": "--vocab", "CONVERT_FLAGS": "--more_flags"},
    "export": {"TASKS": "--tasks", "OUT": "--output", "PRECISION": "--precision"},
    "export-hub": {"MODEL": "--model", "OUT": "--output"},
    "export-portable": {"TASKS": "--tasks", "OUT": "--output"},
    "serve": {"MODEL": "--model", "HOST": "--host"},
    "show": {"TFRECORDS": "--tfrecords"},
    "clean": {"TFRECORDS": "--tfrecords", "OUT": "--output"},
}  # fmt: skip


@pytest.mark.parametrize("target", FLAGS)
def test_values_arrive_as_they_are(make, target):
    values = {name: f"{NASTY} {name}" for name in FLAGS[target]}
    command = make(target, **values)[-1]
    for name, flag in FLAGS[target].items():
        assert f"{flag}={values[name]}" in command


def test_every_variable_is_of_some_target():
    """A variable that is added to the Makefile is added above, too."""
    lines = (ROOT / "Makefile").read_text().split("VARIABLES := ")[1].split("\n\n")[0]
    named = set(lines.split("$(foreach")[0].replace("\\", " ").split())
    tools = {"BERT_CLONE", "BENCH_FLAGS", "PEERS", "JOBS", "PYTHON", "VENV"}
    assert named - tools == {name for names in FLAGS.values() for name in names}


def test_the_steps_of_pretraining_follow_each_other(make):
    folder = "an examples/1"
    corpus, vocab, examples, pretrain = make("pretrain", TFRECORDS=folder)
    assert corpus[1:] == ["bert_tf", "make-corpus", f"--output={folder}/builtin_corpus.txt"]
    assert f"--output={folder}/learned_vocab.txt" in vocab
    assert "--flagfile=recipes/vocabulary.flags" in vocab
    assert f"--input={folder}/builtin_corpus.txt" in examples
    assert f"--vocab={folder}/learned_vocab.txt" in examples
    assert "--output=savedmodels/pretrained" in pretrain
    # What is not set is no flag.
    assert not [word for word in pretrain if word.startswith(("--model", "--steps", "--more"))]
    examples, _ = make("pretrain", CORPUS="my.txt", VOCAB="my vocab.txt")
    assert "--input=my.txt" in examples and "--vocab=my vocab.txt" in examples


def test_tasks_have_their_recipes(make):
    assert "--flagfile=recipes/squad2.flags" in make("finetune", TASK="squad2")[0]
    assert not [w for w in make("finetune", TASK="mrpc")[0] if w.startswith("--flagfile")]


def test_the_server_listens_to_this_machine_alone(make):
    assert "--host=127.0.0.1" in make("serve")[0]
