"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018) in their JSON files."""

import json
import re
from typing import Any

from pipelines.errors import InputError
from pipelines.labelled import tables
from pipelines.labelled.examples import Answer, SpanExample

# Where a file of SQuAD begins: an object whose first list is that of the articles.
_OBJECT = re.compile(r'\s*\{[^{[]*"data"\s*:\s*\[')


def is_squad(path: str) -> bool:
    """Whether a file is one JSON object with articles, as SQuAD's are, and no table or lines."""
    return tables.ending(path) == ".json" and bool(_OBJECT.match(tables.read_text(path)))


def read(path: str) -> list[SpanExample]:
    """Reads all questions of a file, in its order.

    Raises:
      InputError: it is not JSON, or a field is missing; the article and paragraph are named.
    """
    try:
        content = json.loads(tables.read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}: is not JSON ({error.msg}).") from error
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise InputError(f'{path}: has no list "data"; this is not a SQuAD file.')
    found = []
    for article_index, article in enumerate(content["data"]):
        for index, paragraph in enumerate(article.get("paragraphs", ())):
            title = article.get("title", article_index)
            place = f"{path}: article {title!r}, paragraph {index}"
            try:
                for entry in paragraph["qas"]:
                    found.append(_example(entry, paragraph["context"], place))
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(f"{place}: the field {error} is missing or wrong.") from error
    if not found:
        raise InputError(f"{path}: has no questions.")
    return found


def _example(entry: dict[str, Any], context: str, place: str) -> SpanExample:
    answers = None
    if entry.get("is_impossible"):
        answers = ()
    elif "answers" in entry:
        answers = tuple(
            Answer(answer["text"], int(answer["answer_start"])) for answer in entry["answers"]
        )
    key = str(entry["id"])
    return SpanExample(key, f"{place}, question {key}", entry["question"], context, answers)
