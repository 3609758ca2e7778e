"""What the tests of the page do in it, and what answers it."""

# Signatures of the export of the tests.
SHAPES = ("mood", "same", "score", "qa", "qa1", "tags", "tags_words", "pick", "topics")
PRETRAINED = ("fill_mask", "embed", "embed_layers")
# Emoji of two and more units of UTF-16, Korean in both forms, text from right to left.
STRANGE = (
    "😀 the layer 한국어 모델이 reads\n\n  \tשלום עולם every 👩‍🚀 token, مرحبا ᄒ​ᅡᆫ 𝔟 the  vector."
)


def fulfilling(**answer):
    """Answers every request alike."""
    return lambda route: route.fulfill(**answer)


def saying(**outputs):
    """Answers every request with some outputs."""
    return fulfilling(json={"outputs": outputs})


def fill(panel, **texts):
    """Writes texts into fields, by their names."""
    for label, text in texts.items():
        panel.get_by_role("textbox", name=label.replace("_", " ").capitalize()).fill(text)


def predict(panel):
    """Asks, and waits for the answer."""
    panel.get_by_role("button", name="Predict").click()
    panel.page.wait_for_function(
        "panel => !panel.hasAttribute('aria-busy') && panel.querySelector('.empty').hidden",
        arg=panel.element_handle(),
    )
    error = panel.locator(".error")
    assert not error.is_visible(), error.inner_text()


def names(panel):
    """The names of the rows with bars."""
    return panel.locator(".bars .name").all_inner_texts()
