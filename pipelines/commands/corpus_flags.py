"""Flags of the commands that read a corpus."""

from absl import flags

from pipelines.corpus import reader

INPUT = flags.DEFINE_string(
    "input", None, "Corpus files: comma- or space-separated globs; plain or .gz.", required=True
)
FORMAT = flags.DEFINE_enum(
    "format", "auto", ["auto", *reader.FORMATS], "Format of the files; auto detects it for each."
)
TEXT_FIELD = flags.DEFINE_string("text_field", "text", "Field of JSON Lines that holds the text.")
UTF8_ERRORS = flags.DEFINE_enum(
    "utf8_errors", "strict", ["strict", "replace"], "Bytes that are not UTF-8: stop, or replace."
)
