"""Texts with entities as spans of characters, which become words with tags.

A row has a text and a list of spans: [start, end, type], or objects with these. doccano, Prodigy,
spaCy, and Label Studio (JSON and JSON-MIN) write such files.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from pipelines.common.errors import InputError
from pipelines.common.texts import counted, shorten
from pipelines.labelled import offsets
from pipelines.labelled.columns import USUAL
from pipelines.labelled.schema import TextEntity, WordsExample
from pipelines.labelled.source import Source
from pipelines.labelled.table_rows import TableRow
from pipelines.tokenizers import wordpiece

# Names of the fields of a span.
_START, _END = ("start", "start_offset", "begin"), ("end", "end_offset")
_TYPE = ("label", "labels", "type", "entity", "entity_group", "tag")
# A task of Label Studio has the work of its annotators; old versions name it the second way.
_WORK = ("annotations", "completions")
_RESULT: dict[str, Any] = {"from_name": "label", "to_name": "text", "type": "labels"}
_NO_RESULT = _RESULT | {"value": {"start": 0, "end": 0, "text": "", "labels": []}}
_REFUSED = ("reject", "ignore")  # answers of Prodigy
_SHOWN = 3  # spans in messages
_BATCH = 256  # texts that are split at once


class _Span(NamedTuple):
    """An entity as a file has it, with its text if the file has that, too."""

    start: int
    end: int
    type: str
    text: str | None = None


class _Words(NamedTuple):
    """A text, the first character of each of its words, and the one after its last, ascending."""

    text: str
    starts: np.ndarray
    ends: np.ndarray

    def has(self, span: _Span) -> bool:
        """Whether a span is where its text is, or else whole words."""
        if span.text is not None:
            return span.start >= 0 and self.text[span.start : span.end] == span.text
        return span.start in self.starts and span.end in self.ends


@dataclasses.dataclass(frozen=True)
class _Form:
    """How a row has its spans; see `EntityForm`.

    Attributes:
      row: the row.
      column: the column of the spans; "": those of a task of Label Studio.
      item: the first span of the file; None: a list of start, end and type.
      utf16: whether places are counted in units of UTF-16.
    """

    row: TableRow
    column: str
    item: Mapping[str, Any] | None
    utf16: bool

    def written(self, text: str, entities: Sequence[TextEntity]) -> Any:
        """The row with these entities; for Label Studio, a task with predictions."""
        items = [self._item(text, each) for each in entities]
        values = dict(self.row.values)
        if not self.column:
            known = {name: values[name] for name in ("id", "data") if name in values}
            return known | {"predictions": [{"result": items}]}
        if isinstance(found := values.get(self.column), dict):
            found = found | {"entities": items}
            # spaCy's pairs of a text and its annotations are read as `text` and `label`.
            return [text, found] if self.column == "label" else values | {self.column: found}
        return values | {self.column: items}

    def _item(self, text: str, entity: TextEntity) -> Any:
        start, end = entity.start, entity.end
        if self.utf16:
            start, end = (len(text[:at].encode("utf-16-le")) // 2 for at in (start, end))
        if self.item is None:
            return [start, end, entity.type]
        value = self.item.get("value", self.item)
        kind = _name(value, _TYPE)
        type_: Any = [entity.type] if isinstance(value[kind], list) else entity.type
        found = {_name(value, _START): start, _name(value, _END): end, kind: type_}
        found |= {"text": text[entity.start : entity.end]} if "text" in value else {}
        if value is self.item:
            return found
        about = {name: self.item.get(name, usual) for name, usual in _RESULT.items()}
        return about | {"value": found, "score": entity.probability}


def has_texts(source: Source, row: TableRow, labelled: bool | None) -> bool:
    """Returns whether the rows of a file are texts rather than words, by the first one."""
    if not {"text", "entities"}.isdisjoint(source.chosen) or _is_task(row):
        return True
    column = source.find("words", row)
    words = row.get(column) if column else []
    if column and not (isinstance(words, list) and any(isinstance(word, dict) for word in words)):
        return False
    text = source.find("text", row)
    spans = any(isinstance(value, list | dict) for value in row.values.values())
    return text is not None and isinstance(row.get(text), str) and (spans or not labelled)


def read(source: Source, labelled: bool | None, rows: Sequence[TableRow]) -> Iterator[WordsExample]:
    """Yields the texts of a file as words, with the tags B-TYPE, I-TYPE and O.

    The log has the numbers of spans that could not become tags as they are, and the first of them.
    Places that are counted in other units than characters are corrected.

    Args:
      source: the file.
      labelled: whether spans are read; None: where there are any.
      rows: the rows of the file.

    Raises:
      InputError: a column is missing, or a span is damaged or not in its text.
    """
    kept = [row for row in rows if row.values.get("answer") not in _REFUSED]
    _warn(
        source.path, len(rows) - len(kept), rows, "texts were rejected or ignored and are skipped"
    )
    column = _column(source, rows)
    roles = {"text": _text_column(source, rows[0])}
    work = next((name for name in _WORK if name in rows[0].values), None)
    if labelled or column or work:
        roles["entities"] = work if column == "" else column
    text = source.check(rows[0], roles)["text"]
    items = [_items(row, column) for row in kept]
    if labelled:
        pairs = [(row, each) for row, each in zip(kept, items, strict=True) if each is not None]
        _warn(source.path, len(kept) - len(pairs), kept, "texts are not annotated and are skipped")
        kept, items = [row for row, _ in pairs], [each for _, each in pairs]
    if not kept:
        raise InputError(f"{source.path}: no text is annotated.")
    words = list(_split([row.verbatim(text) for row in kept]))
    spans = [
        [_span(item, row.place) for item in each or ()]
        for row, each in zip(kept, items, strict=True)
    ]
    unit, spans = _corrected(source.path, words, spans)
    item = next(
        (item for each in items for item in each or ()), _NO_RESULT if column == "" else None
    )
    item = item if isinstance(item, Mapping) else None
    problems: dict[str, list[str]] = {}
    places = [row.place for row in kept]
    tags = [_tags(*each, problems) for each in zip(words, spans, places, strict=True)]
    for what, found in problems.items():
        _warn(source.path, len(found), [s for each in spans for s in each], f"spans {what}", found)
    for index, (row, each) in enumerate(zip(kept, words, strict=True)):
        starts = tuple(each.starts.tolist())
        bounds = zip(starts, each.ends.tolist(), strict=True)
        known = labelled is not False and items[index] is not None
        yield WordsExample(
            source.key(row, index),
            row.place,
            tuple(each.text[start:end] for start, end in bounds),
            tuple(tags[index]) if known else None,
            index,
            each.text,
            starts,
            _Form(row, "entities" if column is None else column, item, unit == _UTF16),
        )


def _warn(path: str, count: int, of: Sequence[Any], what: str, shown: Sequence[str] = ()) -> None:
    if count:
        some = f": {'; '.join(shown[:_SHOWN])}" if shown else ""
        logging.warning("%s: %s of %s %s%s.", path, f"{count:,}", f"{len(of):,}", what, some)


def _is_task(row: TableRow) -> bool:
    """Whether a row is a task of Label Studio."""
    return isinstance(row.values.get("data"), Mapping)


def _text_column(source: Source, row: TableRow) -> str | None:
    """The column of the text; of a task of Label Studio, a field of its data."""
    if not _is_task(row) or "text" in {*source.chosen, *source.usual}:
        return source.find("text", row)
    texts = [name for name, value in row.values["data"].items() if isinstance(value, str)]
    one = "text" if "text" in texts else texts[0] if len(texts) == 1 else None
    return one and f"data.{one}"


def _column(source: Source, rows: Sequence[TableRow]) -> str | None:
    """The column of the spans; "" for tasks of Label Studio, None if there is none."""
    if rows and _is_task(rows[0]):
        return ""
    named = source.chosen.get("entities") or source.usual.get("entities")
    if named and any(row.has(named) for row in rows):
        return named
    values = ((name, row.values.get(name)) for name in USUAL["entities"] for row in rows)
    return next((name for name, value in values if isinstance(value, list | dict)), None)


def _items(row: TableRow, column: str | None) -> list[Any] | None:
    """The spans of a row as they are in the file; None if it is not annotated."""
    if column is None:
        return None
    if not column:
        work: Any = next((row.values[name] for name in _WORK if row.values.get(name)), [])
        if not (isinstance(work, list) and all(isinstance(each, dict) for each in work)):
            raise InputError(
                f"{row.place}: its annotations are not objects with results; export the project "
                "as JSON, not as numbers of annotations."
            )
        done = [each for each in work if not each.get("was_cancelled")]
        if len(done) > 1:
            logging.warning("%s: has %d annotations; the first is read.", row.place, len(done))
        results = (done[0].get("result") or []) if done else []
        values = [(x, x.get("value") if isinstance(x, dict) else None) for x in results]
        spans = [x for x, value in values if isinstance(value, dict) and "labels" in value]
        return spans if done else None
    # Label Studio's JSON-MIN leaves out the column of a text without spans.
    value = row.get(column) if row.has(column) else []
    value = value.get("entities") if isinstance(value, dict) else value
    if not isinstance(value, list | None):
        raise InputError(f"{row.place}: {column} is {shorten(value, 40)!r}, not a list of spans.")
    return value


def _name(value: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The first of some names that a span has."""
    return next((name for name in names if name in value), None)


def _span(item: Any, place: str) -> _Span:
    """A span of a file; raises InputError if it is not one."""
    fields: Sequence[Any] = ()
    text = None
    if isinstance(item, dict):
        value = item["value"] if isinstance(item.get("value"), dict) else item
        text = value.get("text")
        fields = [value.get(_name(value, names)) for names in (_START, _END, _TYPE)]
        if isinstance(fields[2], list) and len(fields[2]) == 1:
            fields[2] = fields[2][0]
    elif isinstance(item, list) and len(item) >= 3:
        fields = item[:3]
    whole = [type(value) is int for value in fields[:2]]
    if whole != [True, True] or not isinstance(fields[2], str) or not fields[2].strip():
        raise InputError(
            f"{place}: {shorten(item, 60)!r} is not a span; write [start, end, type], such as "
            '[0, 5, "PER"], or an object with start, end and one label.'
        )
    return _Span(fields[0], fields[1], fields[2], text if isinstance(text, str) else None)


@functools.cache
def _word_finder() -> Any:
    return wordpiece.make_word_finder()


def _split(texts: Sequence[str]) -> Iterator[_Words]:
    """The words of texts, split as by BERT: at white space, punctuation, Chinese characters."""
    for first in range(0, len(texts), _BATCH):
        some = texts[first : first + _BATCH]
        _, *places = _word_finder().tokenize_with_offsets(some)
        rows = (np.split(x.flat_values.numpy(), x.row_splits.numpy()[1:-1]) for x in places)
        for text, *each in zip(some, *rows, strict=True):
            if not text.isascii():
                characters = np.cumsum([0, *(len(character.encode()) for character in text)])
                each = [np.searchsorted(characters, x) for x in each]
            yield _Words(text, *each)


def _converted(
    convert: Callable[[str, int], int], text: str, start: int, end: int
) -> tuple[int, int]:
    """A span in characters; its end unchanged if it is behind the text."""
    last, behind = (convert(text, at) for at in (end - 1, end))
    return convert(text, start), behind if last < behind else end


def _shifted(first: int, last: int, _: str, start: int, end: int) -> tuple[int, int]:
    return start + first, end + last


_Move = Callable[[str, int, int], tuple[int, int]]
_UTF16 = "UTF-16 units"


def _corrected(
    path: str, words: Sequence[_Words], spans: list[list[_Span]]
) -> tuple[str | None, list[list[_Span]]]:
    """Spans in characters, and the unit in which the file counts them if it is another one.

    That is the unit by which most spans are where their text is, or are whole words.
    """

    def moved(move: _Move) -> list[list[_Span]]:
        return [
            [_Span(*move(w.text, s.start, s.end), s.type, s.text) for s in each]
            for w, each in zip(words, spans, strict=True)
        ]

    def fitting(some: list[list[_Span]]) -> int:
        return sum(w.has(span) for w, each in zip(words, some, strict=True) for span in each)

    total, plain = sum(map(len, spans)), fitting(spans)
    if plain == total:
        return None, spans
    moves = dict[str, _Move]()
    for unit, convert in offsets.UNITS.items():
        moves[unit] = functools.partial(_converted, convert)
    # A shift is one of most spans; then ends may be those of last characters, too.
    if 2 * plain < total and total >= offsets.MIN_SHIFTED:
        moves["ends as last characters"] = functools.partial(_shifted, 0, 1)
        for by in (*range(-offsets.MAX_SHIFT, 0), *range(1, offsets.MAX_SHIFT + 1)):
            moves[f"{by:+d} throughout"] = functools.partial(_shifted, -by, -by)
    counts = {unit: fitting(moved(move)) for unit, move in moves.items()}
    unit = max(counts, key=lambda unit: counts[unit])
    if counts[unit] <= (plain if unit in offsets.UNITS else 0.9 * total):
        return None, spans
    logging.warning(
        "%s: the places of spans count %s: %d of %d fit so, and %d otherwise.",
        *(path, unit, counts[unit], total, plain),
    )
    return unit, moved(moves[unit])


def _tags(
    words: _Words, spans: Sequence[_Span], place: str, problems: dict[str, list[str]]
) -> list[str]:
    """The tags of the words; spans elsewhere than their text, or not whole words: `problems`.

    Raises:
      InputError: a span is not in the text.
    """
    text, starts, ends = words
    tags = ["O"] * len(starts)
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        start, end, type_, stated = span
        if not 0 <= start < end <= len(text):
            raise InputError(
                f"{place}: {type_} from {start} to {end} is not in the text, which has "
                f"{counted(len(text), 'character')}; places count from 0."
            )
        first = int(np.searchsorted(ends, start, "right"))
        last = int(np.searchsorted(starts, end))
        shown = f"{place}: {type_} {shorten(text[start:end], 40)!r}"
        if stated is not None and stated.split() != text[start:end].split():
            what = "are not where their text is and are left out"
            problems.setdefault(what, []).append(f"{shown} is not {shorten(stated, 40)!r}")
        elif first >= last:
            problems.setdefault("have no word and are left out", []).append(shown)
        elif any(tag != "O" for tag in tags[first:last]):
            what = "share words with another one and are left out"
            problems.setdefault(what, []).append(shown)
        else:
            tags[first:last] = [f"B-{type_}", *[f"I-{type_}"] * (last - first - 1)]
            if starts[first] < start or end < ends[last - 1]:
                within = shorten(text[starts[first] : ends[last - 1]], 40)
                what = "cut a word and are read as whole words"
                problems.setdefault(what, []).append(f"{shown} in {within!r}")
    return tags
