"""Reads labelled files of the user's own: TSV, CSV or JSON Lines, with columns by `columns`."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipelines.common.errors import InputError
from pipelines.common.texts import counted, shorten
from pipelines.labelled import entity_files, table_rows, tables, word_columns
from pipelines.labelled.columns import INDICATORS
from pipelines.labelled.schema import (
    AnswerSpan,
    GenerationExample,
    MultiLabelExample,
    SpanExample,
    TextExample,
    WordsExample,
)
from pipelines.labelled.source import Source
from pipelines.labelled.table_rows import TableRow

_MAX_SHOWN = 60  # characters of a value, in messages
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_MAX_SINGLE_WORDS = 20  # sentences of one word, after which a file is not one of sentences


def read_texts(
    source: Source, pair: bool | None, labelled: bool | None, rows: Iterable[TableRow] | None = None
) -> Iterator[TextExample]:
    """Yields texts or pairs of texts.

    Args:
      source: the file.
      pair: whether to read pairs; None: if the first row has two texts.
      labelled: whether to read labels; None: where there are any.
      rows: those of the file, if it was opened before.

    Raises:
      InputError: a column is missing, or a row is damaged.
    """
    for index, row in enumerate(rows or tables.read_rows(source)):
        if not index:
            roles = text_roles(source, row, source.is_pair(row) if pair is None else pair)
            column = source.find("label", row) if labelled is not False else None
            roles |= {"label": column} if labelled or column else {}
            found = source.check(row, roles)
        label = _label(row, column, bool(labelled)) if column else None
        if labelled and label == "":
            raise InputError(f"{row.place}: the label is empty.")
        yield TextExample(source.key(row, index), row.place, *texts_of(row, found), label or None)


def read_multilabel(source: Source, labelled: bool | None) -> Iterator[MultiLabelExample]:
    """Yields texts or pairs, each with any number of labels.

    They are a list in JSON Lines, one cell of a table ("joy, love"), columns of 0 and 1 that are
    named like the labels, or vectors of 0 and 1 for `label_names`. One of | ; and commas separates
    the labels of all cells: `label_form`, or the first that the file has.

    Raises:
      InputError: a column is missing, or a row is damaged.
    """
    indicators: list[str] = []
    rows = list(tables.read_rows(source))
    for index, row in enumerate(rows):
        if not index:
            pair = source.is_pair(row)
            roles = text_roles(source, row, pair)
            column = source.find("labels", row) if labelled is not False else None
            indicators = source.indicators(row, {*roles.values(), source.find("id", row)})
            if labelled is False or (column and "+" not in column):
                indicators = []
            if indicators:
                column = "+".join(indicators)
            roles |= {"labels": column} if labelled or column else {}
            found = source.check(row, roles)
            every = None
            if column and not indicators:
                separator = source.label_form or _separator(rows, column)
                lists = [_listed(each, column, separator) for each in rows]
                every = _named_vectors(rows, column, lists, source)
        labels = every[index] if every else None
        if indicators:
            labels = tuple(name for name in indicators if _is_one(row, name))
        yield MultiLabelExample(source.key(row, index), row.place, *texts_of(row, found), labels)


def label_separators(source: Source, known: Sequence[str]) -> Sequence[str]:
    """Returns what separates the labels in the cells of a file, if it is not known."""
    rows = [] if known else list(tables.read_rows(source))
    column = source.find("labels", rows[0]) if rows else None
    separator = _separator(rows, column) if column and "+" not in column else None
    return [separator] if separator else known


def text_roles(source: Source, row: TableRow, pair: bool) -> dict[str, str | None]:
    """The columns of a text, or of a pair."""
    if pair:
        return {role: source.find(role, row) for role in ("text_a", "text_b")}
    first = "text_a" if "text_a" in source.chosen and "text" not in source.chosen else "text"
    return {"text": source.find(first, row) or source.find("text_a", row)}


def texts_of(row: TableRow, found: Mapping[str, str]) -> tuple[str, str | None]:
    """The text, or both texts of a pair, unchanged: as a request to a server has them."""
    if "text" in found:
        return row.verbatim(found["text"]), None
    return row.verbatim(found["text_a"]), row.verbatim(found["text_b"])


def _is_one(row: TableRow, column: str) -> bool:
    value = str(row.get(column)).strip().lower()
    if value not in INDICATORS:
        raise InputError(
            f"{row.place}: {column} is {shorten(value, _MAX_SHOWN)!r}, not 0 or 1. Name "
            "the columns of labels: --columns=labels=FIRST+SECOND+THIRD."
        )
    return INDICATORS[value]


def _separator(rows: Sequence[TableRow], column: str) -> str | None:
    """The first of | ; and commas that a cell has; lists need none."""
    marks = {mark for row in rows if isinstance(text := row.get(column), str) for mark in text}
    return next((mark for mark in "|;," if mark in marks), None)


def _listed(row: TableRow, column: str, separator: str | None) -> tuple[str, ...]:
    """The labels of a list, or of a cell, also with quotes, as Python and NumPy print lists.

    Without a separator, numbers may have blanks between.
    """
    if isinstance(row.get(column), list):
        return row.texts(column)
    text = row.text(column)
    if re.fullmatch(r"[\[{(][\s,;|]*[\]})]", _QUOTED.sub("", text)):
        return tuple(filter(None, ("".join(quoted) for quoted in _QUOTED.findall(text))))
    text = text.strip("[]{}").strip()
    if not separator and re.fullmatch(r"[0-9]+\.?(\s+[0-9]+\.?)*", text):
        return tuple(number.removesuffix(".") for number in text.split())
    parts = text.split(separator) if separator else [text]
    return tuple(filter(None, (part.strip().strip("\"'") for part in parts)))


def _named_vectors(
    rows: Sequence[TableRow], column: str, found: Sequence[tuple[str, ...]], source: Source
) -> list[tuple[str, ...]]:
    """The labels of all rows; of vectors of 0 and 1, the names of the places that have 1.

    Raises:
      InputError: the names of a vector's places are unknown, or some rows have no vector.
    """
    sizes = {len(labels) for labels in found}
    binary = [{label.lower() for label in labels} <= INDICATORS.keys() for labels in found]
    names = source.label_names
    if all(binary) and sizes == {len(names)} and len(names) > 1:
        return [
            tuple(n for n, x in zip(names, vector, strict=True) if INDICATORS[x.lower()])
            for vector in found
        ]
    same = all(binary) and len(sizes) == 1 and max(sizes) > 1
    for row, labels, may_be_vector in zip(rows, found, binary, strict=True):
        if may_be_vector and (same or len(set(labels)) < len(labels)):
            raise InputError(
                f"{row.place}: {column} is {shorten(row.get(column), _MAX_SHOWN)}, of 0 and 1; "
                f"name its {len(labels)} places in their order, one per line of a file "
                "(--label_map=FILE), or write the names of the labels that a text has."
            )
    return [tuple(dict.fromkeys(labels)) for labels in found]


def read_generation(source: Source, labelled: bool) -> Iterator[GenerationExample]:
    """Yields sources, with their targets if `labelled`; errors as in `read_texts`."""
    for index, row in enumerate(tables.read_rows(source)):
        if not index:
            names = ("source", "target") if labelled else ("source",)
            roles = {role: source.find(role, row) for role in names}
            found = source.check(row, roles)
        target = None
        if labelled:
            target, *more = row.texts(found["target"]) or ("",)
            if more:
                raise InputError(
                    f"{row.place}: {found['target']} has {1 + len(more)} texts; write one. If they "
                    f"are references, keep the first: jq -c '.{found['target']} |= .[0]' FILE; if "
                    f"they are sentences, join them: jq -c '.{found['target']} |= join(\" \")' FILE"
                )
        if target is not None and not target.strip():
            raise InputError(f"{row.place}: the target is empty.")
        text = row.joined(found["source"])  # a list has its sentences
        yield GenerationExample(source.key(row, index), row.place, text, target and target.strip())


def _label(row: TableRow, column: str, needed: bool) -> str | None:
    """The label of a row; None if it has none, unless it is needed."""
    value = row.get(column) if needed or row.has(column) else None
    if value is None and not needed:
        return None
    if isinstance(value, list):
        several = "If a text may have several labels, give --task=multilabel; otherwise write"
        raise InputError(
            f"{row.place}: {column} is a list, {shorten(value, _MAX_SHOWN)}. "
            f"{several if needed else 'Write'} one without a list."
        )
    if isinstance(value, float) and value.is_integer():  # of a column with gaps; in JSON, 1.0 is 1
        return str(int(value))
    return row.text(column)


def read_words(source: Source, labelled: bool | None) -> Iterator[WordsExample]:
    """Yields sentences of words: lists in JSON Lines, separated by spaces in tables.

    Rows may also be words, whose sentences another column numbers or marks, or texts with entities
    (`entity_files`). Tags are read where there are any if `labelled` is None.

    Raises:
      InputError: a column is missing, a word is not a text, or words and tags differ in number.
    """
    rows = tables.read_rows(source)
    first = next(rows)
    rows = itertools.chain([first], rows)
    if columns := word_columns.of_table(source, first, labelled):
        yield from _joined_words(rows, columns)
        return
    if entity_files.has_texts(source, first, labelled):
        yield from entity_files.read(source, labelled, list(rows))
        return
    longest = 0
    for index, row in enumerate(rows):
        if not index:
            column = source.find_only("tags", row) if labelled is not False else None
            roles = {"words": source.find("words", row)}
            roles |= {"tags": column} if labelled or column else {}
            found = source.check(row, roles)
        words = _strings(row, found["words"])
        longest = max(longest, len(words))
        tags = _strings(row, column) if column else None
        if tags is not None and len(tags) != len(words):
            numbers = f"{counted(len(words), 'word')}, but {counted(len(tags), 'tag')}"
            raise InputError(f"{row.place}: has {numbers}; give each word one.")
        yield WordsExample(source.key(row, index), row.place, words, tags, index)
    if labelled and longest == 1 and index >= _MAX_SINGLE_WORDS:
        raise InputError(
            f"{source.path}: each of its {index + 1} rows has one word; write all words of a "
            "sentence in one row, with spaces between, or name the column that numbers the "
            "sentences: --columns=sentence=NAME,words=NAME."
        )


def _joined_words(rows: Iterable[TableRow], found: Mapping[str, str]) -> Iterator[WordsExample]:
    """Yields the sentences of rows of words; a sentence begins where its column has a new value."""
    place = mark = ""
    words, tags = list[str](), list[str]()
    count = 0

    def sentence() -> WordsExample:
        known = tuple(tags) if "tags" in found else None
        return WordsExample(str(count), place, tuple(words), known, count)

    for row in rows:
        new = row.text(found["sentence"])
        if words and new not in ("", mark):
            yield sentence()
            words, tags, count = [], [], count + 1
        mark, place = new or mark, place if words else row.place
        words.append(row.text(found["words"]))
        tags += [row.text(found["tags"])] if "tags" in found else []
        several = len(words[-1].split())
        if several > 1 and tags and several == len(tags[-1].split()):
            raise InputError(
                f"{row.place}: has {several} words and as many tags, and the rows "
                "before have one; write a word per row, or a sentence per row, in the whole file."
            )
    yield sentence()


def _strings(row: TableRow, column: str) -> tuple[str, ...]:
    if isinstance(row.get(column), list):
        return row.texts(column)
    # Other white space, such as a no-break space, is a part of a word.
    return tuple(re.findall(r"[^ \t\r\n]+", row.text(column)))


def read_spans(source: Source, labelled: bool) -> Iterator[SpanExample]:
    """Yields questions, contexts, and the text and first character of the answer.

    An empty answer means that the context has none. JSON Lines may have lists of answers and
    starts, both in an object, {"text": [...], "answer_start": [...]}, or a list of such objects.

    Raises:
      InputError: a column is missing, an answer is not a text, or its start is missing or not a
        number.
    """
    for index, row in enumerate(tables.read_rows(source)):
        if not index:
            roles = {role: source.find(role, row) for role in ("question", "context")}
            start = source.find("answer_start", row) if labelled else None
            if labelled:
                roles["answer"] = source.find("answer", row)
                if start or roles["answer"] is None:
                    roles["answer_start"] = start
            found = source.check(row, roles)
        yield SpanExample(
            source.key(row, index),
            row.place,
            row.verbatim(found["question"]),
            row.verbatim(found["context"]),
            _answers(row, source, found) if labelled else None,
        )


def _answers(row: TableRow, source: Source, found: Mapping[str, str]) -> tuple[AnswerSpan, ...]:
    column = found["answer"]
    value = row.get(column)
    objects = value if isinstance(value, list) else [value]
    if objects and all(isinstance(item, dict) for item in objects):
        place = f"{row.place}, {column}"
        each = [_answers_at(TableRow(item, place), "text", "answer_start") for item in objects]
        return tuple(answer for answers in each for answer in answers)
    if value in (None, "", []):
        return ()
    return _answers_at(row, column, found.get("answer_start") or source.need("answer_start", row))


def _answers_at(row: TableRow, column: str, start_column: str) -> tuple[AnswerSpan, ...]:
    """Returns the answers of a column, one or a list, with the starts of another column."""
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
        number = table_rows.whole_number(start.removesuffix(".0"))  # of a column with gaps
        if number is None:
            raise InputError(
                f"{row.place}: the answer {text!r} starts at {start!r}; give the number of its "
                "first character, counted from 0."
            )
        found.append(AnswerSpan(text, number))
    return tuple(found)
