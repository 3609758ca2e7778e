"""Flags of the commands that normalize text."""

from absl import flags

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
