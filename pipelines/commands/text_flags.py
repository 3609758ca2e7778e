"""Flags of the commands that normalize text."""

from absl import flags

from pipelines.common import flag_types

_CHOICES = ("auto", "true", "false")


class TextFlags:
    """The flags, which are defined for the command that makes it."""

    def __init__(self) -> None:
        self._lower_case = flags.DEFINE(
            flag_types.ChoiceParser(_CHOICES),
            "lower_case",
            "auto",
            "Whether text is lower-cased, for WordPiece and words. auto: as the files of the "
            "model say, else unless a token of the vocabulary has capital letters. WordPiece "
            "is learned of lower-cased text unless this is false, words only if it is true.",
        )
        self._strip_accents = flags.DEFINE(
            flag_types.ChoiceParser(_CHOICES),
            "strip_accents",
            "auto",
            "Whether letters lose their accents, likewise. auto: as --lower_case. Use "
            "false for Korean, whose letters would be taken apart.",
        )

    def chosen(self) -> dict[str, bool]:
        """The settings of a tokenizer that were chosen, by name."""
        choices = {"lower_case": self._lower_case.value, "strip_accents": self._strip_accents.value}
        return {name: value == "true" for name, value in choices.items() if value != "auto"}
