"""The commands: their names, help without TensorFlow, and errors in flags."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import bert_tf
from bert_tf import __main__, tasks
from bert_tf.commands import convert, export_portable
from bert_tf.export import portable
from bert_tf.models import config
from bert_tf.weights import formats
from pipelines.commands.shared_flags import ExampleTable
from pipelines.common import command_line
from pipelines.labelled import columns


def test_names_of_flags_are_those_of_the_registries():
    assert list(formats.WRITABLE) == list(convert.FORMATS)
    assert list(portable.TARGETS) == list(export_portable.RUNTIMES)
    (text,) = (flag.help for name, flag in ExampleTable.own_flags() if name == "columns")
    assert f"Roles: {', '.join((*columns.ROLES, *columns.ALIASES))}. " in text


def _python(code, *arguments, cwd=None):
    root = os.path.dirname(os.path.dirname(os.path.abspath(bert_tf.__file__)))
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip


_MAIN = """
import atexit
import os
import sys
from bert_tf import __main__, tasks
sys.argv[0] = "bert-tf"

@atexit.register
def check():
    if "tensorflow" in sys.modules:
        print("TensorFlow was imported", file=sys.stderr)

__main__.main()
"""


def _bert_tf(*words, cwd):
    """Runs a command that ends before TensorFlow is imported; the process, and its seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = _python(_MAIN, *words, cwd=cwd)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "TensorFlow was imported" not in done.stderr
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture
def known(command):
    """The flags of a command that it shows."""
    found = command_line.flags_of(__main__.COMMANDS[command][0])
    return {k: flag for k, flag in found.items() if k not in __main__.PRESETS.get(command, {})}


def _help(command, seconds, cwd):
    """The help of a command, which must appear in so many seconds of the processor."""
    done, took = _bert_tf(*command, "--help", cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: bert-tf {' '.join(command) or 'COMMAND'} [--flag=value")
    assert took < seconds
    return done.stdout


def test_help_of_the_program_lists_all_commands(tmp_path):
    shown = _help([], 1, tmp_path)
    assert all(f"  {name} " in shown for name in __main__.COMMANDS)


def test_the_version_is_printed_without_tensorflow(tmp_path):
    done, _ = _bert_tf("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"bert-tf {bert_tf.__version__}\n",
        "",
    )


@pytest.mark.parametrize("words", ["--help", "pretrain --help"])
def test_help_may_be_read_in_part(words):
    shell = f"set -o pipefail; {sys.executable} -m bert_tf {words} | true"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", __main__.COMMANDS)
def test_help_has_an_example_and_all_flags(command, known, tmp_path):
    shown = _help([command], 2, tmp_path)
    assert re.search(rf"\n  bert-tf {command} --", shown.split(":\n  --")[0])
    assert max(len(line) for line in shown.splitlines()) <= 100
    found = re.findall(r"^  --(\[no_\])?(\w+)(?:=\S+)?(?:  \((required|default: ))?", shown, re.M)
    assert sorted(name for _, name, _ in found) == sorted(known)
    for boolean, name, note in found:
        assert (bool(boolean), note == "required") == (known[name].boolean, known[name].required)
        assert known[name].help.endswith("."), name
        assert ("Not given: " in known[name].help) != bool(note), known[name].help


@pytest.mark.parametrize("command", ["pretrain"])
def test_help_names_the_sizes_of_models(known):
    text = known["model"].help
    assert not [size for size in config.SIZES if not re.search(rf"\b{size}\b", text)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pretrain", "--learning_rat=1"], "unknown flag --learning_rat; did you mean --learning_rate?"),
        (["pretrain", "--no_saved_modl"], "unknown flag --no_saved_modl; did you mean --no_saved_model?"),
        (["pretrain", "--qqqq"], "unknown flag --qqqq"),
        (["pretrain", "--checkpoint-every=9"], "unknown flag --checkpoint-every; here it is --save_every"),
        (["pretrain", "--gradient_accumulation_steps=4"], "unknown flag "
         "--gradient_accumulation_steps; here it is --accumulation, which splits --batch_size instead of "
         "multiplying it"),
        (["finetune", "--init_checkpoint=m"], "unknown flag --init_checkpoint; here it is --init"),
        (["finetune", "--predict_file=m"], "unknown flag --predict_file; here it is --dev"),
        (["predict", "--predict_file=m"], "unknown flag --predict_file; here it is --input"),
        (["predict", "--do_predict"], "unknown flag --do_predict; commands do this by themselves: omit it"),
        (["pretrain", "--task=mrpc"], "unknown flag --task, which belongs to finetune, predict, inspect and convert"),
        (["pretrain", "--seeds=1"], "unknown flag --seeds, which belongs to finetune; did you mean --seed?"),
        (["pretrain", "--no_labelled"], "unknown flag --no_labelled, which belongs to predict"),
        (["predict", "--model=m", "--input=i", "--learning_rate=1"],
         "unknown flag --learning_rate, which belongs to pretrain, distill and finetune"),
        (["finetune", "--task=mine=clasification", "--init=i"],
         f"--task=mine=clasification: it must be one of {', '.join(tasks.kinds())}; did you mean "
         "classification?"),
        (["pretrain", "--tfrecords=t", "--precision=bfloat16"],
         "--precision=bfloat16: it must be one of auto, float32, mixed_bfloat16; did you mean "
         "mixed_bfloat16?"),
    ],
)  # fmt: skip
def test_an_error_in_flags_appears_at_once_in_one_line(tmp_path, words, message):
    done, seconds = _bert_tf(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"error: {message} (--help lists the flags)\n"
    assert seconds < 2


def test_an_unknown_command_is_one_line(tmp_path):
    wrong = _bert_tf("pre-train", cwd=tmp_path)[0]
    assert wrong.returncode == 2
    assert wrong.stderr == (
        "error: unknown command pre-train; did you mean pretrain? (--help lists all)\n"
    )


def test_the_reference_lists_the_names_of_the_package():
    text = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text()
    rows = re.findall(r"^\| `bert_tf\.(\w+)` \| `([\w.]+)\.(\w+)` \|$", text, re.M)
    assert {name: tuple(home) for name, *home in rows} == bert_tf._HOMES


@pytest.mark.more
def test_the_package_imports_tensorflow_on_demand(tmp_path):
    code = """
import sys
import bert_tf
assert "tensorflow" not in sys.modules
assert bert_tf.__version__
for name in bert_tf._HOMES:
    assert callable(getattr(bert_tf, name)), name
assert set(bert_tf.__all__) <= set(dir(bert_tf))
try:
    bert_tf.nothing
except AttributeError as error:
    assert "nothing" in str(error)
"""
    done = _python(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
