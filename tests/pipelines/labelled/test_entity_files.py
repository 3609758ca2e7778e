"""Files of texts with entities become words with tags, and are written back in their form."""

import json

import pytest

from pipelines.common.errors import InputError
from pipelines.labelled.schema import TextEntity
from pipelines.labelled.source import Source
from pipelines.labelled.text_files import read_words

TEXT = "Ada Lovelace met Babbage in London."
SPANS = [(0, 12, "PER"), (17, 24, "PER"), (28, 34, "LOC")]
TAGS = ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC", "O"]
_STUDIO = {
    "from_name": "tag", "to_name": "body", "type": "labels", "id": "x",
}  # fmt: skip


def _objects(start, end, label):
    return [{start: a, end: b, label: kind} for a, b, kind in SPANS]


def _studio(spans):
    return [_STUDIO | {"value": value} for value in spans]


LISTS = [list(span) for span in SPANS]
STUDIO = [{"start": a, "end": b, "text": TEXT[a:b], "labels": [kind]} for a, b, kind in SPANS]
FORMS = {
    "plain": {"text": TEXT, "entities": LISTS},
    "doccano": {"id": 7, "text": TEXT, "label": LISTS, "Comments": []},
    "doccano_relations": {
        "id": 7, "text": TEXT, "relations": [],
        "entities": _objects("start_offset", "end_offset", "label"),
    },
    "prodigy": {
        "text": TEXT, "tokens": [{"text": "Ada", "start": 0, "end": 3, "id": 0}],
        "spans": _objects("start", "end", "label"), "answer": "accept",
    },
    "spacy": [TEXT, {"entities": LISTS}],
    "studio_min": {"id": 1, "text": TEXT, "label": STUDIO, "annotator": 1},
    "studio": {
        "id": 1, "data": {"body": TEXT, "page": 3}, "predictions": [],
        "annotations": [
            {"was_cancelled": True, "result": []},
            {"result": [*_studio(STUDIO), {"type": "choices", "value": {"choices": ["a"]}}]},
        ],
    },
}  # fmt: skip


def _read(tmp_path, rows, name=None, labelled=True, **columns):
    name = name or ("tasks.json" if "data" in rows[0] else "data.jsonl")
    path = tmp_path / name
    text = "\n".join(map(json.dumps, rows)) if name.endswith("l") else json.dumps(rows)
    path.write_text(text)
    return list(read_words(Source(str(path), columns), labelled))


@pytest.mark.parametrize(
    ("form", "name"),
    [
        *((form, "data.json") for form in FORMS),
        *((form, "data.jsonl") for form in FORMS if form != "spacy"),  # spaCy's is one list
    ],
)
def test_forms_are_read_and_written(tmp_path, form, name):
    (example,) = _read(tmp_path, [FORMS[form]], name)
    assert list(example.tags) == TAGS
    assert example.text == TEXT and example.words[:2] == ("Ada", "Lovelace")
    places = [(TEXT.index(word), word) for word in example.words]
    assert list(zip(example.starts, example.words, strict=True)) == places
    entities = [TextEntity(kind, start, end, 0.5) for start, end, kind in SPANS]
    written = example.form.written(example.text, entities)
    if form == "studio":
        wanted = [x | {"score": 0.5} for x in _studio(STUDIO)]
        found = written.pop("predictions")[0]["result"]
        assert [x | {"id": "x"} for x in found] == wanted
        assert written == {"id": 1, "data": FORMS[form]["data"]}
    else:
        assert written == FORMS[form]


def test_predicted_texts_need_no_spans(tmp_path):
    (example,) = _read(tmp_path, [{"text": TEXT, "id": 3}], labelled=False)
    assert example.tags is None and len(example.words) == len(TAGS) and example.key == "3"
    wanted = {"text": TEXT, "id": 3, "entities": [[0, 12, "PER"]]}
    assert example.form.written(TEXT, [TextEntity("PER", 0, 12)]) == wanted
    (example,) = _read(tmp_path, [{"id": 1, "data": {"text": TEXT}}], "tasks.json", labelled=False)
    (result,) = example.form.written(TEXT, [TextEntity("PER", 0, 12)])["predictions"][0]["result"]
    assert result["value"] == {"start": 0, "end": 12, "text": "Ada Lovelace", "labels": ["PER"]}
    (table,) = (tmp_path / "texts.csv",)
    table.write_text(f'text\n"{TEXT}"\n')
    assert len(next(read_words(Source(str(table)), False)).words) == len(TAGS)


def test_chinese_and_japanese(tmp_path):
    rows = [
        {"text": "张伟住在北京。", "entities": [[0, 2, "PER"], [4, 6, "LOC"]]},
        {"text": "東京へ行く", "entities": [[0, 2, "LOC"]]},
    ]
    chinese, japanese = _read(tmp_path, rows)
    assert chinese.words == tuple("张伟住在北京。")
    assert " ".join(chinese.tags) == "B-PER I-PER O O B-LOC I-LOC O"
    assert japanese.words == ("東", "京", "へ", "行", "く")
    assert japanese.tags == ("B-LOC", "I-LOC", "O", "O", "O")


def test_spans_that_are_no_words_are_named(tmp_path, caplog):
    spans = [[0, 3, "A"], [9, 13, "B"], [12, 17, "C"], [3, 4, "D"], [5, 8, "E"]]
    (example,) = _read(tmp_path, [{"text": "one  twothree four", "entities": spans}])
    assert example.tags == ("B-A", "B-E", "O")
    for part in (
        "1 of 5 spans cut a word and are read as whole words",
        "line 1: E 'two' in 'twothree'",
        "2 of 5 spans share words with another one and are left out",
        "1 of 5 spans have no word and are left out",
    ):
        assert part in caplog.text


def test_spans_elsewhere_than_their_text_are_left_out(tmp_path, caplog):
    spans = [{"start": 0, "end": 3, "label": "PER", "text": text} for text in ("Ada", "Bob")]
    first, other = _read(tmp_path, [{"text": "Ada met", "spans": [span]} for span in spans])
    assert (first.tags, other.tags) == (("B-PER", "O"), ("O", "O"))
    assert "1 of 2 spans are not where their text is and are left out: " in caplog.text
    assert "line 2: PER 'Ada' is not 'Bob'" in caplog.text


@pytest.mark.parametrize("known", [True, False])
def test_places_in_utf_16_are_noticed(tmp_path, caplog, known):
    text = "😀😀 Ada met Babbage"
    spans = [{"start": 5, "end": 8, "label": "PER"}, {"start": 13, "end": 20, "label": "PER"}]
    if known:
        spans = [s | {"text": t} for s, t in zip(spans, ("Ada", "Babbage"), strict=True)]
    rows = [
        {"text": text, "spans": spans},
        {"text": "Ada", "spans": [spans[0] | {"start": 0, "end": 3}]},
    ]
    (example, other) = _read(tmp_path, rows)
    assert example.tags == ("O", "B-PER", "O", "B-PER") and other.tags == ("B-PER",)
    assert "count UTF-16 units: 3 of 3 fit so, and 1 otherwise" in caplog.text
    written = example.form.written(text, [TextEntity("PER", 3, 6)])["spans"]
    assert [(x["start"], x["end"]) for x in written] == [(5, 8)]


@pytest.mark.parametrize(("shift", "end"), [(1, 1), (-1, -1), (0, -1)])
def test_shifts_throughout_are_noticed(tmp_path, caplog, shift, end):
    rows = [
        {
            "text": f" {TEXT}",
            "entities": [[a + 1 + shift, b + 1 + end, kind] for a, b, kind in SPANS],
        }
    ]
    (example,) = _read(tmp_path, rows)
    assert list(example.tags) == TAGS and "3 of 3 fit so" in caplog.text


def test_texts_that_are_not_accepted(tmp_path, caplog):
    row, other = FORMS["prodigy"], FORMS["studio"]
    assert len(_read(tmp_path, [row, row | {"answer": "reject"}, row | {"answer": "ignore"}])) == 1
    assert "2 of 3 texts were rejected or ignored" in caplog.text
    tasks = [other, other | {"annotations": []}, other | {"annotations": other["annotations"] * 2}]
    assert len(_read(tmp_path, tasks, "tasks.json")) == 2
    assert "1 of 3 texts are not annotated" in caplog.text and "has 2 annotations" in caplog.text
    found = _read(tmp_path, tasks, "tasks.json", labelled=None)
    assert [example.tags is None for example in found] == [False, True, False]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a b", "entities": [[0, 9, "A"]]}], "line 1: A from 0 to 9 is not in the text"),
        ([{"text": "a b", "entities": [[0, 1]]}], "line 1: '[0, 1]' is not a span; write"),
        ([{"text": "a b", "entities": [["0", 1, "A"]]}], "is not a span"),
        ([{"text": "a b", "label": ["sad"]}], "'sad' is not a span"),
        ([{"text": "a", "spans": [{"start": 0, "end": 1, "labels": ["A", "B"]}]}], "one label"),
        ([{"text": "a b", "mine": [[0, 1, "A"]]}], "--columns=entities=NAME"),
        ([FORMS["prodigy"] | {"answer": "reject"}], "no text is annotated"),
        ([{"data": {"a": "x", "b": "y"}, "annotations": [{"result": []}]}], "--columns=text=NAME"),
        ([{"data": {"text": "x"}, "annotations": [5]}], "export the project as JSON"),
    ],
)
def test_mistakes_are_named(tmp_path, rows, message):
    with pytest.raises(InputError) as error:
        _read(tmp_path, rows)
    assert message in str(error.value)


def test_columns_are_named(tmp_path):
    rows = [{"body": {"it": TEXT}, "mine": LISTS, "text": "?", "label": [], "n": 3}]
    (example,) = _read(tmp_path, rows, text="body.it", entities="mine")
    assert list(example.tags) == TAGS
    with pytest.raises(InputError, match="n is '3', not a list of spans"):
        _read(tmp_path, rows, entities="n")


def test_results_without_spans_are_none(tmp_path):
    done = [None, [{"value": None}, "x", {"value": {"choices": ["a"]}}]]
    rows = [{"data": {"text": "a b"}, "annotations": [{"result": each}]} for each in done]
    assert [each.tags for each in _read(tmp_path, rows, "tasks.json")] == [("O", "O")] * 2


def test_objects_of_spans_are_written_back_as_objects(tmp_path):
    row = {"id": 7, "text": "Ada", "entities": {"entities": [[0, 3, "PER"]], "by": "me"}}
    (example,) = _read(tmp_path, [row])
    found = example.form.written("Ada", [TextEntity("LOC", 0, 3)])
    assert found == row | {"entities": {"entities": [[0, 3, "LOC"]], "by": "me"}}
