"""Reads the JSON files of SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018)."""

import re
from typing import NotRequired, TypedDict

from pipelines.common import json_files
from pipelines.common.errors import InputError
from pipelines.common.texts import UTF8
from pipelines.labelled import text_lines
from pipelines.labelled.schema import AnswerSpan, SpanExample

# The beginning of a SQuAD file: an object whose first list has the articles, if there are any.
_OBJECT = re.compile(r'\s*\{[^{[]*"data"\s*:\s*\[\s*(?P<empty>\])?')
# Some programs write a string or 3.0.
_Start = int | float | str


class _Answer(TypedDict):
    text: str
    answer_start: _Start


class _Question(TypedDict):
    id: str | int
    question: str
    answers: NotRequired[list[_Answer] | None]
    is_impossible: NotRequired[bool | int | None]


class _Paragraph(TypedDict):
    context: str
    qas: list[_Question]


class _Article(TypedDict):
    title: NotRequired[str | None]
    paragraphs: NotRequired[list[_Paragraph]]


class _File(TypedDict):
    data: list[_Article]


def is_squad(path: str, encoding: str = UTF8) -> bool:
    """Returns whether a file is a JSON object with articles, rather than rows."""
    if text_lines.ending(path) != ".json":
        return False
    text = text_lines.read_text(path, encoding)
    found = _OBJECT.match(text)
    return found is not None and (found["empty"] is not None or '"paragraphs"' in text)


def read(path: str, encoding: str = UTF8) -> list[SpanExample]:
    """Reads the questions of a file; an InputError names the place of a bad field."""
    content = json_files.parse(text_lines.read_text(path, encoding), path, finite=False)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise InputError(f'{path}: has no list "data"; this is not a SQuAD file.')
    found = []
    for article_index, article in enumerate(json_files.check(content, _File, path)["data"]):
        for index, paragraph in enumerate(article.get("paragraphs", ())):
            title = article.get("title", article_index)
            place = f"{path}: article {title!r}, paragraph {index}"
            found += [_example(entry, paragraph["context"], place) for entry in paragraph["qas"]]
    if not found:
        raise InputError(f"{path}: has no questions.")
    return found


def _example(entry: _Question, context: str, place: str) -> SpanExample:
    answers: tuple[AnswerSpan, ...] | None = None
    if entry.get("is_impossible"):
        answers = ()
    elif (stated := entry.get("answers")) is not None:
        answers = tuple(
            AnswerSpan(each["text"], _whole_number(each["answer_start"], place))
            for each in stated
            if each["text"]
        )
    key = str(entry["id"])
    return SpanExample(key, f"{place}, question {key}", entry["question"], context, answers)


def _whole_number(value: _Start, place: str) -> int:
    """Returns the number of an answer's first character, or raises InputError."""
    text = str(value).removesuffix(".0")
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise InputError(f"{place}: answer_start is {text[:20]!r}, not a whole number.")
    return int(text)
