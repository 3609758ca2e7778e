"""The Makefile: what the user says reaches the commands as it is, whatever characters it has."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak import run as soak

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
    for name in ("requirements.txt", "requirements-dev.txt"):
        (tmp_path / "an env" / f".{name}").touch()
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1e9, 1e9))
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")

    def run(target, **variables):
        record.write_text("")
        words = [f"{name}={value}" for name, value in variables.items()]
        done = subprocess.run(
            ["make", "-f", f"{ROOT}/Makefile", target, f"VENV={python.parent.parent}", *words],
            capture_output=True, text=True, cwd=tmp_path, env=_outside(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "made").exists()
        shown = [line for line in done.stderr.splitlines() if line.startswith("+")]
        assert all(line.startswith("+ exec env ") for line in shown), shown
        return [json.loads(line) for line in record.read_text().splitlines()]

    return run


# By target: its variables, and the flag that each becomes in the last command.
_COMMAND = {"MODEL": "--model", "INPUT": "--input", "PROMPT": "--prompt", "SENTENCE": "--sentence",
            "SECOND": "--second", "TASK": "--task", "TASKS": "--tasks", "VOCAB": "--vocab",
            "OUT": "--output", "ARGS": "--more_flags"}  # fmt: skip
_TRAINING = {"TFRECORDS": "--tfrecords", "OUT": "--output", "MODEL": "--model", "STEPS": "--steps",
             "MINUTES": "--minutes", "RECIPE": "--flagfile", "INIT": "--init",
             "TEACHER": "--teacher", "ARGS": "--more_flags"}  # fmt: skip
FLAGS = {
    "vocab": {"CORPUS": "--corpus", "RUNNER": "--runner", "PIPELINE": "--pipeline",
              "VOCAB_ARGS": "--more_flags"},
    "examples": {"CORPUS": "--corpus", "VOCAB": "--vocab", "TFRECORDS": "--output",
                 "RUNNER": "--runner", "PIPELINE": "--pipeline", "EXAMPLE_ARGS": "--more_flags"},
    "pretrain": _TRAINING,
    "distill": _TRAINING,
    "finetune": {"TASK": "--task", "DATA": "--data", "INIT": "--init", "OUT": "--output",
                 "MINUTES": "--search_minutes", "ARGS": "--more_flags"},
    **dict.fromkeys(("predict", "generate", "embed", "features", "convert", "export", "export-hub",
                     "export-portable", "inspect", "serve"), _COMMAND),
    "show": {"TFRECORDS": "--tfrecords", **_COMMAND},
    "experiments": {"CORPUS": "--corpus", "BUDGET": "--budget", **_COMMAND},
    "soak": {"MINUTES": "--minutes", "ARGS": "--more_flags"},
    "clean": {"TFRECORDS": "--tfrecords", "OUT": "--output"},
}  # fmt: skip


@pytest.mark.parametrize("target", FLAGS)
def test_values_arrive_as_they_are(make, target):
    values = {name: f"{NASTY} {name}" for name in FLAGS[target]}
    command = make(target, **values)[-1]
    for name, flag in FLAGS[target].items():
        assert f"{flag}={values[name]}" in command


def _make(*words, **environment):
    """Runs make in the repository, as a user would who has given other makes nothing."""
    env = {**_outside(), **environment}
    return subprocess.run(["make", *words], capture_output=True, text=True, cwd=ROOT, env=env)


def _outside():
    """The environment without what `make test` has put into it."""
    ours = re.findall(r"^([A-Z_]+) [?:]=", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {k: v for k, v in os.environ.items() if "MAKE" not in k and k not in ours}


def test_unknown_variables_are_refused_and_those_of_the_environment_do_not_count(make):
    done = _make("--dry-run", "pretrain", "STEP=5")
    assert done.returncode == 2 and not done.stdout
    assert "unknown variable STEP; `make help` lists all" in done.stderr
    assert "No rule to make target 'shwo'" in _make("--dry-run", "shwo").stderr
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("INIT", "a model")
        patched.setenv("STEPS", "5")
        command = _make("--dry-run", "pretrain").stdout.splitlines()[-3:]
    assert not re.search(r"adapt|\$\{STEPS:=", " ".join(command))
    assert "--steps=$STEPS" in " ".join(command)  # which is empty here


def test_help_lists_targets_and_variables():
    targets, _, variables = _make("help").stdout.partition("\nVariables, as NAME=value:\n\n")
    text = (ROOT / "Makefile").read_text()
    shown = re.findall(r"^  make ([a-z-]+) +\S.*$", targets, re.MULTILINE)
    rules = re.findall(r"^([a-z -]+):", text, re.MULTILINE)
    assert sorted(shown) == sorted({name for names in rules for name in names.split()})
    texts = dict(re.findall(r"^  ([A-Z_]+) +(\S.*)$", variables, re.MULTILINE))
    used = {name for names in FLAGS.values() for name in names}
    assert texts.keys() == used | {"PYTHON", "VENV", "JOBS"}
    assert max(map(len, variables.splitlines())) <= 112


def test_the_steps_of_pretraining_follow_each_other(make):
    folder = "an examples/1"
    corpus, vocab, examples, pretrain = make("pretrain", TFRECORDS=folder)
    assert corpus[1:] == ["bert_tf", "make-corpus", f"--output={folder}/builtin_corpus.txt"]
    assert f"--output={folder}/learned_vocab.txt" in vocab
    assert "--flagfile=recipes/vocabulary.flags" in vocab
    assert f"--corpus={folder}/builtin_corpus.txt" in examples
    assert f"--vocab={folder}/learned_vocab.txt" in examples
    # What is not set is no flag.
    assert not [word for word in pretrain if word.startswith(("--model", "--steps", "--more"))]
    examples, _ = make("pretrain", CORPUS="my.txt", VOCAB="my vocab.txt")
    assert "--corpus=my.txt" in examples and "--vocab=my vocab.txt" in examples


def test_the_built_in_run_takes_minutes_unless_steps_are_said(make):
    assert "--minutes=4" in make("pretrain")[-1]
    for variables in ({"STEPS": "9"}, {"RECIPE": "my.flags"}, {"INIT": "a model"}):
        assert not [w for w in make("pretrain", **variables)[-1] if w.startswith("--minutes")]
    assert "--minutes=30" in make("pretrain", INIT="a model", MINUTES="30")[-1]


def test_beam_runs_in_an_environment_of_its_own(make, tmp_path):
    beam = tmp_path / ".venv-beam"
    shutil.copytree(tmp_path / "an env", beam)
    for folder in (beam, tmp_path):
        (folder / f"{'.' * (folder == beam)}requirements-beam.txt").touch()
    os.utime(tmp_path / "requirements-beam.txt", (1e9, 1e9))
    python = beam / "bin" / "python"
    python.write_text(python.read_text().replace("sys.argv[1:]", '["beam", *sys.argv[1:]]'))
    corpus, vocab, examples = make("examples", RUNNER="beam", PIPELINE="--region=x")
    assert corpus[1:3] == ["bert_tf", "make-corpus"]
    for command in (vocab, examples):
        assert command[0] == "beam"
        assert "--runner=beam" in command and "--pipeline=--region=x" in command
    assert "--runner=local" in make("examples")[-1]


def test_pretraining_goes_on_from_a_model_in_one_command(make):
    convert, examples, pretrain = make("pretrain", INIT="a model", CORPUS="my.txt")
    assert convert[1:3] == ["bert_tf", "convert"] and "--input=a model" in convert
    assert convert[4:] == ["--output=tfrecords/adapted/tokenizer", "--tokenizer_only"]
    assert "--vocab=tfrecords/adapted/tokenizer" in examples
    assert "--flagfile=recipes/adaptation_examples.flags" in examples
    more_masks = "--flagfile=recipes/more_masks.flags"
    assert more_masks not in examples and more_masks in make("examples")[-1]
    assert more_masks not in make("examples", EXAMPLE_ARGS="--objective=left_to_right")[-1]
    assert more_masks not in make("examples", TEACHER="a model")[-1]
    assert more_masks not in make("examples", RECIPE="recipes/base.flags")[-1]
    assert "--init=a model" in pretrain
    assert "--flagfile=recipes/adaptation.flags" in pretrain
    assert "--output=savedmodels/adapted" in (ROOT / "recipes/adaptation.flags").read_text()


def test_tasks_have_their_recipes(make):
    assert "--flagfile=recipes/squad2.flags" in make("finetune", TASK="squad2")[0]
    assert "--flagfile=recipes/ner.flags" in make("finetune", TASK="names=ner")[0]
    for tasks in ("mrpc", "mrpc,ner", "a=mrpc,b=ner", "ner=mrpc"):
        assert not [w for w in make("finetune", TASK=tasks)[0] if w.startswith("--flagfile")]


def test_flags_of_benchmarks_may_have_blanks(make):
    flags = "'--work=a folder' --seed=2"
    assert f"--more_flags={flags}" in make("soak", ARGS=flags)[0]
    found = soak._parse([f"--more_flags={flags}", "--minutes=3"])
    assert (str(found.work), found.seed, found.minutes) == ("a folder", 2, 3)
