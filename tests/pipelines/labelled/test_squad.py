"""Readers of SQuAD's files."""

import json

import pytest

from pipelines.common.errors import InputError
from pipelines.labelled import squad
from pipelines.labelled.schema import AnswerSpan
from tests.pipelines.labelled.labelled_files import write


def test_squad(tmp_path):
    questions = [
        {"id": "q1", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}]},
        {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True},
        {"id": "q3", "question": "When?"},
        {"id": "q4", "question": "Which?", "answers": [{"text": "", "answer_start": 0}]},
    ]
    content = {"data": [{"title": "T", "paragraphs": [{"context": "Ann ran.", "qas": questions}]}]}
    found = squad.read(write(tmp_path / "dev.json", json.dumps(content)))
    assert [example.answers for example in found] == [(AnswerSpan("Ann", 0),), (), None, ()]
    del questions[1]["question"]
    with pytest.raises(
        InputError, match=r"at data\[0\].paragraphs\[0\].qas\[1\]: lacks the field question"
    ):
        squad.read(write(tmp_path / "dev.json", json.dumps(content)))


SQUAD = {
    "data": [
        {
            "title": "T",
            "paragraphs": [
                {
                    "context": "Ann ran.",
                    "qas": [
                        {
                            "id": "q",
                            "question": "Who?",
                            "answers": [{"text": "Ann", "answer_start": 0}],
                        }
                    ],
                }
            ],
        }
    ]
}


@pytest.mark.parametrize("start", ["-1", '"3"', "3.0"])
def test_starts_of_answers_may_be_written_in_other_ways(tmp_path, start):
    text = json.dumps(SQUAD).replace('"answer_start": 0', f'"answer_start": {start}')
    text = text.replace('"question"', '"is_impossible": 0, "question"')
    (example,) = squad.read(write(tmp_path / "dev.json", text))
    assert example.answers == (AnswerSpan("Ann", -1 if start == "-1" else 3),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"answer_start": 0', '"answer_start": Infinity', "answer_start is 'inf', not a whole"),
        ('"answer_start": 0', '"answer_start": NaN', "answer_start is 'nan', not a whole number"),
        (
            '"answer_start": 0',
            '"answer_start": null',
            r"answers\[0\].answer_start: expected a whole",
        ),
        ('"answer_start": 0', '"answer_start": "zero"', "answer_start is 'zero', not a whole"),
        ('"answer_start": 0', '"answer_start": 0.5', "answer_start is '0.5', not a whole number"),
        ('"answer_start": 0', '"answer_start": 1e400', "answer_start is 'inf', not a whole"),
        ('"answer_start": 0', '"answer_start": ' + "9" * 5000, "too many digits"),
        ('"Ann ran."', "7", r"at data\[0\].paragraphs\[0\].context: expected text, got a whole"),
        ('"Who?"', "null", "question: expected text, got null"),
        ('"Ann",', "{},", "text: expected text, got object"),
        ('[{"id"', '{"x": {"id"', "is not JSON"),
        ('"answers": [', '"answers": {"a": [', "is not JSON"),
        ('"q"', "[]", r"qas\[0\].id: expected"),
        ('{"title"', '[{}], {"title"', r"at data\[0\]: expected object, got array"),
    ],
)
def test_squad_of_another_shape_is_one_line(tmp_path, old, new, message):
    text = json.dumps(SQUAD)
    assert old in text
    path = write(tmp_path / "dev.json", text.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        squad.read(path)
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)
