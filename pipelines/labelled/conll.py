"""Reads words and tags in columns: CoNLL-2003 and CoNLL-U files."""

import collections
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from pipelines.common.errors import InputError
from pipelines.common.texts import counted
from pipelines.labelled import text_lines, word_columns
from pipelines.labelled.schema import WordsExample
from pipelines.labelled.source import Source
from pipelines.labelled.word_columns import CONLLU, DOCUMENT, Line, WordColumns

# The tags of Universal Dependencies.
UPOS = tuple(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
)
_METADATA = re.compile(r"# *\w+( \w+)? *= |# new(doc|par)\b")  # of CoNLL-U
_HEAD = 5000  # lines that decide the columns


def read(source: Source, labelled: bool | None = True) -> Iterator[WordsExample]:
    """Yields the sentences of a file; tags are read if there are any if `labelled` is None.

    Columns are separated by tabs in a line that has any, otherwise by spaces. Comments before a
    sentence (lines that begin with #, and have other columns than words have, or metadata as in
    CoNLL-U) are ignored. Words are FORM and tags UPOS in .conllu files; in others, columns
    are named by number from 1, or by name.

    Raises:
      InputError: a line has too few columns, or others than the first word if none is named; or a
        column is unknown or ambiguous.
    """
    path, encoding = source.path, source.encoding
    head = list(itertools.islice(_lines(path, encoding), _HEAD))
    places = word_columns.find(source, head, labelled, _is_conllu(path))
    source.log_once(places.description)
    lines: Iterator[Line] = itertools.chain(_lines(path, encoding), [(0, None)])
    return _sentences(path, lines, places.has_tags if labelled is None else labelled, places)


def _sentences(
    path: str, lines: Iterable[Line], labelled: bool, places: WordColumns
) -> Iterator[WordsExample]:
    words: list[str] = []
    tags: list[str] = []
    count, document, first = 0, 0, 0
    for number, cells in lines:
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
            if places.width and len(cells) != places.width:
                raise InputError(
                    f"{path}: line {number}: has {counted(len(cells), 'column')}, but the first "
                    f"word has {places.width}; write one word per line, and its tag after it, or "
                    "name the columns: --columns=words=1,tags=2. Texts are read from a .csv or "
                    ".jsonl with a column text."
                )
            first = first if words else number
            words.append(_cell(cells, places.words, f"{path}: line {number}"))
            if labelled:
                tags.append(_cell(cells, places.tags, f"{path}: line {number}"))
    if not count:
        raise InputError(f"{path}: has no sentences.")


def is_read_by_line(source: Source) -> bool:
    """Returns whether a .tsv has a word per line (blank lines after sentences) and no header.

    It may be one sentence: several lines of several cells, none of which has a space.
    """
    stripped = (line.strip("\r\n") for line in text_lines.read_lines(source.path, source.encoding))
    lines = itertools.dropwhile(lambda line: not line, stripped)
    first = next(lines, "")
    if "words" in {cell.strip().lower() for cell in first.split("\t")}:
        return False
    blank, count = False, 1  # blank lines at the end do not count
    are_words = "\t" in first and " " not in first
    for line in lines:
        if line and (blank or not line.strip(" \t\r")):
            return True
        blank |= not line
        count += bool(line)
        are_words &= not line or ("\t" in line and " " not in line)
    is_header = source.header or source.has_names(first.split("\t"))
    if found := are_words and count > 1 and not is_header and "sentence" not in source.chosen:
        message = "a word in each line and no blank one: a single sentence; otherwise use --header."
        source.log_once(message, "lines")
    return found


def _is_conllu(path: str) -> bool:
    return text_lines.ending(path) == ".conllu"


def _cell(cells: Sequence[str], place: int, where: str) -> str:
    """Returns a cell of a line; the only cell of a line is its word, not its tag."""
    if place >= len(cells) or (place < 0 and len(cells) < 2):
        few = "a word, but no tag" if place < 0 else f"{len(cells)}, not {place + 1}"
        raise InputError(
            f"{where}: has too few columns: {few}; write one word per line, and its tag after it."
        )
    return cells[place]


def _lines(path: str, encoding: str) -> Iterator[tuple[int, list[str] | None]]:
    """Yields the number and the cells of each word; None or DOCUMENT ends a sentence."""
    lines = (line.removesuffix("\n") for line in text_lines.read_lines(path, encoding))
    return _conllu_lines(lines, path) if _is_conllu(path) else _plain_lines(lines)


def _plain_lines(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | None]]:
    following: collections.deque[str] = collections.deque()  # lines that were read ahead
    inside = False  # a sentence
    before = coming = ""  # the last and the next line that is certain to have a word
    for number in itertools.count(1):
        line = following.popleft() if following else next(lines, None)
        if line is None:
            return
        cells = _plain_cells(line)
        if _is_certain(cells):
            before, coming = line, ""
        elif not inside and cells and cells[0].startswith("#"):
            coming = coming or _line_to_come(lines, following) or before or line
            if _is_comment(line, coming):
                continue
        inside = bool(cells) and cells[0] != DOCUMENT
        yield number, cells or None


def _is_comment(line: str, word: str) -> bool:
    """Returns whether a line that begins with # is not a word, given a line that has one."""
    cells = _plain_cells(line)
    has_columns = len(cells) == len(_plain_cells(word)) and ("\t" in line) == ("\t" in word)
    # Words have no spaces.
    return not has_columns or " " in cells[0] or _METADATA.match(line) is not None


def _is_certain(cells: Sequence[str]) -> bool:
    """Returns whether the cells are those of a word that does not look like a comment."""
    return bool(cells) and cells[0] != DOCUMENT and not cells[0].startswith("#")


def _line_to_come(lines: Iterator[str], following: collections.deque[str]) -> str:
    """Returns the next line that certainly has a word, or ""; lines read go to `following`."""
    known = len(following)
    for index, line in enumerate(itertools.chain(tuple(following), lines)):
        if index >= known:
            following.append(line)
        if _is_certain(_plain_cells(line)):
            return line
    return ""


def _plain_cells(line: str) -> list[str]:
    # Other white space, such as a no-break space, is a part of a word.
    line = line.rstrip("\r")
    if not line.strip(" \t"):
        return []
    if "\t" not in line:
        return re.split(" +", line.strip(" "))
    cells = line.rstrip(" ").split("\t")
    # If letters are words, a space is one, too.
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
                    f"{len(CONLLU)}; CoNLL-U separates them by tabs."
                )
            # Multiword tokens (1-2) and empty nodes (1.1) have no tag.
            if cells[0].isdigit():
                yield number, cells
