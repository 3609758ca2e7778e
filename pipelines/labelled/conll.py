"""Words and tags in columns: CoNLL-2003 and CoNLL-U files."""

import re
from collections.abc import Iterator

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


def read(path: str, labelled: bool = True) -> list[WordsExample]:
    """Reads the sentences of a file.

    A file of CoNLL-U is known by its name (.conllu): words are FORM, tags UPOS;
    of others the word is the first column and the tag the last; tabs separate
    the columns of a line that has any, else spaces do.

    Args:
      path: the file.
      labelled: whether it has tags.

    Raises:
      InputError: a line has too few columns; it is named.
    """
    lines = _conllu_lines if tables.ending(path) == ".conllu" else _plain_lines
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

    for number, cells in lines(path, labelled):
        if cells is None:
            end()
        elif cells[0] == _DOCUMENT:
            end()
            document += 1
        else:
            first = first if words else number
            words.append(cells[0])
            tags.append(cells[1])
    end()
    if not found:
        raise InputError(f"{path}: has no sentences.")
    return found


def _plain_lines(path: str, labelled: bool) -> Iterator[tuple[int, tuple[str, str] | None]]:
    for number, line in enumerate(tables.read_text(path).split("\n"), 1):
        cells = _plain_cells(line)
        if not cells:
            yield number, None
            continue
        if labelled and len(cells) < 2:
            raise InputError(f"{path}: line {number}: has too few columns: a word, but no tag.")
        yield number, (cells[0], cells[-1])


def _plain_cells(line: str) -> list[str]:
    # Other white space, such as a no-break space, is a part of a word.
    line = line.strip(" \t\r")
    return re.split(" *\t *" if "\t" in line else " +", line) if line else []


def _conllu_lines(path: str, labelled: bool) -> Iterator[tuple[int, tuple[str, str] | None]]:
    for number, line in enumerate(tables.read_text(path).split("\n"), 1):
        line = line.rstrip("\r")
        if line.startswith("# newdoc"):
            yield number, (_DOCUMENT, "")
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
                yield number, (cells[_FORM], cells[_TAG])
