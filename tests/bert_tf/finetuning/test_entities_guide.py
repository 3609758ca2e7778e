"""The guide's way from a Label Studio export to a served CRF, with a small model of random weights."""

import json
import re
import shlex
from pathlib import Path

import pytest

from bert_tf import weights
from tests import commands
from tests.bert_tf.labelled_data import make_annotations, write_init
from tests.bert_tf.serving.server.served import Served

pytestmark = pytest.mark.slow
GUIDE = Path(__file__).parents[3] / "docs/guides/finetuning.md"


def _lines():
    """The commands of the section, each as its words."""
    section = GUIDE.read_text("utf-8").split("\n## Entities\n")[1].split("\n## ")[0]
    shell = re.findall(r"(?:^ {4}\S.*\n(?:^ {8}.*\n)*)+", section, re.MULTILINE)
    text = "".join(shell[:2]).replace("\\\n", " ")
    return [shlex.split(line) for line in text.splitlines() if line.strip()]


def test_from_label_studio_to_a_served_crf(tmp_path):
    _, finetune, export, serve, curl = _lines()
    assert [line[:2] for line in (finetune, export, serve)] == [
        ["bert-tf", "finetune"], ["bert-tf", "export"], ["bert-tf", "serve"],
    ]  # fmt: skip
    write_init(str(tmp_path / "all-MiniLM-L6-v2"))
    make_annotations(tmp_path / "project.json", 60)
    make_annotations(tmp_path / "more.json", 9, seed=1)
    trained = commands.done(*finetune[1:], "--cache=cache", cwd=tmp_path)
    assert "count UTF-16 units" in trained.stderr and "2 of 60 texts are not" in trained.stderr
    model = "savedmodels/finetuned/ner"
    table = weights.read(str(tmp_path / model)).weights["heads/ner/transitions"]
    assert table.shape == (8, 8) and abs(table).max() > 0.01
    commands.done(*export[1:], cwd=tmp_path)
    server = Served(tmp_path / serve[2].removeprefix("--model="))
    try:
        server.wait()
        body = curl[curl.index("-d") + 1]
        path = curl[1].removeprefix("localhost:8501")
        status, text = server.get(path, body.encode(), **{"Content-Type": "application/json"})
        assert status == 200, text
        outputs = json.loads(text)["outputs"]
    finally:
        server.stop()
    (sent,) = json.loads(body)["inputs"]["text"]
    names = ("types", "texts", "starts", "ends", "probabilities")
    rows = zip(*(outputs[f"entity_{name}"][0] for name in names), strict=True)
    for type_, found, start, end, share in rows:
        assert type_ in ("PER", "ORG", "LOC") and sent[start:end] == found and 0 < share <= 1
    done = commands.done(
        "predict", f"--model={model}", "--input=more.json", "--output=found", cwd=tmp_path
    )
    assert "annotations.more.json" in done.stdout + done.stderr
    tasks = json.loads((tmp_path / "found/annotations.more.json").read_text("utf-8"))
    assert len(tasks) == 9 and set(tasks[1]) == {"id", "data", "predictions"}
    for task in tasks:
        units = task["data"]["text"].encode("utf-16-le")
        for item in task["predictions"][0]["result"]:
            value = item["value"]
            assert units[2 * value["start"] : 2 * value["end"]].decode("utf-16-le") == value["text"]
