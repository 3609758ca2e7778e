"""Flags of the commands that read a corpus."""

from typing import TYPE_CHECKING

from absl import flags

from pipelines.corpus.formats import FORMATS

if TYPE_CHECKING:
    from pipelines.corpus import reader

INPUT = flags.DEFINE_string(
    "input", None, "Corpus files: comma- or space-separated globs; plain or .gz.", required=True
)
FORMAT = flags.DEFINE_enum(
    "format", "auto", ["auto", *FORMATS], "Format of the files; auto detects it for each."
)
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "Field of JSON Lines that holds the text.")
_UTF8_ERRORS = flags.DEFINE_enum(
    "utf8_errors", "strict", ["strict", "replace"], "Bytes that are not UTF-8: stop, or replace."
)


def corpus() -> "list[reader.CorpusFile]":
    """The files that flags name."""
    from pipelines.corpus import reader

    return reader.open_corpus(INPUT.value, FORMAT.value)


def options() -> "reader.ReadOptions":
    """How flags say to read them."""
    from pipelines.corpus import reader

    return reader.ReadOptions(_TEXT_FIELD.value, _UTF8_ERRORS.value)
