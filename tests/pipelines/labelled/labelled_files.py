"""Small files for the tests of readers, and the rows of tables."""

from pipelines.labelled import tables
from pipelines.labelled.source import Source


def write(path, content, encoding="utf-8"):
    """Writes a text, or bytes; returns the path as a string."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
    return str(path)


def read_rows(path):
    """Rows of a table with a header; cells of a .tsv are not in quotes."""
    return list(tables.read_rows(Source(path, header=True, has_quotes=False)))
