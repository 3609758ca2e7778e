"""The pages as files: whole in themselves, with texts that stay texts; and the command."""

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from bert_tf.inspection import pages
from tests import commands, html_elements
from tests.html_elements import NASTY, Elements

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", pages.PageKind)
def test_texts_stay_texts(kind):
    look = pages.PageData({"text": NASTY, "more": [NASTY, 1.5, None]}, {"part": b"\0\1</script>"})
    page = pages.render(kind, NASTY, look)
    elements = Elements(page)
    assert json.loads(elements.scripts["values"]) == look.values
    assert base64.b64decode(elements.scripts["part"]) == look.parts["part"]
    assert set(elements.scripts) == {"values", "part", "program", "style"}
    assert "alert" not in elements.scripts["program"]
    assert "alert(&quot;it&#x27;s" in page.split("</title>")[0]


@pytest.mark.parametrize("kind", pages.PageKind)
def test_a_page_asks_for_nothing_from_outside(kind):
    page = pages.render(kind, "title", pages.PageData({"text": "text"}, {}))
    html_elements.check_nothing_is_from_outside(page)


def _write(folders, output, *more, name="pretrained", text="The [MASK] model."):
    return commands.done(
        "inspect", f"--model={folders[name]}", f"--sentence={text}", f"--output={output}", *more
    ).stdout


def test_the_command_writes_a_page_of_a_model(folders, tmp_path):
    output = tmp_path / "new" / "inspect.html"
    said = _write(folders, output, text=NASTY)
    values = json.loads(Elements(output.read_text()).scripts["values"])
    assert values["texts"][0]["text"] == NASTY
    size = len(gzip.decompress(base64.b64decode(Elements(output.read_text()).scripts["attention"])))
    assert size == 2 * 4 * len(values["tokens"]) ** 2
    assert re.fullmatch(rf"{output}: \d+ KiB \(attention \d+ KiB\)\n", said)
    before = output.read_bytes()
    _write(folders, output, text=NASTY)
    assert output.read_bytes() == before


def test_the_command_answers_for_one_of_several_tasks(folders, tmp_path):
    output = tmp_path / "inspect.html"
    _write(
        folders, output, "--task=tags", "--attribution_steps=4", name="tags", text="a deep layer"
    )
    answer = json.loads(Elements(output.read_text()).scripts["values"])["answer"]
    assert answer["task"] == "tags" and len(answer["tags"]) == 3 and answer["steps"] == 4


def test_mistakes_are_reported_in_one_line(folders, tmp_path):
    output = f"--output={tmp_path}/inspect.html"
    model, text = f"--model={folders['pretrained']}", "--sentence=a"
    (tmp_path / "mine.html").write_text("<html>mine</html>")
    for flags, message in (
        (
            [model, "--second=b", output],
            "give the model a text to read, with SENTENCE= (--sentence).",
        ),
        ([model, "--sentence=  ", output], "give the model a text to read"),
        (
            ["--model=nothing", text, output],
            "nothing: no such folder or checkpoint, and the caches",
        ),
        (["--model=nothing", output], "nothing: is not a run (it has no run.json)"),
        ([f"--model={folders['mood']}", output], "is not a run (it has no run.json)"),
        ([model, text, f"--output={tmp_path}/mine.html"], "is not a page of this command"),
        ([model, text, f"--output={tmp_path}"], "is a folder; name a file to write"),
        ([f"--model={folders['mood']}", text, output], "has the tasks tags, mood; choose with"),
        (
            [model, text, "--guesses=0", output],
            "--guesses=0: it must be a whole number, at least 1",
        ),
    ):
        assert message in commands.error("inspect", *flags), flags
    assert (tmp_path / "mine.html").read_text() == "<html>mine</html>"
    assert not (tmp_path / "inspect.html").exists()
