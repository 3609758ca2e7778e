"""Without any extra: from a corpus to predictions."""

import os
import pathlib
import shutil
import subprocess
import venv

import pytest

from tests import commands
from tests.bert_tf import labelled_data

pytestmark = pytest.mark.more

_ROOT = pathlib.Path(__file__).parent.parent


def _from_corpus_to_examples(run, root):
    corpus, vocab = root / "corpus.txt", root / "vocab.txt"
    run("make-corpus", f"--output={corpus}", "--documents=100")
    text = (f"--corpus={corpus}", "--format=sentences")
    run("learn-vocabulary", *text, f"--output={vocab}", "--vocab_size=500")
    run(
        "write-examples", *text, f"--vocab={vocab}", f"--output={root}/examples",
        "--max_seq_length=32", "--dupe_factor=1", "--held_out_fraction=0.1",
    )  # fmt: skip
    return root / "examples"


def _from_examples_to_answers(run, examples, root):
    """What each command says it does without is checked; `run` returns what it printed."""
    pretrained, tuned, export = (root / name for name in ("pretrained", "tuned", "export"))
    (root / "texts").mkdir()
    texts = labelled_data.make_texts(root / "texts", train=16, dev=16)
    said = run(
        "pretrain", "--model=debug", f"--tfrecords={examples}", f"--output={pretrained}",
        "--steps=2", "--batch_size=8", "--nosaved_model", "--xla=off",
    )  # fmt: skip
    assert "curves.png is not drawn: pip install 'bert-tf[plots]'" in said
    assert "(pip install 'bert-tf[tensorboard]')" in said
    assert os.listdir(pretrained / "tensorboard")
    run(
        "finetune", "--task=mood=classification", f"--data={texts}", f"--init={pretrained}",
        f"--output={tuned}", f"--cache={root}/cache", "--epochs=1", "--max_seq_length=32", "--xla=off",
    )  # fmt: skip
    run("predict", f"--model={tuned}", f"--input={texts}/test.tsv", f"--output={root}/answers")
    assert len((root / "answers/predictions.test.tsv").read_text().splitlines()) == 11
    said = run("export", f"--tasks=mood={tuned}", f"--output={export}")
    assert "no warm-up requests are written: pip install 'bert-tf[serving]'" in said
    assert "label" in run("ask", f"--model={export}", '--inputs={"text": ["a fine film"]}')


def test_what_extras_bring_is_not_needed(tmp_path, tfrecords):
    def run(command, *flags):
        process = commands.done("tests.without_extras", command, *flags)
        return process.stdout + process.stderr

    _from_examples_to_answers(run, tfrecords, tmp_path)


def test_what_a_command_cannot_do_without_is_named_with_its_extra():
    process = commands.run("tests.without_extras", "serve")
    assert commands.error_of(process) == (
        "error: uvicorn is not installed, which this needs: pip install 'bert-tf[serving]'."
    )


@pytest.mark.slow
def test_the_bare_package_goes_from_a_corpus_to_predictions(tmp_path):
    """In an environment of its own, into which it is installed from the network."""
    place = tmp_path / "environment"
    venv.create(place, with_pip=True)
    source = tmp_path / "source"
    tracked = subprocess.check_output(["git", "ls-files", "-z"], cwd=_ROOT, text=True)
    for name in filter(None, tracked.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_ROOT / name, source / name)
    subprocess.check_call([place / "bin/python", "-m", "pip", "install", "--quiet", source])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(command, *flags):
        process = subprocess.run(
            [place / "bin/bert-tf", command, *flags],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr[-3000:]
        return process.stdout + process.stderr

    _from_examples_to_answers(run, _from_corpus_to_examples(run, tmp_path), tmp_path)
