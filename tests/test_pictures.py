"""The pictures of "BERT in pictures" are those that the script draws; its files exist."""

import pathlib
import re
from xml.etree import ElementTree

import pytest

from docs.pictures import draw, svg
from tests.bert_tf.pretraining.conftest import finished, model_path  # noqa: F401  (fixtures)

ROOT = pathlib.Path(__file__).parents[1]
PAGES = {"": "bert_in_pictures.md", ".ko": "bert_in_pictures.ko.md"}
_SVG = "{http://www.w3.org/2000/svg}"
_FILE = re.compile(r"`((?:pipelines|bert_tf|docs)/[\w/]+\.py)`")


def _text_of(ending):
    return (ROOT / "docs" / PAGES[ending]).read_text("utf-8")


@pytest.mark.parametrize("ending", PAGES)
def test_a_page_shows_every_picture_of_its_language(ending):
    named = re.findall(r"\]\(pictures/(\S+)\)", _text_of(ending))
    assert sorted(named) == sorted(f"{name}{ending}.svg" for name in draw.DRAWINGS)
    for name in named:
        assert (ROOT / "docs/pictures" / name).stat().st_size < 120_000


@pytest.mark.parametrize("name", [f"{n}{end}" for n in draw.DRAWINGS for end in PAGES])
def test_nothing_in_a_picture_is_cut_off(name):
    root = ElementTree.parse(ROOT / f"docs/pictures/{name}.svg").getroot()
    assert float(root.get("width")) == svg.WIDTH
    for box in root.iter(f"{_SVG}rect"):
        x, y, width, height = (float(box.get(key)) for key in ("x", "y", "width", "height"))
        assert x >= 0 and x + width <= svg.WIDTH
        assert y >= 0 and y + height <= float(root.get("height"))
    for text in root.iter(f"{_SVG}text"):
        if text.get("transform"):  # it runs upwards
            continue
        classes, x = text.get("class").split(), float(text.get("x"))
        width = svg.width_of(text.text, 12 if "s" in classes else 13, "m" in classes)
        start = x - width * ("e" in classes) - width / 2 * ("c" in classes)
        assert start > 0 and start + width < svg.WIDTH, text.text


def test_the_pages_name_the_same_files_which_exist():
    files = _FILE.findall(_text_of(""))
    assert len(files) > 15
    assert _FILE.findall(_text_of(".ko")) == files
    assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.more
def test_the_same_models_give_the_same_pictures(finished, tmp_path):  # noqa: F811
    """Of a small model; the numbers are checked where they are computed (facts.py)."""
    for folder in ("first", "second"):
        draw.draw(str(finished), str(finished), tmp_path / folder)
    paths = sorted((tmp_path / "first").iterdir())
    assert len(paths) == len(PAGES) * len(draw.DRAWINGS)
    for path in paths:
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()
        if path.suffixes[0] != ".ko":
            texts, korean = (
                [text.text for text in ElementTree.parse(file).iter() if text.text]
                for file in (path, path.with_suffix(".ko.svg"))
            )
            assert len(texts) == len(korean) and texts != korean
