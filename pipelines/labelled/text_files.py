"""Texts without labels, one after the other: a line each, or columns of a table."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from absl import logging

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.labelled import conll, tables, user_files
from pipelines.labelled.columns import ColumnNames
from pipelines.labelled.schema import TextExample, WordsExample

# What a block has in characters, and each text counts as at the least: enough for some full batches
# of like lengths, and little to do again where a run was killed.
BLOCK = 1 << 20
_LEAST = 256
ExampleT = TypeVar("ExampleT", bound=TextExample | WordsExample)
_TABLES = (".tsv", ".csv", ".jsonl", ".json")


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A file of texts, or of pairs of texts, of which some at a time are in memory.

    A file is a table by its ending, or where its columns are named; of any other file each line
    is a text, an empty one too. The key of a text is its id, where there is such a column, else
    its number from 0: that of its row, or of its line less one.

    Attributes:
      path: of a UTF-8 file, plain or gzipped.
      columns: names of columns by role: `text`, or `text_a` and `text_b` of pairs; `id`.
      header: whether the first line of a table names its columns; None: as it looks.
      pair_separator: what stands between two texts of one line; the last one counts. Lines
        without it are single texts. None: each line is.
      labelled: whether labels are read where there is a column of them.
    """

    path: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    header: bool | None = None
    pair_separator: str | None = None
    labelled: bool = False

    def __iter__(self) -> Iterator[TextExample]:
        """Yields all texts.

        Raises:
          InputError: the file is missing, empty or damaged, is not UTF-8, a column is missing, or
            which one has the text is left open.
        """
        return self._rows() if self.is_table else self._lines()

    @property
    def is_table(self) -> bool:
        """Whether it is read by rows and columns."""
        named = bool(self.columns) or self.header is not None
        return named or tables.ending(self.path) in _TABLES

    def identity(self) -> dict[str, Any]:
        """What the texts follow from, but for the path, as JSON values."""
        found = {
            "input_sha256": files.sha256(self.path),
            "columns": dict(self.columns),
            "header": self.header,
        }
        return found | ({"pair_separator": self.pair_separator} if self.pair_separator else {})

    def _lines(self) -> Iterator[TextExample]:
        number = 0
        for number, line in enumerate(tables.read_lines(self.path), 1):
            text = line.removesuffix("\n").rstrip("\r")
            yield TextExample(str(number - 1), f"{self.path}: line {number}", *self._split(text))
        if not number:
            raise InputError(f"{self.path}: is empty.")

    def _split(self, text: str) -> tuple[str, str | None]:
        """The text of a line, or the two texts."""
        if not self.pair_separator or self.pair_separator not in text:
            return text, None
        first, _, second = text.rpartition(self.pair_separator)
        return first, second

    @functools.cached_property
    def _names(self) -> ColumnNames:
        return ColumnNames(self.columns, header=self.header)

    def _rows(self) -> Iterator[TextExample]:
        columns = self._names
        roles = columns.chosen.keys()
        others = ("label", "id") if self.labelled else ("id",)
        unused = sorted(roles - {"text", "text_a", "text_b", *others})
        if unused:
            raise InputError(
                f"--columns: {unused[0]!r} is no role of a column here; roles are text, or text_a "
                f"and text_b, and {' and '.join(others)}."
            )
        if self.pair_separator:
            raise InputError(
                f"--pair_separator: {self.path} is a table; name the columns of its pairs: "
                "--columns=text_a=NAME,text_b=NAME."
            )
        pair = "text_a" in roles or "text_b" in roles
        if pair and ("text" in roles or not {"text_a", "text_b"} <= roles):
            raise InputError("--columns: name either text, or both text_a and text_b.")
        if not pair and "text" not in roles:
            self._check_single(columns)
        labelled = None if self.labelled else False
        return user_files.iterate_texts(self.path, columns, pair, labelled)

    def _check_single(self, columns: ColumnNames) -> None:
        """Raises InputError where two columns may have the text, and none was named."""
        row = next(columns.iterate(self.path))
        if columns.is_pair(row):
            first, second = columns.need("text_a", row), columns.need("text_b", row)
            raise InputError(
                f"{self.path}: has two columns of texts, {first!r} and {second!r}; name one with "
                f"--columns=text={first}, or both, to take them as pairs, with "
                f"--columns=text_a={first},text_b={second}."
            )


def check(source: "TextFile | WordsFile") -> int:
    """Reads a file to its end, so that what is wrong with it is known before anything is done.

    Returns:
      The number of its texts.

    Raises:
      InputError: as for reading them.
    """
    count = 0
    examples: Iterable[TextExample | WordsExample] = source
    is_line_file = isinstance(source, TextFile) and not source.is_table
    for count, example in enumerate(examples, 1):
        if count == 1 and is_line_file and "\t" in getattr(example, "text_a", ""):
            logging.warning(
                "%s: its lines have tabs, and each is taken as one text. To read it as a table, "
                "name a column by number: --columns=text=1.",
                source.path,
            )
    return count


def blocks(examples: Iterable[ExampleT]) -> Iterator[list[ExampleT]]:
    """Yields texts some at a time: about a million characters, 4,096 texts at the most."""
    block: list[ExampleT] = []
    size = 0
    for example in examples:
        block.append(example)
        size += max(_characters(example), _LEAST)
        if size >= BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def _characters(example: TextExample | WordsExample) -> int:
    if isinstance(example, WordsExample):
        return sum(map(len, example.words))
    return len(example.text_a) + len(example.text_b or "")


def split(examples: Sequence[TextExample]) -> tuple[list[str], list[str] | None]:
    """The texts of some rows; of pairs, the first and the second ones."""
    first = [example.text_a for example in examples]
    second = [example.text_b for example in examples if example.text_b is not None]
    return first, second or None


_WORD_ENDINGS = (".conll", ".conllu")  # of files that have nothing else
_WORD_ROLES = {"id", "words", "tags"}


@dataclasses.dataclass(frozen=True)
class WordsFile:
    """A file of sentences of words, of which some at a time are in memory.

    Attributes:
      path: of a UTF-8 file, plain or gzipped.
      columns: names, or numbers, of columns by role: `words`, `tags`, and `id` of a table.
      header: whether the first line of a table names its columns; None: as it looks.
    """

    path: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    header: bool | None = None

    def __iter__(self) -> Iterator[WordsExample]:
        """Yields all sentences, with their tags where there are any.

        Raises:
          InputError: the file is missing, empty or damaged, is not UTF-8, or a column is missing.
        """
        unused = sorted(self._names.chosen.keys() - _WORD_ROLES)
        if unused:
            raise InputError(
                f"--columns: {unused[0]!r} is no role of a column here; roles are words, tags and "
                "id."
            )
        return iterate_words(self.path, self._names, None)

    @functools.cached_property
    def _names(self) -> ColumnNames:
        return ColumnNames(self.columns, header=self.header)

    def identity(self) -> dict[str, Any]:
        """What the sentences follow from, but for the path, as JSON values."""
        return {
            "input_sha256": files.sha256(self.path),
            "columns": dict(self.columns),
            "header": self.header,
            "words": True,
        }


def is_word_file(path: str) -> bool:
    """Whether the name of a file tells that it has words."""
    return tables.ending(path) in _WORD_ENDINGS


def iterate_words(path: str, names: ColumnNames, labelled: bool | None) -> Iterator[WordsExample]:
    """Yields the sentences of a file: a word a line, or a sentence a row of a table.

    Args:
      path: the file.
      names: of its columns.
      labelled: whether to read tags; None: where there are any.

    Raises:
      InputError: the file is damaged, or lacks a column.
    """
    ending = tables.ending(path)
    if ending in (".jsonl", ".json", ".csv") or (
        ending == ".tsv" and not conll.is_read_by_line(path)
    ):
        return user_files.iterate_words(path, names, labelled)
    places = conll.find_columns(path, names, labelled)
    names.log_once(path, places.description)
    return conll.iterate(path, places.has_tags if labelled is None else labelled, places)
