"""The commands: what they are called, and that help needs no TensorFlow."""

import os
import subprocess
import sys

import pytest

import bert_tf
from bert_tf import __main__, tasks
from bert_tf.commands import names
from bert_tf.export import portable
from bert_tf.weights import formats


def test_names_of_flags_are_those_of_the_registries():
    assert list(tasks.KINDS) == list(names.TASKS)
    assert list(formats.WRITABLE) == list(names.FORMATS)
    assert list(portable.Runtime) == list(names.RUNTIMES)


def _python(code, *arguments, cwd=None):
    root = os.path.dirname(os.path.dirname(os.path.abspath(bert_tf.__file__)))
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, cwd=cwd, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip


_HELP = """
import sys
from bert_tf import __main__
sys.argv[0] = "bert-tf"
__main__.main()
assert "tensorflow" not in sys.modules, "TensorFlow was imported"
"""


@pytest.mark.parametrize("command", [None, *__main__.COMMANDS])
def test_help_is_there_before_tensorflow(command, tmp_path):
    done = _python(_HELP, *([command] if command else []), "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: bert-tf {command or 'COMMAND'} [--flag=value ...]")
    assert done.stderr == ""


def test_all_commands_are_listed_and_a_wrong_one_is_one_line(tmp_path):
    listed = _python(_HELP, cwd=tmp_path).stdout
    assert all(f"  {name} " in listed for name in __main__.COMMANDS)
    wrong = _python(_HELP, "pre-train", cwd=tmp_path)
    assert wrong.returncode == 2
    assert wrong.stderr == (
        "error: there is no command 'pre-train'; did you mean pretrain? (--help lists all)\n"
    )


def test_the_package_imports_tensorflow_on_demand(tmp_path):
    code = """
import sys
import bert_tf
assert "tensorflow" not in sys.modules
assert bert_tf.__version__
for name in ("BertConfig", "BertEncoder", "TaskModel", "Predictor", "connect", "load", "save"):
    assert callable(getattr(bert_tf, name)), name
assert set(bert_tf.__all__) <= set(dir(bert_tf))
try:
    bert_tf.nothing
except AttributeError as error:
    assert "nothing" in str(error)
"""
    done = _python(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
