"""Files of texts, or of sentences of words, that are read as a stream."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from absl import logging

from pipelines.common import files, texts
from pipelines.common.errors import InputError
from pipelines.labelled import columnar, conll, labelled_lines, tables, text_lines, user_files
from pipelines.labelled.schema import TextExample, WordsExample
from pipelines.labelled.source import Source
from pipelines.labelled.table_rows import TableRow

# Characters of a block, and the minimum that each text counts as. A block has enough texts for some
# full batches of similar lengths, and little is repeated after a kill.
BLOCK = 1 << 20
_MIN_CHARACTERS = 256
ExampleT = TypeVar("ExampleT", bound=TextExample | WordsExample)
_TABLES = (".tsv", *tables.ENDINGS)
_WORD_FILES = (".conll", ".conllu")


def _check_roles(source: Source, known: Sequence[str], shown: str) -> None:
    unused = sorted(source.chosen.keys() - set(known))
    if unused:
        raise InputError(
            f"--columns: {unused[0]!r} is not a role of a column here; roles are {shown}."
        )


def _identity(source: Source, labelled: bool) -> dict[str, Any]:
    """Returns what decides the contents, except for the path, as JSON values."""
    encoding = {} if source.encoding == texts.UTF8 else {"encoding": source.encoding}
    part = text_lines.split_part(source.path)[1]
    info = columnar.info_beside(source.path)
    named = labelled and text_lines.ending(source.path) in columnar.ENDINGS
    return {
        "sha256": tables.sha256(source.path),
        "label_names_sha256": files.sha256(info) if named and files.gfile.exists(info) else None,
        "columns": dict(source.columns),
        "header": source.header,
        **encoding,
        **({"part": part} if part else {}),
    }


@dataclasses.dataclass(frozen=True)
class TextFile(Source):
    """A file of texts or pairs of texts; iterating yields them.

    A file is a table if its extension says so, or columns are named; otherwise each line is a text,
    even an empty one. Roles of columns are `text`, or `text_a` and `text_b` for pairs, and `id`.
    The key of a text is its id, if there is such a column; otherwise the number of its row or line,
    from 0. `pair_separator` separates two texts of a line; the last one counts.
    """

    pair_separator: str | None = None
    labelled: bool = False  # whether labels are read if there is a column of labels

    def __iter__(self) -> Iterator[TextExample]:
        """Yields all texts; raises InputError for a bad file, or a missing or ambiguous column."""
        return self._rows() if self.is_table else self._lines()

    @property
    def is_table(self) -> bool:
        """Whether the file is read by rows and columns."""
        named = bool(self.columns) or self.header is not None
        return named or text_lines.ending(self.path) in _TABLES

    def identity(self) -> dict[str, Any]:
        """What decides the contents, except for the path, as JSON values."""
        separator = {"pair_separator": self.pair_separator} if self.pair_separator else {}
        return _identity(self, self.labelled) | separator

    def _lines(self) -> Iterator[TextExample]:
        number = 0
        for number, line in enumerate(text_lines.read_lines(self.path, self.encoding), 1):
            first, second = line.removesuffix("\n").rstrip("\r"), None
            if self.pair_separator and self.pair_separator in first:
                first, _, second = first.rpartition(self.pair_separator)
            yield TextExample(str(number - 1), f"{self.path}: line {number}", first, second)
        if not number:
            raise InputError(f"{self.path}: is empty.")

    def _rows(self) -> Iterator[TextExample]:
        roles = self.chosen.keys()
        others = ("label", "id") if self.labelled else ("id",)
        _check_roles(
            self,
            ("text", "text_a", "text_b", *others),
            f"text, or text_a and text_b, and {' and '.join(others)}",
        )
        if self.pair_separator:
            raise InputError(
                f"--pair_separator: {self.path} is a table; name the columns of its pairs: "
                "--columns=text_a=NAME,text_b=NAME."
            )
        pair = "text_a" in roles or "text_b" in roles
        if pair and ("text" in roles or not {"text_a", "text_b"} <= roles):
            raise InputError("--columns: name either text, or both text_a and text_b.")
        rows = tables.read_rows(self)
        if not pair and "text" not in roles:
            first = next(rows)
            self._check_single(first)
            rows = itertools.chain([first], rows)
        labelled = None if self.labelled else False
        return user_files.read_texts(self, pair, labelled, rows)

    def _check_single(self, row: TableRow) -> None:
        """Raises InputError if two columns may have the text, and none was named."""
        if self.is_pair(row):
            first, second = self.need("text_a", row), self.need("text_b", row)
            raise InputError(
                f"{self.path}: has two columns of texts, {first!r} and {second!r}; name one with "
                f"--columns=text={first}, or both, to read them as pairs, with "
                f"--columns=text_a={first},text_b={second}."
            )


@dataclasses.dataclass(frozen=True)
class WordsFile(Source):
    """A file of sentences of words, in any layout that tagging reads; iterating yields them.

    Roles of columns, by name or number, are `words`, `tags`, and, in a table, `id` and `sentence`;
    or `text` and `entities`.
    """

    def __iter__(self) -> Iterator[WordsExample]:
        """Yields all sentences, with tags if there are any; raises InputError for a bad file."""
        roles = ("sentence", "words", "tags", "id", "text", "entities")
        _check_roles(self, roles, f"{', '.join(roles[:-1])} and {roles[-1]}")
        return read_words(self, None)

    def identity(self) -> dict[str, Any]:
        return _identity(self, True) | {"words": True}


def check(source: TextFile | WordsFile) -> int:
    """Reads a file completely, so that errors are found before anything is computed.

    Returns the number of texts or sentences; raises InputError as iterating does.
    """
    count = 0
    examples: Iterable[TextExample | WordsExample] = source
    has_lines = isinstance(source, TextFile) and not source.is_table
    for count, example in enumerate(examples, 1):
        if count == 1 and has_lines and "\t" in getattr(example, "text_a", ""):
            logging.warning(
                "%s: its lines have tabs, and each is read as one text. To read it as a table, "
                "name a column by number: --columns=text=1.",
                source.path,
            )
    return count


def blocks(examples: Iterable[ExampleT]) -> Iterator[list[ExampleT]]:
    """Yields blocks of texts: about a million characters, at most 4,096 texts."""
    return texts.blocks(examples, _weight, BLOCK)


def _weight(example: TextExample | WordsExample) -> int:
    """Returns the number of characters, at least _MIN_CHARACTERS."""
    if isinstance(example, WordsExample):
        return max(_MIN_CHARACTERS, sum(map(len, example.words)))
    return max(_MIN_CHARACTERS, len(example.text_a) + len(example.text_b or ""))


def is_word_file(path: str) -> bool:
    """Returns whether the extension of a file means that it has words."""
    return text_lines.ending(path) in _WORD_FILES


def read_words(source: Source, labelled: bool | None) -> Iterator[WordsExample]:
    """Yields the sentences of a file: one word per line, or one sentence per row of a table.

    Tags are read if there are any if `labelled` is None. Raises InputError for a bad file.
    """
    path = source.path
    ending = text_lines.ending(path)
    if (
        ending in tables.ENDINGS
        or labelled_lines.labels_of(path)
        or (ending == ".tsv" and not conll.is_read_by_line(source))
    ):
        return user_files.read_words(source, labelled)
    return conll.read(source, labelled)
