"""Pages of one file: what is in them stays what it is."""

import base64
import json
from pathlib import Path

from pipelines.common import html_page
from tests.html_elements import NASTY, Elements

ROOT = Path(__file__).parents[3]


def test_data_stays_in_its_element():
    value = {NASTY: [NASTY, 1.5, None, "\0 \u2028 \\ 한국어 😀"]}
    text = html_page.json_element("values", value) + html_page.bytes_element("part", b"\0</script>")
    elements = Elements(text)
    assert [tag for tag, _ in elements.tags] == ["script", "script"]
    assert json.loads(elements.scripts["values"]) == value
    assert base64.b64decode(elements.scripts["part"]) == b"\0</script>"


def test_the_title_is_short_and_does_not_turn_round():
    made_of = html_page.PageFiles("bert_tf.inspection", "run.html", (), ())
    page = html_page.render(made_of, "\u202e" + "a <b> " * 1000, "bert-tf inspect", [])
    title = page.split("<title>")[1].split("</title>")[0]
    assert title.startswith("a &lt;b&gt; a") and "\u202e" not in title and len(title) < 200


def test_the_mark_holds_any_name():
    ((tag, attributes),) = Elements(html_page.mark(NASTY)).tags
    assert tag == "meta" and attributes["content"] == NASTY
