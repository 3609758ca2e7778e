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
    ready = tmp_path / "an env" / ".ready"
    ready.touch()
    os.utime(ready, (2e9, 2e9))

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

    (tmp_path / "requirements.txt").touch()
    os.utime(tmp_path / "requirements.txt", (1e9, 1e9))
    return run


# By target: its variables, and the flag that each becomes in the last command.
_EXAMPLES = {"CORPUS": "--input", "VOCAB": "--vocab", "TFRECORDS": "--output",
             "RUNNER": "--runner", "PIPELINE": "--pipeline", "EXAMPLE_ARGS": "--more_flags"}  # fmt: skip
FLAGS = {
    "examples": _EXAMPLES,
    "tfrecords": _EXAMPLES,
    "vocab": {"CORPUS": "--input", "RUNNER": "--runner", "PIPELINE": "--pipeline",
              "VOCAB_ARGS": "--more_flags"},
    "distill": {"TEACHER": "--teacher", "TFRECORDS": "--tfrecords", "OUT": "--output",
                "STEPS": "--steps", "MINUTES": "--minutes", "ARGS": "--more_flags",
                "RECIPE": "--flagfile"},
    "pretrain": {"TFRECORDS": "--tfrecords", "OUT": "--output", "MODEL": "--model",
                 "STEPS": "--steps", "MINUTES": "--minutes", "RECIPE": "--flagfile",
                 "INIT": "--init_checkpoint", "ARGS": "--more_flags"},
    "finetune": {"TASK": "--task", "DATA": "--data", "INIT": "--init", "OUT": "--output",
                 "ARGS": "--more_flags"},
    "predict": {"MODEL": "--model", "INPUT": "--input", "TASK": "--task", "OUT": "--output",
                "ARGS": "--more_flags"},
    "generate": {"MODEL": "--model", "PROMPT": "--prompt", "ARGS": "--more_flags"},
    "embed": {"MODEL": "--model", "INPUT": "--input", "OUT": "--output", "ARGS": "--more_flags"},
    "features": {"MODEL": "--model", "INPUT": "--input", "OUT": "--output", "ARGS": "--more_flags"},
    "look": {"MODEL": "--model", "SENTENCE": "--text", "SECOND": "--text_b", "OUT": "--output",
             "ARGS": "--more_flags"},
    "convert": {"INPUT": "--input", "OUT": "--output", "FORMAT": "--format", "TASK": "--task",
                "VOCAB": "--vocab", "ARGS": "--more_flags"},
    "experiments": {"CORPUS": "--corpus", "TASKS": "--tasks", "BUDGET": "--budget",
                    "VOCAB": "--vocab", "OUT": "--output", "ARGS": "--more_flags"},
    "export": {"TASKS": "--tasks", "OUT": "--output", "ARGS": "--more_flags"},
    "export-hub": {"MODEL": "--model", "OUT": "--output", "ARGS": "--more_flags"},
    "export-portable": {"TASKS": "--tasks", "OUT": "--output", "ARGS": "--more_flags"},
    "serve": {"MODEL": "--model", "ARGS": "--more_flags"},
    "show": {"TFRECORDS": "--tfrecords", "ARGS": "--more_flags"},
    "soak": {"MINUTES": "--minutes"},
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


@pytest.fixture(scope="module")
def uses():
    """The variables of each target, as the Makefile says it; those of all targets left out."""
    database = _make("--print-data-base", "--dry-run", "help").stdout
    found = dict(re.findall(r"^USES_([a-z-]+) := *(.*)$", database, re.MULTILINE))
    targets = re.search(r"^TARGETS := (.*)$", database, re.MULTILINE)[1].split()
    return {target: found.get(target, "").split() for target in targets}


def _read():
    """The variables that the recipes of each target and of those before it read."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    for helper, body in re.findall(r"^([A-Z_]+) := (.*(?:\$\$|call flag).*)$", text, re.MULTILINE):
        text = text.replace(f"$({helper})", body)
    rules = re.findall(r"^([a-z-]+):((?: [a-z]+)*)(?: ##.*)?\n((?:\t.*\n?)*)", text, re.MULTILINE)
    before = {target: names.split() for target, names, _ in rules}
    own = {t: set(re.findall(r"\$\$\{?([A-Z_]+)|,([A-Z_]+)\)", recipe)) for t, _, recipe in rules}

    def read(target):
        found = {name for pair in own[target] for name in pair if name}
        return found.union(*map(read, before[target]))

    return {target: read(target) for target in before}


def test_the_variables_of_a_target_are_those_that_it_reads(uses):
    read = _read()
    known = {name for names in uses.values() for name in names}
    assert {target: names & known for target, names in read.items()} == {
        target: set(names) for target, names in uses.items()
    }


def test_variables_that_become_flags_are_tried_above(uses):
    """A variable that is added to the Makefile is added to FLAGS, too."""
    tools = {"PEERS", "BEAM", "JOBS"}
    named = {name for names in uses.values() for name in names}
    assert named - tools == {name for names in FLAGS.values() for name in names}
    assert all(set(FLAGS[target]) <= set(uses[target]) for target in FLAGS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pretrain BUDGET=1h", "BUDGET is not used by make pretrain, which takes ARGS BEAM CORPUS "),
        ("pretrain BUDGET=1h", "; it is for make experiments."),
        ("predict STEPS=5", "STEPS is not used by make predict, which takes ARGS INPUT MODEL OUT TASK; "
                            "it is for make pretrain distill."),
        ("finetune CORPUS=", "it is for make corpus vocab examples tfrecords pretrain distill "
                             "experiments."),
        ("pretrain STEP=5", "; put variables of the environment before make."),
        ("STEPS=5", "STEPS is not used by make help, which takes no variables"),
        ("lint show STEPS=5", "STEPS is not used by make lint show, which takes ARGS TFRECORDS"),
    ],
)  # fmt: skip
def test_a_variable_that_the_target_does_not_use_is_told(words, message):
    done = _make("--dry-run", *words.split())
    assert done.returncode == 2 and done.stdout == ""
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


def test_variables_that_some_target_uses_are_taken():
    assert _make("--dry-run", "show", "finetune", "TFRECORDS=t", "TASK=x", "VENV=v").returncode == 0
    # Shells have variables for other ends, which are not meant for make.
    assert _make("--dry-run", "show", INIT="x", STEP="5", MODEL="y").returncode == 0
    assert _make("--dry-run", "show", "STEPS=5", MAKELEVEL="1").returncode == 0
    assert "No rule to make target 'shwo'" in _make("--dry-run", "shwo", "STEPS=5").stderr


def test_help_lists_targets_with_their_variables_and_what_these_are_for(uses):
    targets, _, variables = _make("help").stdout.partition("\nVariables, as NAME=value:\n\n")
    shown = re.findall(r"^  make ([a-z-]+) +\S.*\n((?: {20,}.*\n)*)", targets, re.MULTILINE)
    assert {target: names.split() for target, names in shown} == uses
    texts = dict(re.findall(r"^  ([A-Z_]+) +(\S.*)$", variables, re.MULTILINE))
    assert texts.keys() == {"PYTHON", "VENV", *(name for names in uses.values() for name in names)}
    assert texts["TFRECORDS"].endswith("(tfrecords/pretraining)")
    assert texts["BUDGET"].endswith("(8h)")
    assert max(map(len, variables.splitlines())) <= 110


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


def test_the_built_in_run_takes_minutes_unless_steps_are_said(make):
    assert "--minutes=4" in make("pretrain")[-1]
    for variables in ({"STEPS": "9"}, {"RECIPE": "my.flags"}, {"INIT": "a model"}):
        assert not [w for w in make("pretrain", **variables)[-1] if w.startswith("--minutes")]
    assert "--minutes=30" in make("pretrain", INIT="a model", MINUTES="30")[-1]


def test_beam_runs_in_an_environment_of_its_own(make, tmp_path):
    beam = tmp_path / "beam"
    shutil.copytree(tmp_path / "an env", beam)
    python = beam / "bin" / "python"
    python.write_text(python.read_text().replace("sys.argv[1:]", '["beam", *sys.argv[1:]]'))
    corpus, vocab, examples = make("tfrecords", RUNNER="beam", BEAM=beam, PIPELINE="--region=x")
    assert corpus[1:3] == ["bert_tf", "make-corpus"]
    for command in (vocab, examples):
        assert command[0] == "beam"
        assert "--runner=beam" in command and "--pipeline=--region=x" in command
    assert "--runner=local" in make("tfrecords")[-1]


def test_pretraining_goes_on_from_a_model_in_one_command(make):
    convert, examples, pretrain = make("pretrain", INIT="a model", CORPUS="my.txt")
    assert convert[1:3] == ["bert_tf", "convert"] and "--input=a model" in convert
    assert convert[4:] == ["--output=tfrecords/adapted/tokenizer", "--tokenizer_only"]
    assert "--vocab=tfrecords/adapted/tokenizer" in examples
    assert "--flagfile=recipes/adaptation_examples.flags" in examples
    assert "--init_checkpoint=a model" in pretrain
    assert "--flagfile=recipes/adaptation.flags" in pretrain
    assert "--output=savedmodels/adapted" in pretrain


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
