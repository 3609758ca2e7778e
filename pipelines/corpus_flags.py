"""Flags of the commands that read a corpus."""

from absl import flags

from pipelines import corpus

INPUT = flags.DEFINE_string(
    "input", None, "Corpus files: comma- or space-separated globs; plain or .gz.", required=True
)
FORMAT = flags.DEFINE_enum(
    "format", "auto", ["auto", *corpus.FORMATS], "Format of the files; auto detects it for each."
)
TEXT_FIELD = flags.DEFINE_string("text_field", "text", "Field of JSON Lines that holds the text.")
UTF8_ERRORS = flags.DEFINE_enum(
    "utf8_errors", "strict", ["strict", "replace"], "Bytes that are not UTF-8: stop, or replace."
)
_CHOICES = ["auto", "true", "false"]
_LOWER_CASE = flags.DEFINE_enum(
    "lower_case", "auto", _CHOICES, "Lower-case the text; auto: if the vocabulary is uncased."
)
_STRIP_ACCENTS = flags.DEFINE_enum(
    "strip_accents", "auto", _CHOICES, "Drop accents; auto: as lower_case. For Hangul use false."
)


def lower_case() -> bool | None:
    """The flag as a value; None for auto."""
    return _as_value(_LOWER_CASE.value)


def strip_accents() -> bool | None:
    """The flag as a value; None for auto."""
    return _as_value(_STRIP_ACCENTS.value)


def _as_value(choice: str) -> bool | None:
    return {"auto": None, "true": True, "false": False}[choice]
