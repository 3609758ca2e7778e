"""The page as text: a form for each signature that takes text, and texts that stay texts."""

import json
import re
from pathlib import Path

import pytest

from bert_tf import tasks
from bert_tf.export import saved_model
from bert_tf.serving.demo import page
from bert_tf.tasks import pretrained
from tests import html_elements, tokenizers
from tests.bert_tf import exported
from tests.bert_tf.serving.demo import manifests
from tests.html_elements import NASTY, Elements

ROOT = Path(__file__).parents[4]


def _values(text):
    return json.loads(Elements(text).scripts["values"])


def _forms(*trained, **options):
    return {form.name: form for form in page.forms(manifests.make(*trained, **options))}


def test_each_signature_that_takes_text_has_a_form(export):
    values = _values(page.render(saved_model.read_manifest(export), "bert"))
    assert values["model"] == "bert"
    assert {form["name"]: form["shape"] for form in values["signatures"]} == {
        "tags": "tagging",
        "tags_words": "tagging_words",
        "mood": "classification",
        "same": "classification",
        "score": "regression",
        "qa": "span",
        "qa1": "span",
        "pick": "choice",
        "topics": "multilabel",
        "vector": "embedding",
        "fill_mask": "fill_mask",
        "next_sentence": "classification",
        "embed": "embed",
        "embed_layers": "embed_layers",
    }
    by_name = {form["name"]: form for form in values["signatures"]}
    assert by_name["same"]["inputs"] == ["text_a", "text_b"]
    assert by_name["same"]["labels"] == ["no", "yes"]
    assert (
        by_name["fill_mask"]["mask"]
        == "[MASK]"
        == saved_model.read_manifest(export)["models"][-1]["mask_token"]
    )
    assert by_name["embed_layers"]["outputs"] == ["layers"]


def test_a_form_begins_with_a_sample_for_each_of_its_fields():
    trained = exported.make_tasks().values()
    for name, form in _forms(*trained, pretrained=True).items():
        fields = {
            "tagging_words": {"words"},
            "embed": {"query", "sentences"},
            "embedding": {"query", "sentences"},
            "embed_layers": {"query", "sentences"},
        }.get(form.shape, set(form.inputs))
        assert fields <= form.sample.keys(), name
        assert all(form.sample[field] for field in fields), name


@pytest.mark.parametrize("kind", tasks.kinds())
def test_all_kinds_of_tasks_have_samples(kind):
    task = tasks.make(kind)
    (form, *_) = _forms(task).values()
    assert form.shape == task.shape
    fields = {
        "span": {"question", "context"},
        "choice": {"context", "choices"},
        "embedding": {"query", "sentences"},
    }
    texts = {"text_a", "text_b"} if getattr(task, "pair", False) else {"text"}
    assert fields.get(task.shape, texts) <= form.sample.keys()


def test_the_page_shows_the_answers_of_all_shapes():
    script = Elements(page.render(manifests.make(), "bert")).scripts["program"]
    assert set(re.findall(r"^SHAPES\.(\w+) = ", script, re.MULTILINE)) == set(manifests.TENSORS)
    assert tasks.shapes().keys() <= set(manifests.TENSORS)


def test_numbers_of_known_data_sets_are_told_as_words():
    known = manifests.classification("0", "1", name="sst2", kind="sst2")
    other = manifests.classification("neg", "pos", name="mine", kind="sst2")
    found = _forms(known, other, tasks.make("stsb"))
    assert found["sst2"].meanings == ("negative", "positive")
    assert found["mine"].meanings == ()
    assert found["stsb"].bounds == (0.0, 5.0)


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("Returns the index of first element in list", "Returns the "),
        ("Das Wetter ist heute schön , deshalb gehen wir in den Park", "Das Wetter ist heute "),
        ("The weather is nice today , so we will stay at home", "The weather is "),
    ],
)
def test_the_sample_has_the_words_of_the_corpus(words, start):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words.split(), "."]
    assert pretrained.sample(tokenizers.wordpiece(tokens, lower_case=False))[0] == start


def test_the_mask_is_that_of_the_model():
    found = _forms(pretrained=True, mask_token="<mask>")["fill_mask"]
    assert found.mask == "<mask>" and "<mask>" in found.sample["text"]


def test_names_stay_texts():
    manifest = manifests.make(manifests.classification(NASTY, "ok", name=NASTY))
    text = page.render(manifest, NASTY)
    elements, values = Elements(text), _values(text)
    assert values["model"] == NASTY == values["signatures"][0]["name"]
    assert values["signatures"][0]["labels"] == [NASTY, "ok"]
    assert set(elements.scripts) == {"values", "program", "style"}
    assert "alert" not in elements.scripts["program"]
    assert "alert(&quot;it&#x27;s" in text.split("</title>")[0]


def test_the_page_asks_its_own_server_only():
    text = page.render(manifests.make(*exported.make_tasks().values(), pretrained=True), "bert")
    html_elements.check_nothing_is_from_outside(text, asks="'self'")
    assert "innerHTML" not in text and "insertAdjacentHTML" not in text
