"""The one exception for everything that the user can put right."""

from pipelines.common import texts


class InputError(ValueError):
    """Bad input: the message names the place, what was expected, and the remedy.

    It is shown as one line, whatever the text of the user's that it quotes.
    """

    def __str__(self) -> str:
        return texts.one_line(super().__str__())
