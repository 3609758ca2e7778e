"""Reads multiple choice: tables and JSON with columns by name, and .csv like those of ARC."""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from pipelines.common.errors import InputError
from pipelines.common.texts import UTF8, shorten
from pipelines.labelled import delimited, table_rows, tables
from pipelines.labelled.columns import CHOICE
from pipelines.labelled.schema import ChoiceExample
from pipelines.labelled.source import Source
from pipelines.labelled.table_rows import TableRow

LabelForm = Literal["", "numbers from 0", "numbers from 1", "letters", "texts of choices"]
_MAX_SHOWN = 60  # characters of a value, in messages
_HEAD = 1000  # rows that decide whether a file has keys
_KEYS = 0.9  # fraction of rows that end like a key
_KEY = re.compile(r"[A-Za-z]|[0-9]{1,18}")
# Usual names of labels, besides those of other tasks.
_ANSWERS = (
    "answer",
    "answerkey",
    "answer_key",
    "correct",
    "correct_answer",
    "correct_option",
    "cop",
)
# The lists of a row of RACE with several questions, by what each item becomes.
_RACE = {"question": "questions", "options": "options", "label": "answers"}
_USUAL_NAMES = frozenset(("question", "context", "answer", "choices", "label"))  # of columns


def is_keyed(path: str, encoding: str = UTF8) -> bool:
    """Returns whether a .csv file has no header, but a key at the end of its rows.

    Those of the first row, and of at least half of all, name a choice; almost none is a text.
    """
    rows = list(itertools.islice(delimited.csv_rows(path, encoding), _HEAD))
    first = [cell.strip().lower() for _, cells in rows[:1] for cell in cells]
    if len(first) < 4 or not _USUAL_NAMES.isdisjoint(first):
        return False
    named = [key_index(cells[-1].strip(), len(cells) - 2) is not None for _, cells in rows]
    like = sum(_KEY.fullmatch(cells[-1].strip()) is not None for _, cells in rows)
    return named[0] and 2 * sum(named) >= len(rows) and like >= _KEYS * len(rows)


def read_keyed(
    path: str, skipped: list[str], encoding: str = UTF8, labelled: bool = True
) -> list[ChoiceExample]:
    """Reads a .csv file without a header: question, choices, and the key of the right choice.

    Questions may have different numbers of choices, with or without empty cells for missing ones.

    Args:
      path: the file.
      skipped: receives a message for each row whose key names no choice (in ARC, some choices are
        missing).
      encoding: the encoding of the file.
      labelled: whether to leave such rows out; otherwise they have no label.

    Raises:
      InputError: a row has too few columns, or keys count from 0.
    """
    found = []
    for index, (place, cells) in enumerate(delimited.csv_rows(path, encoding)):
        if len(cells) < 3:
            raise InputError(
                f"{place}: has too few columns: {len(cells)}; write a question, its choices, and "
                "the key of the right one."
            )
        question, *given, key = cells
        key = key.strip()
        # A question without choices keeps empty ones: training skips and counts it.
        choices = table_rows.without_empty_end(given) or tuple(given)
        label = key_index(key, len(choices))
        if key == "0":
            numbers = "+".join(str(number) for number in range(2, len(given) + 2))
            raise InputError(
                f"{place}: the key '0' names no choice: keys of a file without a header count from "
                f"1. Where they count from 0: --columns=context=1,choices={numbers},"
                f"label={len(given) + 2}."
            )
        if label is None and labelled:
            skipped.append(f"{place}: the key {key!r} names none of the choices")
            continue
        found.append(ChoiceExample(str(index), place, question, choices, label))
    return found


def key_index(key: str, count: int) -> int | None:
    """Returns the index of the choice that a key (from A or 1) names, or None."""
    if not _KEY.fullmatch(key):
        return None
    index = int(key) - 1 if key.isdigit() else ord(key.upper()) - ord("A")
    return index if 0 <= index < count else None


def read_choices(source: Source, labelled: bool) -> Iterator[ChoiceExample]:
    """Yields choices: a list in JSON Lines, or columns choice0, choice1, ... in tables.

    The label is the number of the right choice, its letter, or its text; for objects such as
    {"text": "Rain", "label": "A"}, it is the label of the right one. A question about a context
    begins each choice, so that the context is cut where both are too long.

    Raises:
      InputError: a column is missing; a choice is not a text, or is empty while a later one is not;
        or labels do not name choices in one way (`label_forms`).
    """
    found = list(_with_labels(source, labelled))
    if labelled:
        forms = _fitting(found, [source.label_form] if source.label_form else [])
        if forms:
            source.log_once(f"the labels are {forms[0]}.", "labels")
    for example, label in found:
        if labelled and example.label is None:
            right = _FORMS[forms[0]](label, example.choices)
            example = dataclasses.replace(example, label=right)
        yield example


def label_forms(source: Source, known: Sequence[str]) -> Sequence[str]:
    """Returns the forms that the labels of a file may have: some of those known, if there are any.

    Raises:
      InputError: no form fits all labels, or some are numbers or letters of one choice, and the
        texts of another.
    """
    return _fitting(list(_with_labels(source, labelled=True)), known)


def _with_labels(source: Source, labelled: bool) -> Iterator[tuple[ChoiceExample, str]]:
    """Yields examples with what the file has as their label, which may need its form."""
    for index, row in enumerate(_single_questions(tables.read_rows(source))):
        if not index:
            roles = _choice_columns(row, source, labelled)
            single = roles["choices"] == "+".join(_single(row))  # rows may differ in these
        choices = _choices(row, None if single else roles["choices"])
        example = ChoiceExample(
            source.key(row, index),
            row.place,
            row.joined(roles["context"]),  # a dialogue is a list
            choices,
            stem=row.verbatim(roles["question"]) if "question" in roles else "",
        )
        label = row.text(roles["label"]) if labelled else ""
        names = f"{roles['choices'].removesuffix('.text')}.label"
        if roles["choices"].endswith(".text") and row.has(names) and label in row.texts(names):
            example = dataclasses.replace(example, label=row.texts(names).index(label))
        yield example, label


def _number(first: int) -> Callable[[str, Sequence[str]], int | None]:
    def index(label: str, choices: Sequence[str]) -> int | None:
        number = table_rows.whole_number(label.removesuffix(".0"))
        if number is None or not first <= number < first + len(choices):
            return None
        return number - first

    return index


_TEXTS = "texts of choices"
# What labels may be: their index among the choices, or None. The first that fits all rows counts.
_FORMS: dict[str, Callable[[str, Sequence[str]], int | None]] = {
    "numbers from 0": _number(0),
    "numbers from 1": _number(1),
    "letters": lambda label, choices: None if label.isdigit() else key_index(label, len(choices)),
    _TEXTS: lambda label, choices: choices.index(label) if choices.count(label) == 1 else None,
}


def _fitting(found: Sequence[tuple[ChoiceExample, str]], known: Sequence[str]) -> Sequence[str]:
    """The forms of `label_forms`; those known if no example needs one."""
    forms, unread = known or list(_FORMS), [pair for pair in found if pair[0].label is None]
    for example, label in unread:
        left = [form for form in forms if _FORMS[form](label, example.choices) is not None]
        if not left:
            others = "" if len(forms) == len(_FORMS) else f", but others are {' or '.join(forms)}"
            raise InputError(
                f"{example.place}: the label {label!r} names none of {len(example.choices)} "
                f"choices{others}; write numbers from 0, letters from A, or the texts of the "
                "choices for all."
            )
        forms = left
    for example, label in unread if _TEXTS in forms else ():
        first, text = (_FORMS[form](label, example.choices) for form in (forms[0], _TEXTS))
        if first != text:
            raise InputError(
                f"{example.place}: the label {label!r} names a choice as one of {forms[0]}, and "
                f"another as one of {_TEXTS}; write letters from A, or other texts."
            )
    return forms if unread else known


def _single_questions(rows: Iterable[TableRow]) -> Iterator[TableRow]:
    """Yields a row for each question where a row has several, as in DREAM and RACE."""
    for row in rows:
        values = dict(row.values)
        questions: Any = values.get("2") if "1" in values else None
        if (
            isinstance(questions, list)
            and questions
            and all(isinstance(x, dict) for x in questions)
        ):
            each = [{"dialogue": values["1"], **question} for question in questions]  # DREAM
        elif all(isinstance(values.get(_RACE[name]), list) for name in ("question", "options")):
            values.pop("id", None)
            lists = {ours: values.pop(name) for ours, name in _RACE.items() if name in values}
            if not all(
                isinstance(x, list) and len(x) == len(lists["options"]) for x in lists.values()
            ):
                raise InputError(
                    f"{row.place}: {', '.join(_RACE.values())} must be lists of one length."
                )
            cells = zip(*lists.values(), strict=True)
            each = [{**values, **dict(zip(lists, cell, strict=True))} for cell in cells]
        else:
            yield row
            continue
        for number, single in enumerate(each):
            yield TableRow(single, f"{row.place}, question {number}", format=row.format)


def _choice_columns(row: TableRow, source: Source, labelled: bool) -> dict[str, str]:
    """The columns by role, which are logged; raises InputError if the first row lacks one."""
    context, question = (_field(row, source.find(role, row)) for role in ("context", "question"))
    if context is None:
        context, question = question or source.find("text", row), None
    single = "+".join(_single(row))
    choices = source.find("choices", row) if "choices" in source.chosen else single
    nested = (name for name in row.names() if name.endswith(".choices.text"))
    choices = choices or source.find("choices", row) or next(nested, None)
    roles = {"context": context, "choices": _field(row, choices)}
    roles |= {"question": question} if question else {}
    roles |= {"label": source.find("label", row, _ANSWERS)} if labelled else {}
    return source.check(row, roles)


def _single(row: TableRow) -> list[str]:
    """Returns the columns of one choice each, such as choice0, choice1, ... or A, B, ...."""
    stems: dict[str, list[str]] = {}
    for name in row.values:
        if match := CHOICE.fullmatch(name.lower()):
            stems.setdefault(match[1], []).append(name)
        elif re.fullmatch("[A-H]", name):
            stems.setdefault("", []).append(name)
    most = max(stems.values(), key=len, default=[])
    return sorted(most, key=lambda name: (len(name), name)) if len(most) > 1 else []


def _field(row: TableRow, column: str | None) -> str | None:
    """Returns a column, or the usual field of the objects in it; None if they have none."""
    value = row.get(column) if column and row.has(column) else None
    value = value[0] if isinstance(value, list) and value else value
    if not isinstance(value, dict):
        return column
    return next((f"{column}.{name}" for name in ("text", "stem") if name in value), None)


def _choices(row: TableRow, column: str | None) -> tuple[str, ...]:
    """Returns the choices of a column, or of columns; None: of those with one choice each."""
    parts = _single(row) if column is None else column.split("+")
    if column is None or (len(parts) > 1 and column not in row.values):
        # JSON Lines converted from tables have null if a row has fewer choices than others.
        is_there = (row.values.get(name, "") is not None for name in parts)
        cells = [row.verbatim(n) if has else "" for n, has in zip(parts, is_there, strict=True)]
    elif isinstance(row.get(column), list):
        cells = list(row.texts(column))
    else:
        raise InputError(
            f"{row.place}: {column} is {shorten(row.get(column), _MAX_SHOWN)!r}, not a list; name "
            "a list, or several columns (--columns=choices=2+3+4)."
        )
    choices = table_rows.without_empty_end(cells)
    if len(choices) < 2:
        raise InputError(
            f"{row.place}: has fewer than two choices (columns choice0, choice1, ...)."
        )
    # Leaving it out would move the choices after it away from their labels.
    if blank := [number for number, choice in enumerate(choices) if not choice.strip()]:
        raise InputError(
            f"{row.place}: choice {blank[0]}, counted from 0, is empty, but a later one "
            "is not; fill it, or move the later ones up and correct the label."
        )
    return choices
