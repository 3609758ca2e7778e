"""Flags of the commands that normalize text."""

from absl import flags

_CHOICES = ["auto", "true", "false"]
_LOWER_CASE = flags.DEFINE_enum(
    "lower_case", "auto", _CHOICES, "Lower-case the text; auto: if the vocabulary is uncased."
)
_STRIP_ACCENTS = flags.DEFINE_enum(
    "strip_accents", "auto", _CHOICES, "Drop accents; auto: as lower_case. For Hangul use false."
)


def chosen() -> dict[str, bool]:
    """The settings of a tokenizer that were chosen, by name."""
    choices = {"lower_case": _LOWER_CASE.value, "strip_accents": _STRIP_ACCENTS.value}
    return {name: value == "true" for name, value in choices.items() if value != "auto"}
