"""A flag that a message advises works in the next run, in the same output folder."""

import ast
import importlib
import json
import re
from pathlib import Path

import pytest

from bert_tf import __main__
from pipelines.common import arguments, command_line, settings
from pipelines.common.errors import InputError
from tests.conftest import make_documents

# The rest of a message begins with the advice: a flag and its value.
_ADVICE = re.compile(r"(?:use|Use|give|with|train) (?:without them \()?--(\w+=\w[\w.]*)")
WRITE = ("--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=1", "--workers=1")
DOCUMENTS, FEW = (
    "\n\n".join("\n".join(lines) for lines in make_documents(count)) for count in (30, 5)
)
ONE = "\n".join(f"The token {number} is here." for number in range(30))
LIST = json.dumps([{"text": "The token."}] * 30, indent=1)
ROWS = "".join(json.dumps({"body": f"The token {i}. Another one."}) + "\n" for i in range(30))
SMALLER = "max_seq_length=20000; use a smaller one"
FOLLOWED = [
    ("held_out_fraction=0", FEW, ["--held_out_fraction=0.2", "--objective=mlm"]),
    (SMALLER, DOCUMENTS,
     ["--objective=mlm", "--sequences=packed", "--max_seq_length=20000", "--held_out_fraction=0.3"]),
    ("objective=mlm", ONE, []),
    ("utf8_errors=replace", DOCUMENTS + "\udcff", []),
    ("format=sentences", LIST, ["--objective=mlm"]),
    ("text_field", ROWS, ["--objective=mlm", "--format=jsonl"]),
]  # fmt: skip
# What they advise needs a model, or labelled files, or is written for another command.
ELSEWHERE = {
    "engine=tensorflow", "pooling=mean", "columns=text", "columns=text_a", "columns=labels", "columns=tags",
    "columns=words", "task=multilabel", "task=ner", "character_coverage=0.9995",
    "lower_case=false", "combine=weighted", "unit=text", "unit=word", "beams=1", "objective=left_to_right", "objective=denoising",
}  # fmt: skip


def _run(command, *words):
    module = __main__.COMMANDS[command][0]
    arguments.parse(words, command_line.flags_of(module))
    main = importlib.import_module(module).main
    main(**settings.arguments_of(main))


@pytest.mark.parametrize(("advice", "text", "words"), FOLLOWED)
def test_an_advised_flag_is_accepted_by_the_next_run(tmp_path, vocab_path, advice, text, words):
    corpus = tmp_path / "c.txt"
    corpus.write_text(text, errors="surrogateescape")
    words = (
        *WRITE,
        f"--corpus={corpus}",
        f"--vocab={vocab_path}",
        f"--output={tmp_path}/o",
        *words,
    )
    with pytest.raises(InputError, match=f"--{advice}"):
        _run("write-examples", *words)
    flag = {"text_field": "text_field=body", SMALLER: "max_seq_length=32"}.get(advice, advice)
    _run("write-examples", *words, f"--{flag}")


def test_all_advised_values_are_known():
    root, advised = Path(__file__).parent.parent, set()
    for path in [*(root / "bert_tf").rglob("*.py"), *(root / "pipelines").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise | ast.Return):
                texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
                for text in filter(lambda value: isinstance(value, str), texts):
                    advised |= {found.rstrip(".") for found in _ADVICE.findall(text)}
    assert {advice for advice, *_ in FOLLOWED if advice in advised} | ELSEWHERE == advised
