"""Finds the columns of words and tags in a file with a word per line.

Published files differ: GermEval-2014 counts the words in column 1 and has the tags of nested
entities in the last column; CoNLL-2003 has chunks before the entities; some have a header.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipelines.common.errors import InputError
from pipelines.labelled import table_rows
from pipelines.labelled.source import Source
from pipelines.labelled.table_rows import TableRow

DOCUMENT = "-DOCSTART-"
# The columns of CoNLL-U.
CONLLU = tuple("id form lemma upos xpos feats head deprel deps misc".split())
_WORDS = ("word", "words", "token", "tokens", "form")
# Those of entities come first.
_TAGS = (
    *("tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags"),
    *("pos", "pos_tag", "pos_tags", "upos", "xpos", "chunk"),
)
_SENTENCES = ("sentence #", "sentence_id", "sentence_idx", "sent_id", "sentence")
# Chunks of the CoNLL shared tasks, which precede the tags of entities.
_CHUNKS = frozenset("NP VP PP ADVP ADJP SBAR PRT CONJP INTJ LST UCP NC VC PC".split())
_IOB = re.compile(r"O|[BIESLUM]-(.+)")
_MIN_COUNTED = 5  # consecutive numbers that are a count, not words
_MAX_SAMPLE = 60  # characters of the first sentence, in messages
_ROLES = ("words", "tags")
Line = tuple[int, Sequence[str] | None]


class WordColumns(NamedTuple):
    """The positions of words and tags in a line."""

    words: int  # index of the word's cell
    tags: int  # index of the tag's cell; -1: the last one
    header: int  # number of the line with the names of the columns; 0: there is none
    has_tags: bool  # whether the first word has a tag
    width: int  # number of cells of each line; 0: not checked
    description: str  # how the file is read, with its first sentence


def find(source: Source, lines: Sequence[Line], labelled: bool | None, conllu: bool) -> WordColumns:
    """Finds the columns of words and tags, by the user's choice, a header, or the content.

    Args:
      source: the file, with the columns that the user chose, by number from 1 or by name.
      lines: numbers and cells of the first lines; None for the end of a sentence.
      labelled: whether tags are read; None: if there are any.
      conllu: whether the columns are those of CoNLL-U.

    Raises:
      InputError: a chosen column is unknown, a column is ambiguous, or the lines may be texts.
    """
    lines = [(n, cells) for n, cells in lines if cells is None or cells[0] != DOCUMENT]
    number, first = next(((n, cells) for n, cells in lines if cells), (0, ()))
    names = CONLLU if conllu else tuple(name.lower() for name in first)
    if not conllu and not _is_header(names, source):
        names = ()
    header = number if names and not conllu else 0
    body = [cells for n, cells in lines if n > header]
    rows = [cells for cells in body if cells]
    places = {
        role: _place(role, column, names)
        for role, column in source.usual.items()
        if role in _ROLES and (column.isdecimal() or column.lower() in names)
    }
    places |= {role: _place(role, column, names) for role, column in source.chosen.items()}
    asked = "tags" in places
    width = len(rows[0]) if rows and not (places or conllu) else 0
    # Sentences of words have blank lines between them.
    may_be_texts = labelled is False and width > 1 and not names and None not in body[:-1]
    if may_be_texts and _types(rows, -1) is None:
        raise InputError(
            f"{source.path}: its lines may be texts, or words in {width} columns. Write texts to a "
            ".csv or .jsonl with a column text; of words, name the column: --columns=words=1."
        )
    if labelled is False:
        places.setdefault("tags", -1)  # any, as tags are not read
    notes: dict[str, str] = {}
    if conllu:
        usual = {"words": CONLLU.index("form"), "tags": CONLLU.index("upos")}
    elif names:
        usual = _by_header(source.path, names, places)
    else:
        usual = _by_content(source.path, body, rows, places, notes)
    places = usual | places
    has_tags = asked or bool(rows and len(rows[0]) > max(places["tags"], 1))
    shown = _ROLES if has_tags and labelled is not False else _ROLES[:1]
    description = _describe(body, {role: places[role] for role in shown}, names, notes)
    return WordColumns(places["words"], places["tags"], header, has_tags, width, description)


def of_table(source: Source, row: TableRow, labelled: bool | None) -> dict[str, str] | None:
    """The columns of a table with a word per row, and one that numbers or marks its sentences.

    Returns:
      `sentence`, `words` and perhaps `tags`; None: the rows are not words.

    Raises:
      InputError: a column is missing, or the tags are in one of several.
    """
    given = {**source.usual, **source.columns}
    names = {name.strip().lower(): name for name in row.values}

    def find(role: str, usual: Sequence[str]) -> str | None:
        chosen = given.get(role)
        if chosen and (role in source.columns or row.has(chosen)):
            row.get(chosen)
            return chosen
        return next((names[name] for name in usual if name in names), None)

    if {*_WORDS}.isdisjoint(names) and not {"sentence", "words"} <= given.keys():
        return None
    roles = {"sentence": find("sentence", _SENTENCES), "words": find("words", _WORDS)}
    if None in roles.values() or isinstance(row.get(str(roles["words"])), list):
        return None
    if "sentence" not in given and len(row.text(str(roles["words"])).split()) > 1:
        return None  # a sentence per row, with a number
    if labelled is not False:
        roles["tags"] = find("tags", _TAGS)
        if roles["tags"] is None and not labelled:
            del roles["tags"]
    return source.check(row, roles)


def _is_header(names: Sequence[str], source: Source) -> bool:
    if source.header is not None:
        return source.header
    columns = [*source.usual.values(), *source.chosen.values()]
    asked = {column.lower() for column in columns if not column.isdecimal()}
    usual = not set(_WORDS).isdisjoint(names) and not set(_TAGS).isdisjoint(names)
    return usual or not asked.isdisjoint(names)


def _place(role: str, column: str, names: Sequence[str]) -> int:
    """Returns the index of a column that the user chose."""
    number = table_rows.whole_number(column)
    if role in _ROLES and column.lower() in names:
        return names.index(column.lower())
    if role not in _ROLES or not number:
        known = f" or one of {', '.join(names)}" if names else ""
        raise InputError(
            f"--columns={role}={column}: in a file with a word per line, words and tags are named "
            f"by number{known}, such as --columns=words=1,tags=4."
        )
    return number - 1


def _by_header(path: str, names: Sequence[str], chosen: Mapping[str, int]) -> dict[str, int]:
    """Returns the columns that a header names."""
    word = next((index for index, name in enumerate(names) if name in _WORDS), 0)
    tags = [index for index, name in enumerate(names) if name in _TAGS]
    if len(tags) > 1 and "tags" not in chosen:
        listed = " or ".join(names[index] for index in tags)
        raise InputError(
            f"{path}: which column has the tags, {listed}? Name it with "
            f"--columns=tags={names[tags[-1]]}."
        )
    return {"words": word, "tags": tags[0] if tags else -1}


def _by_content(
    path: str,
    body: Sequence[Sequence[str] | None],
    rows: Sequence[Sequence[str]],
    chosen: Mapping[str, int],
    notes: dict[str, str],
) -> dict[str, int]:
    """Returns the columns of a file without a header; adds what is unusual to `notes`."""
    width = len(rows[0]) if rows and all(len(cells) == len(rows[0]) for cells in rows) else 0
    found = {"words": 0, "tags": -1}
    counted = "words" not in chosen and _counts(body)
    if counted:
        found["words"] = 1
        notes["words"] = " (column 1 counts them)"
    types = _types(rows, width - 1) if width else None
    # Two columns leave none for a tag; many are a treebank, whose last column is rarely a tag.
    if counted and "tags" not in chosen and (width == 2 or (width > 4 and types is None)):
        cells = ", ".join(f"{n} ({cell})" for n, cell in enumerate(rows[0], 1))
        raise InputError(
            f"{path}: column 1 counts lines; which columns have words and tags? The first line is "
            f"{cells}. Name them with --columns=words=NUMBER,tags=NUMBER; CoNLL-U is read as such "
            "where the name ends in .conllu."
        )
    if types is not None and "tags" not in chosen:
        found["tags"] = _outermost(path, rows, width, max(found["words"], chosen.get("words", 0)))
        if found["tags"] < width - 1:
            others = ", ".join(str(n) for n in range(found["tags"] + 2, width + 1))
            notes["tags"] = f" (nested or other tags, not read: column {others})"
    return found


def _counts(body: Iterable[Sequence[str] | None]) -> bool:
    """Returns whether the first column counts the words of each sentence, or the lines."""
    before, rows = None, 0
    for cells in body:
        number = table_rows.whole_number(cells[0]) if cells else None
        if cells and (number is None or (before is not None and number != before + 1)):
            return False
        rows += number is not None
        before = number
    return rows >= _MIN_COUNTED


def _types(rows: Iterable[Sequence[str]], column: int) -> set[str] | None:
    """Returns the entity types of a column, such as LOC; None if its tags are not IOB."""
    matches = [_IOB.fullmatch(cell) for cell in {cells[column] for cells in rows}]
    if not all(matches):
        return None
    return {match[1] for match in matches if match and match[1]}


def _outermost(path: str, rows: Sequence[Sequence[str]], width: int, word: int) -> int:
    """Returns the first of the last columns with tags of similar entities."""
    column = width - 1
    while column - 1 > word:
        outer, inner = _types(rows, column - 1), _types(rows, column)
        assert inner is not None
        if not outer or (inner and outer <= _CHUNKS):
            break
        if not any(one.startswith(other) for one in inner for other in outer):
            raise InputError(
                f"{path}: columns {column} and {column + 1} both have tags; name the one to learn "
                f"with --columns=tags={column} or --columns=tags={column + 1}."
            )
        column -= 1
    return column


def _describe(
    body: Iterable[Sequence[str] | None],
    places: Mapping[str, int],
    names: Sequence[str],
    notes: Mapping[str, str],
) -> str:
    """Returns how a file is read, with its first sentence."""
    sentence: list[Sequence[str]] = []
    for cells in body:
        if cells:
            sentence.append(cells)
        elif sentence:
            break
    columns, values = [], []
    for role, place in places.items() if sentence else ():
        number = place + 1 if place >= 0 else len(sentence[0])
        name = f" ({names[number - 1]})" if number <= len(names) else ""
        columns.append(f"{role} = column {number}{name}{notes.get(role, '')}")
        text = " ".join(cells[place] for cells in sentence if place < len(cells))
        values.append(f"{role} {text[:_MAX_SAMPLE]!r}")
    return f"a word per line; {', '.join(columns)}; first sentence: {', '.join(values)}"
