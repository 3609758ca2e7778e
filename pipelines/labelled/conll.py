"""Words and tags in columns: CoNLL-2003 and CoNLL-U files."""

import collections
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.labelled import tables, word_columns
from pipelines.labelled.columns import ColumnNames
from pipelines.labelled.schema import WordsExample
from pipelines.labelled.word_columns import CONLLU, DOCUMENT, WordColumns

# The tags of Universal Dependencies.
UPOS = tuple(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
)
_LOOKED_AT = 5000  # lines that tell the columns


def read(
    path: str, labelled: bool = True, columns: Mapping[str, str] | None = None
) -> list[WordsExample]:
    """Reads the sentences of a file.

    Tabs separate the columns of a line that has any, else spaces do. Comments before a
    sentence (lines that begin with #, and have other columns than words have)
    are left out.

    Args:
      path: the file.
      labelled: whether it has tags.
      columns: of "words" and "tags"; see `find_columns`.

    Raises:
      InputError: a line has too few columns; it is named.
    """
    names = ColumnNames(columns or {})
    return list(iterate(path, labelled, find_columns(path, names, labelled)))


def find_columns(
    path: str, names: ColumnNames | None = None, labelled: bool | None = None
) -> WordColumns:
    """Finds where words and tags stand.

    A file of CoNLL-U is known by its name (.conllu): words are FORM, tags UPOS.

    Args:
      path: the file.
      names: the columns of "words" and "tags", by number from 1 or by name, as far as the user
        says; None: nothing is said.
      labelled: whether tags are read; None: where there are any.

    Raises:
      InputError: as `word_columns.find`.
    """
    lines = list(itertools.islice(_lines(path), _LOOKED_AT))
    return word_columns.find(path, lines, names or ColumnNames({}), labelled, _is_conllu(path))


def iterate(
    path: str, labelled: bool = True, places: WordColumns | None = None
) -> Iterator[WordsExample]:
    """Yields what `read` reads, a sentence at a time; places are those of `find_columns`."""
    places = places or find_columns(path, labelled=labelled)
    words: list[str] = []
    tags: list[str] = []
    count, document, first = 0, 0, 0
    for number, cells in itertools.chain(_lines(path), [(0, None)]):
        if cells is None or cells[0] == DOCUMENT:
            if words:
                known = tuple(tags) if labelled else None
                place = f"{path}: line {first}"
                yield WordsExample(str(count), place, tuple(words), known, document)
                count += 1
                words.clear()
                tags.clear()
            document += cells is not None
        elif number > places.header:
            first = first if words else number
            words.append(_cell(cells, places.words, f"{path}: line {number}"))
            if labelled:
                tags.append(_cell(cells, places.tags, f"{path}: line {number}"))
    if not count:
        raise InputError(f"{path}: has no sentences.")


def is_read_by_line(path: str) -> bool:
    """Whether a table has a word a line and blank lines between sentences, and names no columns."""
    stripped = (line.strip("\r\n") for line in tables.read_lines(path))
    lines = itertools.dropwhile(lambda line: not line, stripped)
    if "words" in {cell.strip().lower() for cell in next(lines, "").split("\t")}:
        return False
    blank = False  # lines that end a file do not count
    for line in lines:
        if line and (blank or not line.strip(" \t\r")):
            return True
        blank |= not line
    return False


def _is_conllu(path: str) -> bool:
    return tables.ending(path) == ".conllu"


def _cell(cells: Sequence[str], place: int, where: str) -> str:
    """A cell; of a line of one column, it is that of words only."""
    if place >= len(cells) or (place < 0 and len(cells) < 2):
        few = "a word, but no tag" if len(cells) < 2 else f"{len(cells)}, not {place + 1}"
        raise InputError(
            f"{where}: has too few columns: {few}; write one word a line, and its tag behind it."
        )
    return cells[place]


def _lines(path: str) -> Iterator[tuple[int, list[str] | None]]:
    """Yields the number of each line, and its cells: those of a word, or the start of a document.

    None stands for the end of a sentence.
    """
    lines = (line.removesuffix("\n") for line in tables.read_lines(path))
    return _conllu_lines(lines, path) if _is_conllu(path) else _plain_lines(lines)


def _plain_lines(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | None]]:
    following: collections.deque[str] = collections.deque()  # lines that were looked at before
    inside = False  # a sentence
    before = coming = 0  # columns of the last word and of the next; 0: not known
    for number in itertools.count(1):
        line = following.popleft() if following else next(lines, None)
        if line is None:
            return
        cells = _plain_cells(line)
        if _is_certain(cells):
            before, coming = len(cells), 0
        elif not inside and cells and cells[0].startswith("#"):
            # A comment, unless it is laid out as words are.
            coming = coming or _columns_to_come(lines, following) or before or len(cells)
            if " " in cells[0] or len(cells) != coming:  # no word has a space
                continue
        inside = bool(cells) and cells[0] != DOCUMENT
        yield number, cells or None


def _is_certain(cells: Sequence[str]) -> bool:
    """Whether the cells of a line are those of a word, which does not look like a comment."""
    return bool(cells) and cells[0] != DOCUMENT and not cells[0].startswith("#")


def _columns_to_come(lines: Iterator[str], following: collections.deque[str]) -> int:
    """The columns of the next word that does not look like a comment; 0 if there is none.

    Lines that are read to tell it are kept in `following`.
    """
    known = len(following)
    for index, line in enumerate(itertools.chain(tuple(following), lines)):
        if index >= known:
            following.append(line)
        cells = _plain_cells(line)
        if _is_certain(cells):
            return len(cells)
    return 0


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


def _conllu_lines(lines: Iterator[str], path: str) -> Iterator[tuple[int, list[str] | None]]:
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r")
        if line.startswith("# newdoc"):
            yield number, [DOCUMENT]
        elif line.startswith("#"):
            continue
        elif not line.strip():
            yield number, None
        else:
            cells = line.split("\t")
            if len(cells) != len(CONLLU):
                raise InputError(
                    f"{path}: line {number}: has {counted(len(cells), 'column')}, not "
                    f"{len(CONLLU)}; "
                    "CoNLL-U separates them by tabs."
                )
            # Tokens of several words (1-2) and empty ones (1.1) carry no tag of their own.
            if cells[0].isdigit():
                yield number, cells
