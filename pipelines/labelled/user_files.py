"""Labelled files of the user's own: TSV, CSV or JSON Lines; `columns` says what is where."""

import re
from collections.abc import Iterator

from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.labelled import tables
from pipelines.labelled.columns import ColumnNames
from pipelines.labelled.multiple_choice import key_index
from pipelines.labelled.schema import Answer, ChoiceExample, SpanExample, TextExample, WordsExample

_SHOWN = 60  # characters of a value, in messages
_ROWS_OF_WORDS = 20  # sentences that may all have one word


def read_texts(
    path: str, columns: ColumnNames, pair: bool | None, labelled: bool
) -> list[TextExample]:
    """Reads texts or pairs of texts, with labels where `labelled`.

    Args:
      path: the file.
      columns: finds what is where.
      pair: whether to read pairs; None: if there are two texts.
      labelled: whether to read labels.

    Raises:
      InputError: a column is missing, or a row is damaged.
    """
    return list(iterate_texts(path, columns, pair, labelled))


def iterate_texts(
    path: str, columns: ColumnNames, pair: bool | None, labelled: bool | None
) -> Iterator[TextExample]:
    """Yields what `read_texts` reads, one after the other.

    Args:
      path: the file.
      columns: finds what is where.
      pair: whether to read pairs; None: if there are two texts.
      labelled: whether to read labels; None: those that are there.

    Raises:
      InputError: as `read_texts`.
    """
    for index, row in enumerate(columns.iterate(path)):
        pair = columns.is_pair(row) if pair is None else pair
        if index == 0:
            roles = _text_roles(columns, row, pair) | _optional("label", row, columns, labelled)
            columns.check_found(roles, row)
            columns.report(path, row, roles)
        first = columns.need("text_a", row) if pair else _single(columns, row)
        second = columns.need("text_b", row) if pair else None
        column = _label_column("label", row, columns, labelled)
        label = _label(row, column) if column else None
        if label == "":
            if labelled:
                raise InputError(f"{row.place}: the label is empty.")
            label = None
        text_b = row.text(second) if second else None
        key = columns.key(row, index)
        yield TextExample(key, row.place, row.text(first), text_b, label)


def _single(columns: ColumnNames, row: tables.Row) -> str:
    return columns.find("text", row) or columns.find("text_a", row) or columns.need("text", row)


def _text_roles(columns: ColumnNames, row: tables.Row, pair: bool) -> dict[str, str | None]:
    """The columns of the texts, by role, as far as they are found."""
    if pair:
        return {role: columns.find(role, row) for role in ("text_a", "text_b")}
    return {"text": columns.find("text", row) or columns.find("text_a", row)}


def _optional(
    role: str, row: tables.Row, columns: ColumnNames, labelled: bool | None
) -> dict[str, str | None]:
    """The column of labels, or of tags, by role; nothing where they need not be there."""
    column = columns.find(role, row) if labelled is not False else None
    return {role: column} if labelled or column else {}


def _label(row: tables.Row, column: str) -> str:
    value = row.get(column)
    if isinstance(value, list):
        raise InputError(
            f"{row.place}: {column} is a list, {_shorten(value)}; a text has one label here: keep "
            "the rows of one label, and write it without the list."
        )
    return row.text(column)


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def read_words(path: str, columns: ColumnNames, labelled: bool) -> list[WordsExample]:
    """Reads sentences of words: lists in JSON Lines, separated by spaces in tables.

    Raises:
      InputError: a column is missing, a word is no text, or a sentence has not as
        many tags as words.
    """
    return list(iterate_words(path, columns, labelled))


def iterate_words(path: str, columns: ColumnNames, labelled: bool | None) -> Iterator[WordsExample]:
    """Yields what `read_words` reads, one after the other.

    Args:
      path: the file.
      columns: finds what is where.
      labelled: whether to read tags; None: if there is a column of them.

    Raises:
      InputError: as `read_words`.
    """
    longest = 0
    for index, row in enumerate(columns.iterate(path)):
        if not index:
            tag_column = columns.find_only("tags", row) if labelled is not False else None
            roles = {"words": columns.find("words", row)}
            roles |= {"tags": tag_column} if labelled or tag_column else {}
            columns.check_found(roles, row)
            columns.report(path, row, roles)
        words = _strings(row, columns.need("words", row))
        longest = max(longest, len(words))
        column = _label_column("tags", row, columns, labelled)
        tags = _strings(row, column) if column else None
        if tags is not None and len(tags) != len(words):
            found = f"{counted(len(words), 'word')}, but {counted(len(tags), 'tag')}"
            raise InputError(f"{row.place}: has {found}; give each word one.")
        yield WordsExample(columns.key(row, index), row.place, words, tags, index)
    if labelled and longest == 1 and index >= _ROWS_OF_WORDS:
        raise InputError(
            f"{path}: each of its {index + 1} rows has one word; write all words of a sentence in "
            "one row, with spaces between, or a word a line and a blank line behind each sentence "
            "in a .conll file."
        )


def _label_column(
    role: str, row: tables.Row, columns: ColumnNames, labelled: bool | None
) -> str | None:
    """The column of labels, or of tags; None where they are not read."""
    if labelled is None:
        return columns.find(role, row)
    return columns.need(role, row) if labelled else None


def _strings(row: tables.Row, column: str) -> tuple[str, ...]:
    if isinstance(row.get(column), list):
        return row.texts(column)
    # Other white space, such as a no-break space, is a part of a word.
    return tuple(re.findall(r"[^ \t\r\n]+", row.text(column)))


def read_spans(path: str, columns: ColumnNames, labelled: bool) -> list[SpanExample]:
    """Reads questions, contexts, and the answer's text and first character.

    An empty answer says that the context has none. In JSON Lines there may be
    lists of answers and starts, both in an object, {"text": [...],
    "answer_start": [...]}, or a list of such objects, one an answer.

    Raises:
      InputError: a column is missing, an answer is no text, or its start is
        missing or no number.
    """
    found = []
    for index, row in enumerate(columns.rows(path)):
        if not index:
            roles = {role: columns.find(role, row) for role in ("question", "context")}
            if labelled:
                roles["answer"] = columns.find("answer", row)
            if labelled and roles["answer"] is None:
                roles["answer_start"] = columns.find("answer_start", row)
            columns.check_found(roles, row)
            columns.report(path, row, roles)
        answers = _answers(row, columns) if labelled else None
        found.append(
            SpanExample(
                columns.key(row, index),
                row.place,
                row.text(columns.need("question", row)),
                row.verbatim(columns.need("context", row)),
                answers,
            )
        )
    return found


def _answers(row: tables.Row, columns: ColumnNames) -> tuple[Answer, ...]:
    column = columns.need("answer", row)
    value = row.get(column)
    objects = value if isinstance(value, list) else [value]
    if objects and all(isinstance(item, dict) for item in objects):
        place = f"{row.place}, {column}"
        each = [_answers_at(tables.Row(item, place), "text", "answer_start") for item in objects]
        return tuple(answer for answers in each for answer in answers)
    if value in (None, "", []):
        return ()
    return _answers_at(row, column, columns.need("answer_start", row))


def _answers_at(row: tables.Row, column: str, start_column: str) -> tuple[Answer, ...]:
    """The answers of a column, one or a list, with the starts of another."""
    texts, starts = row.texts(column), row.texts(start_column)
    if len(texts) != len(starts):
        raise InputError(
            f"{row.place}: has {counted(len(texts), 'answer')}, but "
            f"{counted(len(starts), 'start')}; give each answer one."
        )
    found = []
    for text, start in zip(texts, starts, strict=True):
        if not text:
            continue
        number = tables.whole_number(start)
        if number is None:
            raise InputError(
                f"{row.place}: the answer {text!r} starts at {start!r}; give the number of its "
                "first character, counted from 0."
            )
        found.append(Answer(text, number))
    return tuple(found)


def read_choices(path: str, columns: ColumnNames, labelled: bool) -> list[ChoiceExample]:
    """Reads choices: a list in JSON Lines, or columns choice0, choice1, ... in tables.

    The label is the number of the right one, counted from 0, or its letter; or, of objects such as
    {"text": "Rain", "label": "A"}, the label of the right one.

    Raises:
      InputError: a column is missing, a choice is no text or is empty while a later
        one is not, a label names no choice, or some labels are numbers and others letters.
    """
    found = []
    forms: set[bool] = set()
    for index, row in enumerate(columns.rows(path)):
        if not index:
            _check_choice_columns(path, row, columns, labelled)
        choices = _choices(row, columns)
        label = _right(row, columns, len(choices), forms) if labelled else None
        found.append(
            ChoiceExample(
                columns.key(row, index),
                row.place,
                row.text(columns.need("context", row)),
                choices,
                label,
            )
        )
    return found


def _check_choice_columns(path: str, row: tables.Row, columns: ColumnNames, labelled: bool) -> None:
    """Raises InputError where the first row lacks a column; else logs which were found."""
    roles = {
        "context": columns.find_only("context", row),
        "choices": columns.find("choices", row) or "+".join(_numbered(row)) or None,
    }
    roles |= {"label": columns.find("label", row)} if labelled else {}
    # Where a field has fields, which of them is it?
    plain = {
        role: None if column and _has_fields(row, column) else column
        for role, column in roles.items()
    }
    columns.check_found(plain, row)
    columns.report(path, row, roles)


def _has_fields(row: tables.Row, column: str) -> bool:
    value = row.get(column) if row.has(column) else None
    return isinstance(value[0] if isinstance(value, list) and value else value, dict)


def _numbered(row: tables.Row) -> list[str]:
    """The columns choice0, choice1, ..."""
    return tables.numbered(row.values, "(?i:choice|option|ending)_?")


def _right(row: tables.Row, columns: ColumnNames, count: int, forms: set[bool]) -> int:
    """The index of the right one of so many choices; `forms` gets whether a number says it."""
    label = row.text(columns.need("label", row))
    choices = columns.find("choices", row) or ""
    keys = f"{choices.removesuffix('.text')}.label"
    if choices.endswith(".text") and row.has(keys) and label in row.texts(keys)[:count]:
        return row.texts(keys).index(label)
    number = tables.whole_number(label)
    forms.add(number is None)
    if len(forms) > 1:
        raise InputError(
            f"{row.place}: the label is {label!r}, but those before are "
            f"{'numbers' if number is None else 'letters'}; write letters for all, or numbers from "
            "0."
        )
    index = key_index(label, count) if number is None else number
    if index is None or index >= count:
        raise InputError(
            f"{row.place}: the label {label!r} names none of {count} choices; numbers count from "
            "0, letters from A: write letters where they count from 1."
        )
    return index


def _choices(row: tables.Row, columns: ColumnNames) -> tuple[str, ...]:
    column = columns.find("choices", row)
    if column and column not in row.values and "+" in column:
        cells = [row.text(part) for part in column.split("+")]
    elif column:
        if not isinstance(row.get(column), list):
            raise InputError(
                f"{row.place}: {column} is {_shorten(row.get(column))!r}, not a list; name a list, "
                "or several columns (--columns=choices=2+3+4)."
            )
        cells = [text.strip() for text in row.texts(column)]
    else:
        names = _numbered(row)
        # Tables made JSON Lines have null where a row has fewer choices than others.
        cells = ["" if row.values[name] is None else row.text(name) for name in names]
    choices = tables.without_empty_end(cells)
    if len(choices) < 2:
        raise InputError(
            f"{row.place}: has fewer than two choices (columns choice0, choice1, ...)."
        )
    # Left out, it would move the choices behind it away from their labels.
    if "" in choices:
        raise InputError(
            f"{row.place}: choice {choices.index('')}, counted from 0, is empty, but a later one "
            "is not; fill it, or move the later ones up and mend the label."
        )
    return choices
