"""Flags of the commands that normalize text."""

from pipelines.common import flag_types
from pipelines.common.flag_groups import Group, group

_CHOICES = ("auto", "true", "false")


class TextFlags:
    """The flags, which are defined for the command that makes it."""

    def __init__(self) -> None:
        with group(Group.TEXT):
            self._lower_case = flag_types.define_choice(
                "lower_case",
                "auto",
                _CHOICES,
                "Whether text is lower-cased, for WordPiece and words. auto: as the files of the "
                "model say, else unless a token of the vocabulary has capital letters. WordPiece "
                "is learned of lower-cased text unless this is false, words only if it is true.",
            )
            self._strip_accents = flag_types.define_choice(
                "strip_accents",
                "auto",
                _CHOICES,
                "Whether letters lose their accents, likewise. auto: as --lower_case. Use "
                "false for Korean, whose letters would be taken apart.",
            )

    def chosen(self) -> dict[str, bool]:
        """The settings of a tokenizer that were chosen, by name."""
        choices = {"lower_case": self._lower_case.value, "strip_accents": self._strip_accents.value}
        return {name: value == "true" for name, value in choices.items() if value != "auto"}
