"""What goes between the page and its server, and what must not; the page by keyboard."""

import json
import subprocess

import pytest

from tests.bert_tf.serving.demo import manifests, served
from tests.bert_tf.serving.demo.asking import (
    PRETRAINED,
    SHAPES,
    STRANGE,
    fill,
    fulfilling,
    predict,
    saying,
)
from tests.html_elements import NASTY

pytestmark = pytest.mark.slow


def test_all_can_be_done_by_keyboard(open_page):
    page, _ = open_page("tags")
    page.keyboard.press("Tab")
    focused = "document.activeElement.textContent"
    assert page.evaluate(focused).startswith("tags")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused).startswith("mood")
    panel = page.locator(".panel:visible")
    assert panel.locator("h2").first.inner_text() == "mood"
    assert page.url.endswith("#mood")
    page.keyboard.press("Home")
    assert page.get_by_role("tab", selected=True).inner_text().startswith("tags")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("the layer")
    page.keyboard.press("Control+Enter")
    panel.locator(".headline").wait_for()
    for _ in range(2):  # the button, the words
        page.keyboard.press("Tab")
    assert page.evaluate(focused) == "the"
    page.keyboard.press("ArrowRight")
    assert panel.locator(".readout b").inner_text() == "layer"
    seen = []
    for _ in range(6):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
            )
        )
    assert seen == ["copy", "Command line", "copy", "Request", "copy", "Response"]


def test_what_is_typed_stays_text(open_page):
    nasty = f"""<img src=x onerror="alert(1)">{NASTY}"""
    for name in (*SHAPES, *PRETRAINED):
        page, panel = open_page(name)
        for field in panel.locator("textarea").all():
            field.fill(f"{nasty} [MASK]")
        predict(panel)
        assert page.locator("img, b script").count() == 0
        assert page.locator("script").count() == 2


def test_names_stay_text(open_canned):
    label = f"""<img src=x onerror="alert(1)">{NASTY}"""
    manifest = manifests.make(manifests.classification(label, "b", name=label))
    answer = saying(label=[label], probabilities=[[0.75, 0.25]], logits=[[1, 0]])
    page, panel = open_canned(manifest, answer)
    predict(panel)
    assert panel.locator(".bars bdi").first.evaluate("x => x.textContent") == label
    assert page.locator("img").count() == 0 and page.locator("script").count() == 2
    tagging = manifests.classification(label, "O", name="ner", kind="ner")
    answer = saying(
        tokens=[["a"]],
        tags=[[label]],
        probabilities=[[1]],
        start_characters=[[0]],
        end_characters=[[1]],
    )
    page, panel = open_canned(manifests.make(tagging), answer)
    predict(panel)
    assert page.locator("img").count() == 0


def test_the_browser_runs_no_other_script(open_canned):
    manifest = manifests.make(manifests.classification("a", "b"))
    refused = ["Content Security Policy"]
    page, _ = open_canned(manifest, saying(), expected=refused)
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.ran = true";
          document.head.append(script);
          document.body.setAttribute("onclick", "window.ran = true");
          document.body.click();
        }"""
    )
    assert page.evaluate("window.ran") is None
    asked = "fetch('https://elsewhere.test/').then(() => 'sent', () => 'refused')"
    assert page.evaluate(asked) == "refused"


def test_refusals_are_one_clear_line(open_page, open_canned):
    expected = ["the server responded with a status of"]
    page, panel = open_page("mood", expected=expected)
    page.evaluate("document.querySelector('.panel:not([hidden]) textarea').value = '\\ud800'")
    panel.get_by_role("button", name="Predict").click()
    panel.locator(".error").wait_for()
    assert (
        panel.locator(".error").inner_text()
        == "mood: text: has half of a surrogate pair, which is no text."
    )
    assert "surrogate" in panel.locator(".response pre").inner_text()
    manifest = manifests.make(manifests.classification("a", "b"))
    for answer, told in (
        (
            {"status": 502, "body": "<html>Bad Gateway"},
            "The server refuses the request (HTTP 502).",
        ),
        ({"body": "[]"}, "The answer is not one of TensorFlow Serving's."),
        ({"status": 400, "json": {"error": "one\ntwo"}}, "one"),
    ):
        _, panel = open_canned(manifest, fulfilling(**answer), expected)
        panel.get_by_role("button", name="Predict").click()
        panel.locator(".error").wait_for()
        assert panel.locator(".error").inner_text() == told
    _, panel = open_canned(manifest, lambda route: route.abort(), ["Failed to load resource"])
    panel.get_by_role("button", name="Predict").click()
    panel.locator(".error").wait_for()
    assert panel.locator(".error").inner_text() == "The server cannot be reached."


def test_the_last_of_two_requests_is_answered(open_canned):
    waiting = []

    def answer(route):
        if not waiting:
            waiting.append(route)  # and never answers
        else:
            saying(label=["b"], probabilities=[[0.25, 0.75]], logits=[[0, 1]])(route)

    _, panel = open_canned(manifests.make(manifests.classification("a", "b")), answer)
    panel.get_by_role("button", name="Predict").click()
    assert panel.get_attribute("aria-busy") == "true"
    panel.get_by_role("button", name="Predict").click()
    panel.locator(".headline").wait_for()
    assert panel.locator(".headline").inner_text() == "b 75 %"
    assert panel.get_attribute("aria-busy") is None


def test_a_token_is_asked_for_once(open_page, predictor):
    expected = ["status of 401"]
    with served.serve(predictor, token="s3cret") as address:
        page, panel = open_page("mood", at=address, expected=expected)
        dialog = page.get_by_role("dialog")
        panel.get_by_role("button", name="Predict").click()
        dialog.get_by_label("Bearer token").fill("wrong")
        page.keyboard.press("Enter")
        dialog.get_by_text("The server rejected this token.").wait_for()
        dialog.get_by_label("Bearer token").fill("s3cret")
        dialog.get_by_role("button", name="Use token").click()
        panel.locator(".headline").wait_for()
        predict(panel)
        assert not dialog.is_visible()
        line = panel.locator(".curl pre").inner_text()
        assert '-H "Authorization: Bearer $TOKEN"' in line
        assert "s3cret" not in page.content()
        assert (
            page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length")
            == 0
        )
        page.reload()
        panel.get_by_role("button", name="Predict").click()
        dialog.wait_for()
        page.keyboard.press("Escape")
        panel.locator(".error").wait_for()
        assert panel.locator(".error").inner_text() == "The server requires a token."


def test_the_command_line_asks_the_same(open_page, address):
    page, panel = open_page("same")
    texts = {"first_text": """it's "$HOME" `ls` \\ !\n%s ${x}""", "second_text": STRANGE}
    fill(panel, **texts)
    line = panel.locator(".curl pre").evaluate("x => x.textContent")
    stub = 'curl() { for argument in "$@"; do printf "%s\\0" "$argument"; done; }'
    found = subprocess.run(["sh", "-c", f"{stub}\n{line}"], capture_output=True, check=True)
    url, *flags, body = found.stdout.decode().split("\0")[:-1]
    assert url == f"{address}v1/models/bert:predict"
    assert flags == ["-H", "Content-Type: application/json", "-d"]
    with page.expect_request(url) as request:
        panel.get_by_role("button", name="Predict").click()
    assert (
        json.loads(body)
        == request.value.post_data_json
        == {
            "signature_name": "same",
            "inputs": {"text_a": [texts["first_text"]], "text_b": [STRANGE]},
        }
    )
    assert json.loads(panel.locator(".request pre").evaluate("x => x.textContent")) == json.loads(
        body
    )
