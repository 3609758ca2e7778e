"""Reads texts to train embeddings on: alone, with classes, in pairs, or with negatives."""

import math
from collections.abc import Iterator

from pipelines.common.errors import InputError
from pipelines.labelled import tables, text_files
from pipelines.labelled.schema import EmbeddingExample
from pipelines.labelled.source import Source
from pipelines.labelled.table_rows import TableRow
from pipelines.labelled.user_files import text_roles, texts_of


def read(source: Source, labelled: bool) -> Iterator[EmbeddingExample]:
    """Yields the examples of a table, or of a file with one text per line.

    A row has one text, perhaps with a class as its label; or two that are alike (text_a and
    text_b), with a number as the label if some are more alike than others; and perhaps a third
    that is not like the first (negative). A list of negatives gives an example for each.

    Raises:
      InputError: a column is missing, a text is empty, or the label of a pair is not a number.
    """
    lines = text_files.TextFile(source.path, source.chosen, source.header, source.encoding)
    if not lines.is_table:
        text_files.check(lines)  # warns of tabs
        for line in lines:
            if line.text_a.strip():
                yield EmbeddingExample(
                    line.key, line.place, (line.text_a,), "" if labelled else None
                )
        return
    for index, row in enumerate(tables.read_rows(source)):
        if not index:
            pair, negative = source.is_pair(row), source.find("negative", row)
            roles = text_roles(source, row, pair or negative is not None)
            label = None if negative or not labelled else source.find("label", row)
            roles |= {"negative": negative} if negative else {}
            roles |= {"label": label} if label else {}
            found = source.check(row, roles)
        texts = tuple(text for text in texts_of(row, found) if text is not None)
        value = row.text(label) if label else ""
        if label:
            _check_label(row, value, pair)
        negatives = row.texts(negative) if negative else ()
        if negative and not negatives:
            raise InputError(
                f"{row.place}: {negative} is empty; give a text, or leave the row out."
            )
        for more in negatives or [None]:
            every = texts if more is None else (*texts, more)
            key = source.key(row, index)
            yield EmbeddingExample(key, row.place, every, value if labelled else None)


def _check_label(row: TableRow, value: str, pair: bool) -> None:
    """Raises InputError for an empty class, or a similarity that is not a number."""
    if not value:
        raise InputError(f"{row.place}: the label is empty.")
    if not pair:
        return
    try:
        known = "_" not in value and math.isfinite(float(value))
    except ValueError:
        known = False
    if not known:
        raise InputError(
            f"{row.place}: the label {value!r} of a pair is not a number. If it names a class, "
            "keep the pairs that are alike, without the label."
        )
