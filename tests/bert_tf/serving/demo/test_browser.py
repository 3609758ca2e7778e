"""The answers of all shapes in a real browser; a small export gives them."""

import itertools
import json
import re

import numpy as np
import pytest

from tests import browsing
from tests.bert_tf.serving.demo import manifests
from tests.bert_tf.serving.demo.asking import (
    PRETRAINED,
    SHAPES,
    STRANGE,
    fill,
    names,
    predict,
    saying,
)
from tests.browsing import NARROW, WIDE

pytestmark = pytest.mark.slow


_FILLED = "all => all.map(x => x.offsetWidth / x.parentElement.offsetWidth)"


def _percent(share):
    """As the page writes it, but for the digits."""
    return float(re.sub(r"[^0-9.]", "", share)) / 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", [*SHAPES, *PRETRAINED])
def test_every_shape_answers_in_any_window(open_page, name, viewport, scheme):
    page, panel = open_page(name, viewport, scheme)
    assert browsing.fits(page)
    predict(panel)
    assert panel.locator(".said").inner_text()
    assert browsing.fits(page)
    assert re.fullmatch(r"[\d,]+ ms", panel.locator(".took").inner_text())
    assert page.locator("#state").inner_text() == "version 3, available"


def test_labels_are_those_of_the_model(open_page, predictor):
    _, panel = open_page("mood")
    text = "Zürich 한국어 the small layer"
    fill(panel, text=text)
    predict(panel)
    found = predictor("mood", text=[text])
    label = found["label"][0].decode()
    assert panel.locator(".headline").inner_text().startswith(f"{label} ")
    labels = np.array(["bad", "good", "so-so"])
    order = np.argsort(-found["probabilities"][0])
    assert names(panel) == labels[order].tolist()
    shown = [_percent(text) for text in panel.locator(".bars .value").all_inner_texts()]
    np.testing.assert_allclose(shown, found["probabilities"][0][order], atol=6e-4)
    widths = panel.locator(".bars .fill").evaluate_all(_FILLED)
    np.testing.assert_allclose(widths, found["probabilities"][0][order], atol=0.02)


def test_scores_stand_on_a_scale_with_those_before(open_page, predictor):
    _, panel = open_page("score")
    for text in ("the layer", "a deep kernel of the token"):
        fill(panel, first_text=text, second_text="short")
        predict(panel)
        score = float(predictor("score", text_a=[text], text_b=["short"])["score"][0])
        shown = panel.locator(".headline").inner_text().strip().replace("−", "-")
        assert float(shown) == pytest.approx(score, rel=1e-3)
    meter = panel.get_by_role("meter")
    low, value, high = (
        float(meter.get_attribute(f"aria-value{end}")) for end in ("min", "now", "max")
    )
    assert low <= value <= high and value == pytest.approx(score, rel=1e-5)
    assert panel.locator(".tick").count() == 1


@pytest.mark.parametrize("name", ["qa", "qa1"])
def test_answers_are_marked_in_their_context(open_page, predictor, name):
    _, panel = open_page(name)
    fill(panel, question="What reads?", context=STRANGE)
    predict(panel)
    found = predictor(name, question=["What reads?"], context=[STRANGE])
    start, end = (int(found[key][0]) for key in ("start_character", "end_character"))
    context, mark = panel.locator("div.typed"), panel.locator("mark")
    assert context.evaluate("x => x.textContent") == STRANGE
    answer = found["answer"][0].decode()
    assert STRANGE[start:end] == answer
    if answer:
        assert mark.evaluate("x => x.textContent") == answer
        before = "x => x.previousSibling.textContent"
        assert start == 0 or mark.evaluate(before) == STRANGE[:start]
    else:
        assert panel.locator(".headline").inner_text().startswith("no answer")
    texts = [text.decode() for text in found["n_best_answer"][0]]
    shares = dict(zip(texts, found["n_best_score"][0], strict=True))
    buttons = panel.locator(".bars button")
    known = {name for name, share in shares.items() if share > 0}
    none = {"no answer"} if found["no_answer_probability"][0] else set()
    assert set(buttons.evaluate_all("all => all.map(x => x.textContent)")) == known | none
    for number in range(buttons.count()):
        buttons.nth(number).hover()
        told = buttons.nth(number).evaluate("x => x.textContent")
        marked = mark.evaluate_all("all => all.map(x => x.textContent)")
        assert marked == ([] if told == "no answer" else [told])
        data = context.evaluate("x => x.firstChild.textContent").encode()
        starts = [s for t, s in zip(texts, found["n_best_start"][0], strict=True) if t == told]
        assert told == "no answer" or len(data) in starts or 0 in starts
    panel.locator("h2").first.hover()
    kept = mark.evaluate_all("all => all.map(x => x.textContent)")
    assert kept == ([answer] if answer else [])
    buttons.last.click()
    panel.locator("h2").first.hover()
    assert buttons.last.get_attribute("aria-pressed") == "true"
    last = buttons.last.evaluate("x => x.textContent")
    assert mark.evaluate_all("all => all.map(x => x.textContent)") == (
        [] if last == "no answer" else [last]
    )


def test_words_have_their_tags_in_the_text_as_it_was_typed(open_page, predictor):
    page, panel = open_page("tags")
    fill(panel, text=STRANGE)
    predict(panel)
    found = predictor("tags", text=[STRANGE])
    assert panel.locator("div.typed").evaluate("x => x.textContent") == STRANGE
    words = panel.get_by_role("option")
    tokens = [token.decode() for token in found["tokens"][0]]
    assert words.evaluate_all("all => all.map(x => x.textContent)") == tokens
    tags = [tag.decode() for tag in found["tags"][0]]
    told = words.evaluate_all("all => all.map(x => x.title)")
    assert [text.split(",")[0] for text in told] == tags
    shares = [_percent(text.split(",")[1]) for text in told]
    np.testing.assert_allclose(shares, found["probabilities"][0], atol=6e-4)
    coloured = panel.locator(".run").evaluate_all("all => all.map(x => x.dataset.tag)")
    types = [type_.decode() for type_ in found["entity_types"][0]]
    assert coloured == types == [tag for tag, _ in itertools.groupby(tags) if tag != "O"]
    words.first.focus()
    page.keyboard.press("ArrowRight")
    assert panel.locator(".readout").inner_text() == f"{tokens[1]} {told[1]}"
    page.keyboard.press("End")
    assert panel.locator(".readout").inner_text() == f"{tokens[-1]} {told[-1]}"


def test_arrows_go_with_the_direction_of_the_text(open_page):
    page, panel = open_page("tags")
    fill(panel, text="שלום עולם, مرحبا")
    predict(panel)
    words = panel.get_by_role("option")
    assert panel.locator("div.typed").evaluate("x => getComputedStyle(x).direction") == "rtl"
    lefts = [words.nth(number).bounding_box()["x"] for number in (0, 1)]
    assert lefts[0] > lefts[1]
    words.first.focus()
    page.keyboard.press("ArrowLeft")
    assert words.nth(1).get_attribute("aria-selected") == "true"


def test_words_can_be_given_apart(open_page, predictor):
    _, panel = open_page("tags_words")
    fill(panel, words="the  layer,\n😀 한국어")
    predict(panel)
    found = predictor("tags_words", words=[["the", "layer,", "😀", "한국어"]])
    told = panel.get_by_role("option").evaluate_all("all => all.map(x => [x.textContent, x.title])")
    assert [word for word, _ in told] == ["the", "layer,", "😀", "한국어"]
    tags = [tag.decode() for tag in found["tags"][0]]
    assert [title.split(",")[0] for _, title in told] == tags
    fill(panel, words=" \n")
    panel.get_by_role("button", name="Predict").click()
    assert panel.locator(".error").inner_text() == "Write a word."


def test_parts_of_an_entity_are_one_run_of_one_colour(open_canned):
    labels = ("O", "B-PER", "I-PER", "B-LOC", "S-LOC", "E-LOC")
    task = manifests.classification(*labels, name="ner", kind="ner")
    tags = ["B-PER", "I-PER", "O", "S-LOC", "B-LOC", "E-LOC"]
    text = "Ada  Lovelace, Rom, New York"
    spans = [(0, 3), (5, 13), (13, 14), (15, 18), (20, 23), (24, 28)]
    _, panel = open_canned(
        manifests.make(task),
        saying(
            tokens=[[text[a:b] for a, b in spans]],
            tags=[tags],
            probabilities=[[0.9] * 6],
            start_characters=[[a for a, _ in spans]],
            end_characters=[[b for _, b in spans]],
            entity_types=[["PER", "LOC", "LOC"]],
            entity_texts=[["Ada  Lovelace", "Rom", "New York"]],
            entity_starts=[[0, 15, 20]],
            entity_ends=[[13, 18, 28]],
            entity_probabilities=[[0.9, 0.8, 0.7]],
        ),
    )
    fill(panel, text=text)
    predict(panel)
    assert names(panel) == ["Ada  Lovelace (PER)", "Rom (LOC)", "New York (LOC)"]
    runs = panel.locator(".run")
    texts = runs.evaluate_all("all => all.map(x => [x.textContent, x.dataset.tag])")
    assert texts == [["Ada  Lovelace", "PER"], ["Rom", "LOC"], ["New York", "LOC"]]
    colours = runs.evaluate_all("all => all.map(x => getComputedStyle(x).backgroundColor)")
    assert colours[1] == colours[2] != colours[0]
    assert panel.locator(".headline").inner_text() == "3 entities in 6 words"
    legend = panel.locator(".legend li").all_inner_texts()
    assert [text.split() for text in legend] == [["PER", "1"], ["LOC", "2"]]


def test_choices_are_a_list_that_grows(open_page, predictor):
    page, panel = open_page("pick")
    fill(panel, context="the layer reads")
    fill(panel, choice_1="one", choice_2="every shard", choice_3="한국어")
    panel.get_by_label("Choice 3", exact=True).press("Enter")
    page.keyboard.type("the 😀 token")
    panel.get_by_role("button", name="Remove choice 2").click()
    panel.get_by_role("button", name="add a choice").click()  # which stays empty
    predict(panel)
    choices = ["one", "한국어", "the 😀 token"]
    found = predictor("pick", context=["the layer reads"], choices=[choices])
    order = np.argsort(-found["probabilities"][0])
    assert names(panel) == [choices[number] for number in order]
    assert panel.locator(".said").inner_text().startswith(choices[int(found["choice"][0])])
    for _ in range(4):
        panel.get_by_role("button", name="Remove choice 1").click()
    assert panel.get_by_label("Choice 1", exact=True).input_value() == ""
    panel.get_by_role("button", name="Predict").click()
    assert panel.locator(".error").inner_text() == "Write a choice."


def test_guesses_can_be_put_into_the_text(open_page, predictor):
    page, panel = open_page("fill_mask")
    field = panel.get_by_label("Text")
    field.fill("The  layer 😀 ")
    panel.get_by_role("button", name="insert [MASK]").click()
    page.keyboard.type(" every\n")
    panel.get_by_role("button", name="insert [MASK]").click()
    text = "The  layer 😀 [MASK] every\n[MASK]"
    assert field.input_value() == text
    predict(panel)
    guesses = [
        [token.decode() for token in row]
        for row in predictor("fill_mask", text=[text])["tokens"][0]
    ]
    lists = panel.locator(".guesses > div")
    for number, row in enumerate(guesses):
        assert lists.nth(number).locator("button").all_inner_texts() == row
    whole = [
        next(n for n, token in enumerate(row) if not token.startswith("##")) for row in guesses
    ]
    lists.nth(1).locator("button").nth(whole[1]).click()
    assert field.input_value() == f"The  layer 😀 [MASK] every\n{guesses[1][whole[1]]}"
    lists.nth(0).locator("button").nth(whole[0]).press("Enter")
    filled = f"The  layer 😀 {guesses[0][whole[0]]} every\n{guesses[1][whole[1]]}"
    assert field.input_value() == filled
    assert json.loads(panel.locator(".request pre").inner_text())["inputs"] == {"text": [filled]}
    assert not panel.locator(".changed").is_visible()
    lists.nth(1).locator("button").nth(whole[1]).click()  # takes it out again
    predict(panel)
    again = predictor("fill_mask", text=[filled.replace(f"\n{guesses[1][whole[1]]}", "\n[MASK]")])
    assert names(panel) == [token.decode() for token in again["tokens"][0][0]]
    field.fill("no mask")
    assert panel.locator(".changed").is_visible()
    panel.get_by_role("button", name="Predict").click()
    assert panel.locator(".error").inner_text() == "There is no [MASK] in the text."


def test_a_piece_goes_on_the_word_before_it(open_canned):
    manifest = manifests.make(pretrained=True)
    answer = {"tokens": [[["##ing", "the"]]], "probabilities": [[[0.5, 0.25]]]}
    _, panel = open_canned(manifest, saying(**answer))
    fill(panel, text="Read [MASK] and [MASK].")  # the second one is cut
    predict(panel)
    panel.get_by_role("button", name="##ing").click()
    assert panel.get_by_label("Text").input_value() == "Reading and [MASK]."
    assert (
        "1 more are beyond the length that the model reads." in panel.locator(".shown").inner_text()
    )


@pytest.mark.parametrize("name", ["embed", "embed_layers"])
def test_sentences_are_sorted_by_their_cosine(open_page, predictor, name):
    _, panel = open_page(name)
    sentences = ["the layer reads", "한국어 모델", "שלום 😀", "a deep kernel"]
    fill(panel, query="the layer", sentences="\n".join([*sentences[:2], "", *sentences[2:]]))
    predict(panel)
    found = predictor(name, text=["the layer", *sentences])
    layers = found["layers"] if name == "embed_layers" else found["mean_output"][:, np.newaxis]

    def wanted(matrix):
        unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        cosines = unit[1:] @ unit[0]
        order = np.argsort(-cosines)
        return [sentences[number] for number in order], cosines[order]

    nearest, cosines = wanted(layers[:, -1])
    assert names(panel) == nearest
    shown = [float(text) for text in panel.locator(".bars .value").all_inner_texts()]
    np.testing.assert_allclose(shown, cosines, atol=6e-4)
    if name == "embed_layers":
        panel.get_by_role("radio", name="layer 2").press("ArrowLeft")
        assert names(panel) == wanted(layers[:, 0])[0]


def test_many_labels_are_behind_a_button(open_canned):
    labels = [f"label {number}" for number in range(30)]
    shares = np.linspace(1, 0.1, 30) / np.linspace(1, 0.1, 30).sum()
    answer = saying(label=["label 0"], probabilities=[shares.tolist()], logits=[[0] * 30])
    _, panel = open_canned(manifests.make(manifests.classification(*labels)), answer)
    predict(panel)
    assert names(panel) == labels[:10]
    panel.get_by_role("button", name="20 more").press("Enter")
    assert names(panel) == labels
    filled = panel.locator(".bars .fill").evaluate_all(_FILLED)
    np.testing.assert_allclose(filled, shares, atol=0.02)  # the best one, 6 %, fills no bar
