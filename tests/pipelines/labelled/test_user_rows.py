"""Readers of the rows of users: columns by name or choice, words, answers, choices."""

import json

import pytest

from pipelines.common.errors import InputError
from pipelines.labelled import multiple_choice, user_files
from pipelines.labelled.schema import AnswerSpan
from pipelines.labelled.source import Source
from tests.pipelines.labelled.labelled_files import write


def test_columns_of_users_are_found_by_name_or_named(tmp_path):
    path = write(tmp_path / "a.csv", "id,review,stars\nr1,good,5\nr2,bad,1\n")
    with pytest.raises(InputError, match="no column for label.*--columns=label=NAME"):
        list(user_files.read_texts(Source(path), pair=False, labelled=True))
    found = list(user_files.read_texts(Source(path, {"label": "stars"}), pair=False, labelled=True))
    assert [(e.key, e.text_a, e.label) for e in found] == [("r1", "good", "5"), ("r2", "bad", "1")]
    with pytest.raises(InputError, match="has no column 'rating'"):
        list(user_files.read_texts(Source(path, {"label": "rating"}), pair=False, labelled=True))
    with pytest.raises(InputError, match="'lable' is not a role"):
        Source("a.csv", {"lable": "stars"})


def test_whole_numbers_as_labels_have_no_fraction(tmp_path):
    """pandas writes 1.0 for 1 where a column has gaps."""
    rows = [
        {"text": "good", "label": 1},
        {"text": "bad", "label": 1.0},
        {"text": "so", "label": 0.5},
    ]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = user_files.read_texts(Source(path), pair=False, labelled=True)
    assert [example.label for example in found] == ["1", "1", "0.5"]


def test_texts_are_those_of_the_file(tmp_path):
    """Byte-level BPE has tokens for white space, and a request to a server has it, too."""
    path = write(tmp_path / "a.csv", "text_a,text_b,label\n  a b , c,x \n")
    (example,) = user_files.read_texts(Source(path), pair=True, labelled=True)
    assert (example.text_a, example.text_b, example.label) == ("  a b ", " c", "x")
    path = write(tmp_path / "c.csv", "context,choice0,choice1,choice2,label\nQ , a,b , ,0\n")
    (choice,) = multiple_choice.read_choices(Source(path), True)
    assert (choice.context, choice.choices) == ("Q ", (" a", "b "))
    path = write(tmp_path / "g.csv", "source,target\n a , b \n")
    (written,) = user_files.read_generation(Source(path), True)
    assert (written.source, written.target) == (" a ", "b")


def test_words_spans_and_choices_of_users(tmp_path):
    words = write(tmp_path / "w.tsv", "words\ttags\nAnn ran\tB-PER O\n")
    (example,) = list(user_files.read_words(Source(words), True))
    assert (example.words, example.tags) == (("Ann", "ran"), ("B-PER", "O"))
    bad = write(tmp_path / "w.jsonl", '{"words": ["Ann", "ran"], "tags": ["O"]}\n')
    with pytest.raises(InputError, match=r"line 1: has 2 words, but 1 tag; give each word one"):
        list(user_files.read_words(Source(bad), True))
    row = {"question": "Who?", "context": "Ann ran.", "answer": "Ann", "answer_start": 0}
    none = {"question": "Why?", "context": "Ann ran.", "answer": "", "answer_start": ""}
    spans = write(tmp_path / "s.jsonl", f"{json.dumps(row)}\n{json.dumps(none)}\n")
    found = list(user_files.read_spans(Source(spans), True))
    assert [e.answers for e in found] == [(AnswerSpan("Ann", 0),), ()]
    listed = write(
        tmp_path / "c.jsonl", '{"context": "Q", "choices": ["a", "b", "c"], "label": 2}\n'
    )
    table = write(tmp_path / "c.tsv", "question\tchoice0\tchoice1\tlabel\nQ\ta\tb\t1\nQ\ta\tb\t1\n")
    assert next(multiple_choice.read_choices(Source(listed), True)).label == 2
    assert next(multiple_choice.read_choices(Source(table), True)).choices == ("a", "b")
    assert [e.label for e in multiple_choice.read_choices(Source(table), True)] == [1, 1]
    bad = write(tmp_path / "d.tsv", "question\tchoice0\tchoice1\tlabel\nQ\ta\tb\tC\n")
    with pytest.raises(InputError, match="line 2: the label 'C' names none of 2 choices; write"):
        list(multiple_choice.read_choices(Source(bad), True))


def test_choices_of_users_keep_their_labels(tmp_path):
    header = "context,choice0,choice1,choice2,label"
    path = write(tmp_path / "c.csv", f"{header}\nQ,wrong,right,,1\n")
    (example,) = list(multiple_choice.read_choices(Source(path), True))
    assert (example.choices, example.label) == (("wrong", "right"), 1)
    path = write(tmp_path / "c.csv", f"{header}\nQ,,right,wrong,1\n")
    with pytest.raises(InputError, match=r"c\.csv: line 2: choice 0, counted from 0, is empty"):
        list(multiple_choice.read_choices(Source(path), True))
    row = {"context": "Q", "choice0": 0, "choice1": 1, "choice2": None, "label": 1}
    path = write(tmp_path / "c.jsonl", json.dumps(row))
    assert next(multiple_choice.read_choices(Source(path), True)).choices == ("0", "1")
    path = write(tmp_path / "c.jsonl", json.dumps(row | {"label": "²"}))
    with pytest.raises(InputError, match="line 1: the label '²' names none of 2 choices"):
        list(multiple_choice.read_choices(Source(path), True))
    path = write(tmp_path / "c.csv", "context,A,B,C,D,label\nQ,3,4,5,2,3\nQ,4,3,6,5,3\n")
    message = "line 2: the label '3' names a choice as one of numbers from 0, and another as one of"
    with pytest.raises(InputError, match=message):
        list(multiple_choice.read_choices(Source(path), True))


@pytest.mark.parametrize(
    ("read", "row", "message"),
    [
        (multiple_choice.read_choices, {"context": "Q", "choices": ["a", None], "label": 0}, "an item of choices is None"),
        (user_files.read_words, {"words": ["a", None], "tags": ["O", "O"]}, "an item of words is None"),
        (user_files.read_words, {"words": ["a"], "tags": [None]}, "an item of tags is None"),
        (user_files.read_spans, {"question": "q", "context": None, "answer": ""}, "context is None"),
    ],
)  # fmt: skip
def test_json_that_is_no_text_is_named(tmp_path, read, row, message):
    path = write(tmp_path / "a.jsonl", json.dumps(row))
    with pytest.raises(InputError, match=f"a.jsonl: line 1: {message}, not a text; write"):
        list(read(Source(path), True))


def spans_of(path, **fields):
    row = {"question": "Who?", "context": "Ann ran.", **fields}
    (example,) = list(user_files.read_spans(Source(write(path, json.dumps(row))), True))
    return example.answers


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"answers": ["Ann"], "answer_start": 0}, (AnswerSpan("Ann", 0),)),
        (
            {"answers": ["Ann", "ran"], "answer_start": [0, 4]},
            (AnswerSpan("Ann", 0), AnswerSpan("ran", 4)),
        ),
        ({"answers": {"text": ["Ann"], "answer_start": [0]}}, (AnswerSpan("Ann", 0),)),
        ({"answers": [{"text": "Ann", "answer_start": 0}]}, (AnswerSpan("Ann", 0),)),
        ({"answers": {"text": "Ann", "answer_start": "0"}}, (AnswerSpan("Ann", 0),)),
        ({"answers": {"text": [], "answer_start": []}}, ()),
        ({"answers": [""], "answer_start": [""]}, ()),
        ({"answers": []}, ()),
        ({"answers": None}, ()),
        ({"answer": 0, "answer_start": 3}, (AnswerSpan("0", 3),)),
    ],
)
def test_answers_of_users(tmp_path, fields, expected):
    assert spans_of(tmp_path / "s.jsonl", **fields) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"answers": {"text": ["Ann"], "answer_start": ["x"]}}, "line 1, answers: the answer 'Ann' starts at 'x'; give"),
        ({"answers": {"text": ["Ann", "ran"], "answer_start": [0]}}, "line 1, answers: has 2 answers, but 1 start"),
        ({"answers": {"text": ["Ann"]}}, "line 1, answers: has no column 'answer_start'"),
        ({"answers": {"text": [None], "answer_start": [0]}}, "line 1, answers: an item of text is None"),
        ({"answers": ["Ann"]}, "line 1: has no column for answer_start"),
        ({"answers": ["Ann"], "answer_start": []}, "line 1: has 1 answer, but 0 starts"),
        ({"answer": "Ann", "answer_start": -1}, "line 1: the answer 'Ann' starts at '-1'"),
    ],
)  # fmt: skip
def test_wrong_answers_of_users_are_named(tmp_path, fields, message):
    with pytest.raises(InputError, match=rf"s\.jsonl: {message}"):
        spans_of(tmp_path / "s.jsonl", **fields)
