"""A foreign output is refused before data are read or models are loaded: neither exists here."""

import os

from tests import commands

_COMMANDS = {
    "make-corpus": (),
    "make-labelled": (),
    "pretrain": ("--tfrecords=none",),
    "distill": ("--tfrecords=none", "--teacher=none"),
    "finetune": ("--task=mrpc", "--data=none", "--init=none"),
    "train-embeddings": ("--train=none", "--init=none"),
    "experiments": ("--corpus=none",),
    "predict": ("--model=none", "--input=none"),
    "embed": ("--model=none", "--input=none"),
    "features": ("--model=none", "--input=none"),
    "inspect": ("--model=none", "--sentence=Text"),
    "extend-vocabulary": ("--model=none", "--words=none"),
    "convert": ("--input=none",),
    "export": ("--tasks=none",),
    "export-hub": ("--model=none",),
    "export-portable": ("--tasks=none",),
}
# They find their texts, of which they read nothing, before; or write a file.
_OTHERS = {"learn-vocabulary", "write-examples", "mine-negatives", "clean"}


def test_a_foreign_output_is_refused_first(tmp_path, corpus_path):
    (tmp_path / "mine").mkdir()
    for path in ("mine/notes.txt", "mine.jsonl"):
        (tmp_path / path).write_text("Notes.")
    texts = ("--model=none", "--input=none", "--output=mine.jsonl")
    for command, *flags in (
        *((command, *flags, "--output=mine") for command, flags in _COMMANDS.items()),
        *((command, *texts) for command in ("embed", "features", "mine-negatives")),
        ("learn-vocabulary", f"--corpus={corpus_path}", "--output=mine.jsonl"),
        ("write-examples", f"--corpus={corpus_path}", "--vocab=none", "--output=mine"),
    ):
        line = commands.error(command, *flags, cwd=tmp_path)
        assert line.startswith("error: mine"), command
    assert sorted(os.listdir(tmp_path)) == ["mine", "mine.jsonl"]


def test_what_a_command_settles_is_no_flag_of_it():
    line = commands.error("train-embeddings", "--task=classification")
    assert line.startswith("error: unknown flag --task, which belongs to finetune")


def test_all_commands_with_an_output_are_tried():
    listed = open("tests/flags.txt").read().splitlines()
    named = {line.split()[0] for line in listed if " --output:" in line}
    assert named == (_COMMANDS.keys() | _OTHERS) - {"train-embeddings"}
