"""Files of sentences that are given by their words, in any of the layouts that tagging reads."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.common import files
from pipelines.common.errors import InputError
from pipelines.labelled import conll, tables, user_files
from pipelines.labelled.columns import ColumnNames
from pipelines.labelled.schema import WordsExample

_ENDINGS = (".conll", ".conllu")  # of files that have nothing else
_ROLES = {"id", "words", "tags"}


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
        unused = sorted(self._names.chosen.keys() - _ROLES)
        if unused:
            raise InputError(
                f"--columns: {unused[0]!r} is no role of a column here; roles are words, tags and "
                "id."
            )
        return iterate(self.path, self._names, None)

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


def claims(path: str) -> bool:
    """Whether the name of a file tells that it has words."""
    return tables.ending(path) in _ENDINGS


def iterate(path: str, names: ColumnNames, labelled: bool | None) -> Iterator[WordsExample]:
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


def check(source: WordsFile) -> int:
    """Reads a file to its end, so that what is wrong with it is known before anything is done.

    Returns:
      The number of its sentences.

    Raises:
      InputError: as for reading them.
    """
    return sum(1 for _ in source)
