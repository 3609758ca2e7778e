"""Words and tags in columns: CoNLL-2003 and CoNLL-U files."""

import re
from collections.abc import Iterator, Mapping, Sequence

from pipelines.common.errors import InputError
from pipelines.labelled import tables
from pipelines.labelled.schema import WordsExample

# The tags of Universal Dependencies.
UPOS = tuple(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
)
_DOCUMENT = "-DOCSTART-"
_TAG = 3  # column of CoNLL-U
_FORM = 1
_CONLLU_COLUMNS = 10


def read(
    path: str, labelled: bool = True, columns: Mapping[str, str] | None = None
) -> list[WordsExample]:
    """Reads the sentences of a file.

    A file of CoNLL-U is known by its name (.conllu): words are FORM, tags UPOS;
    of others the word is the first column and the tag the last; tabs separate
    the columns of a line that has any, else spaces do. Comments before a
    sentence (lines that begin with #, and are laid out otherwise than its
    words) are left out.

    Args:
      path: the file.
      labelled: whether it has tags.
      columns: the numbers, from 1, of the columns of "words" and "tags", where they are others.

    Raises:
      InputError: a line has too few columns; it is named.
    """
    is_conllu = tables.ending(path) == ".conllu"
    word, tag = _places(columns or {}, (_FORM, _TAG) if is_conllu else (0, -1))
    lines = _conllu_lines(path) if is_conllu else _plain_lines(path)
    found: list[WordsExample] = []
    words: list[str] = []
    tags: list[str] = []
    document, first = 0, 0

    def end() -> None:
        if words:
            place = f"{path}: line {first}"
            known = tuple(tags) if labelled else None
            found.append(WordsExample(str(len(found)), place, tuple(words), known, document))
            words.clear()
            tags.clear()

    for number, cells in lines:
        if cells is None:
            end()
        elif cells[0] == _DOCUMENT:
            end()
            document += 1
        else:
            first = first if words else number
            words.append(_cell(cells, word, f"{path}: line {number}"))
            if labelled:
                tags.append(_cell(cells, tag, f"{path}: line {number}"))
    end()
    if not found:
        raise InputError(f"{path}: has no sentences.")
    return found


def is_read_by_line(path: str) -> bool:
    """Whether a table has a word a line and blank lines between sentences, and names no columns."""
    lines = tables.read_text(path).strip("\r\n").split("\n")
    header = {cell.strip().lower() for cell in lines[0].split("\t")}
    return "words" not in header and any(not line.strip(" \t\r") for line in lines)


def _places(columns: Mapping[str, str], usual: tuple[int, int]) -> tuple[int, int]:
    """Where words and tags stand in a line."""
    places = dict(zip(("words", "tags"), usual, strict=True))
    for role, column in columns.items():
        number = tables.whole_number(column)
        if role not in places or not number:
            raise InputError(
                f"--columns={role}={column}: of files of words in columns without names, words and "
                "tags are named by number, such as --columns=words=1,tags=4."
            )
        places[role] = number - 1
    return places["words"], places["tags"]


def _cell(cells: Sequence[str], place: int, where: str) -> str:
    """A cell; of a line of one column, it is that of words only."""
    if place >= len(cells) or (place < 0 and len(cells) < 2):
        few = "a word, but no tag" if len(cells) < 2 else f"{len(cells)}, not {place + 1}"
        raise InputError(
            f"{where}: has too few columns: {few}; write one word a line, and its tag behind it."
        )
    return cells[place]


def _plain_lines(path: str) -> Iterator[tuple[int, list[str] | None]]:
    lines = tables.read_text(path).split("\n")
    inside = False  # a sentence
    for number, line in enumerate(lines, 1):
        cells = _plain_cells(line)
        if not inside and _is_comment(cells, lines, number):
            continue
        inside = bool(cells) and cells[0] != _DOCUMENT
        yield number, cells or None


def _is_comment(cells: list[str], lines: list[str], following: int) -> bool:
    """Whether a line before a sentence is laid out otherwise than the words that follow."""
    if not cells or not cells[0].startswith("#"):
        return False
    if " " in cells[0]:  # no word has one
        return True
    behind = (_plain_cells(line) for line in lines[following:])
    word = next((other for other in behind if not other or other[0][0] != "#"), None)
    return not word or len(word) != len(cells)


def _plain_cells(line: str) -> list[str]:
    # Other white space, such as a no-break space, is a part of a word.
    line = line.rstrip("\r")
    if not line.strip(" \t"):
        return []
    if "\t" not in line:
        return re.split(" +", line.strip(" "))
    cells = line.rstrip(" ").split("\t")
    # Where letters are words, a space is one.
    return [cell.strip(" ") or cell for cell in cells[: len(cells) if cells[-1] else -1]]


def _conllu_lines(path: str) -> Iterator[tuple[int, list[str] | None]]:
    for number, line in enumerate(tables.read_text(path).split("\n"), 1):
        line = line.rstrip("\r")
        if line.startswith("# newdoc"):
            yield number, [_DOCUMENT]
        elif line.startswith("#"):
            continue
        elif not line.strip():
            yield number, None
        else:
            cells = line.split("\t")
            if len(cells) != _CONLLU_COLUMNS:
                raise InputError(
                    f"{path}: line {number}: has {len(cells)} columns, not {_CONLLU_COLUMNS}; "
                    "CoNLL-U separates them by tabs."
                )
            # Tokens of several words (1-2) and empty ones (1.1) carry no tag of their own.
            if cells[0].isdigit():
                yield number, cells
