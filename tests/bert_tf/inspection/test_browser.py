"""The pages in a real browser: no script fails, pointer and keyboard work, narrow windows do."""

import contextlib
import json

import pytest

from tests import browsing, commands
from tests.bert_tf.pretraining.conftest import finished, model_path  # noqa: F401  (fixtures)
from tests.browsing import NARROW, WIDE, browser  # noqa: F401  (a fixture among them)

pytestmark = pytest.mark.slow
TEXT = "The small model reads every layer of the token."


@pytest.fixture(scope="module")
def pages(folders, finished, tmp_path_factory):  # noqa: F811
    """Paths of pages by name."""
    folder = tmp_path_factory.mktemp("pages")
    asked = {
        "guesses": ("pretrained", [TEXT]),
        "masks": ("pretrained", ["한국어 [MASK] 😀 </script><b>bold</b>"]),
        "pair": ("same", [TEXT, "שלום עולם"]),
        "labels": ("mood", [TEXT]),
        "tags": ("tags", [TEXT]),
        "span": ("qa1", ["What reads?", TEXT]),
        "score": ("score", ["a", "b"]),
        "choice": ("pick", [TEXT, "one", "the layer"]),
    }
    for name, (model, (text, *others)) in asked.items():
        more = [f"--second={other}" for other in others]
        more += [f"--task={model}"] if model in ("mood", "tags") else []
        output = f"--output={folder}/{name}.html"
        commands.done("inspect", f"--model={folders[model]}", f"--sentence={text}", *more, output)
    commands.done("inspect", f"--model={finished}", f"--output={folder}/run.html")
    return {name: f"file://{folder}/{name}.html" for name in (*asked, "run")}


@pytest.fixture
def open_page(browser, pages):  # noqa: F811
    """Opens a page; at the end, nothing must have gone wrong in it, or been asked for."""
    with contextlib.ExitStack() as stack:

        def open_one(name, viewport=WIDE, scheme="light"):
            page = stack.enter_context(
                browsing.watched(browser, ("file:", "data:"), viewport, scheme)
            )
            page.goto(pages[name])
            page.locator("footer", has_text="Written by").wait_for()  # the last that is done
            assert not page.locator("#failure").is_visible()
            return page

        yield open_one


NAMES = ("guesses", "masks", "pair", "labels", "tags", "span", "score", "choice", "run")


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", NAMES)
def test_pages_are_drawn_without_an_error_in_any_window(open_page, name, viewport):
    page = open_page(name, viewport, "dark")
    assert browsing.fits(page)
    assert not page.locator("b", has_text="bold").count()


def test_pointing_at_a_token_shows_where_it_looks(open_page):
    page = open_page("guesses")
    tokens = page.locator("#attention-tokens .token")
    before = page.locator("#from-rows").inner_text()
    tokens.nth(4).hover()
    label = tokens.nth(4).locator(".label").inner_text()
    assert page.locator("#from-title").inner_text() == f"“{label}” looks at"
    assert page.locator("#from-rows").inner_text() != before
    notes = page.locator("#attention-tokens .note").all_inner_texts()
    shares = [0.0 if note == "·" else float(note) for note in notes]
    assert sum(shares) == pytest.approx(100, abs=2)
    page.get_by_label("what looks at it").check()
    assert page.locator("#attention-tokens .note").all_inner_texts() != notes
    page.locator("#attention-title").hover()  # away: what was kept is shown
    assert page.locator("#from-rows").inner_text() == before


def test_weights_on_the_page_are_those_of_the_model(open_page, folders):
    import numpy as np

    from bert_tf import weights
    from bert_tf.inspection import attention, tokens

    bundle = weights.read(folders["pretrained"])
    sequence = tokens.pack(bundle.tokenizer(), (TEXT,), 48, masks=True)
    known = attention.of_encoder(bundle.encoder(), sequence)
    page = open_page("guesses")
    page.locator("#heads .head").nth(6).click()
    page.locator("#attention-tokens .token").nth(3).hover()
    notes = page.locator("#attention-tokens .note").all_inner_texts()
    shares = [0.0 if note == "·" else float(note) / 100 for note in notes]
    np.testing.assert_allclose(shares, known[1, 2, 3], atol=0.011)


def test_heads_are_picked_by_pointer_and_keyboard(open_page):
    page = open_page("guesses")
    name, heads = page.locator("#chosen-name"), page.locator("#heads .head")
    assert name.inner_text() == "mean of all 8 heads"
    heads.nth(5).click()
    assert name.inner_text() == "layer 2, head 2"
    assert heads.nth(5).get_attribute("aria-pressed") == "true"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert name.inner_text() == "layer 1, head 2"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert name.inner_text() == "mean of 2 heads"
    heads.nth(7).click(modifiers=["Shift"])
    assert name.inner_text() == "mean of 3 heads"
    page.locator("#heads .layer").nth(1).click()
    assert name.inner_text() == "mean of layer 2"
    page.get_by_role("button", name="all heads", exact=True).click()
    assert name.inner_text() == "mean of all 8 heads"


def test_all_of_a_page_can_be_reached_by_keyboard(open_page):
    page = open_page("pair")
    tokens = page.locator("#attention-tokens .token")
    tokens.first.focus()
    page.keyboard.press("End")
    assert "[SEP]" in page.locator("#from-title").inner_text()
    page.keyboard.press("ArrowRight")  # the last segment runs from right to left
    label = tokens.nth(tokens.count() - 2).locator(".label").inner_text()
    assert label in page.locator("#from-title").inner_text()
    seen = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.closest('section')?.id ?? ''"))
    assert {"answer", "attention-section"} <= seen


def test_the_map_tells_what_it_shows(open_page):
    page = open_page("guesses")
    box = page.locator("#map").bounding_box()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    assert page.locator("#map-readout").inner_text().startswith("[CLS] → [CLS]: ")


def test_guesses_follow_the_token(open_page):
    page = open_page("guesses")
    before = page.locator("#guesses-rows").inner_text()
    page.locator("#guesses-tokens .token").nth(5).hover()
    assert page.locator("#guesses-rows").inner_text() != before
    masks = open_page("masks")
    assert masks.locator("#guesses-rows h3").all_inner_texts() == ["mask 1"]
    assert masks.locator("#guesses-rows li").count() == 8


def test_another_label_is_explained_when_it_is_picked(open_page):
    page = open_page("labels")
    before = page.locator("#answer-tokens .note").all_inner_texts()
    shown = page.locator("#completeness").inner_text()
    page.locator("#targets button").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#answer-tokens .note").all_inner_texts() != before
    assert page.locator("#completeness").inner_text() != shown
    second = page.locator("#targets button").nth(1)
    assert second.get_attribute("aria-checked") == "true"
    assert page.locator("#target-name").inner_text() == second.inner_text()


def test_curves_tell_values_where_one_points(open_page, finished):  # noqa: F811
    page = open_page("run")
    chart = page.locator(".chart").first
    box = chart.locator("svg").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    first = json.loads((finished / "history.jsonl").read_text().splitlines()[0])
    legend = chart.locator(".legend").inner_text()
    assert f"step {first['step']}" in legend and f"{first['loss']:.3f}" in legend
    chart.locator("svg").focus()
    page.keyboard.press("End")
    assert "step 60" in chart.locator(".legend").inner_text()


def test_the_course_of_guesses_can_be_gone_through(open_page):
    page = open_page("run")
    slider, sentences = page.locator("#step"), page.locator("#sentences")
    assert page.locator("#step-name").inner_text() == "60"
    last = sentences.inner_text()
    slider.focus()
    page.keyboard.press("Home")
    assert page.locator("#step-name").inner_text() == "10"
    assert sentences.inner_text() != last
    page.locator("#play").click()
    page.locator("#step-name", has_text="60").wait_for()
    assert sentences.inner_text() == last


def test_words_can_be_looked_for(open_page):
    page = open_page("run")
    page.locator("#word").fill("model")
    assert page.locator("#word-name").inner_text() == "model"
    rows = page.locator("#word-rows li")
    assert rows.count() == 10
    other = rows.first.locator("button").inner_text()
    rows.first.locator("button").click()
    assert page.locator("#word-name").inner_text() == other
    page.locator("#word").fill("zzzz")
    assert page.locator("#matches").inner_text() == "no such word among them"
