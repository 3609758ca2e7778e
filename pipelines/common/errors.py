"""What is told to users in one line: what they can put right, and what passes by itself."""

from pipelines.common import texts


class InputError(ValueError):
    """Bad input: the message names the place, what was expected, and the remedy.

    It is shown as one line, whatever the text of the user's that it quotes.
    """

    def __str__(self) -> str:
        return texts.one_line(super().__str__())


class RetryError(RuntimeError):
    """What failed is no fault of the input: the same command, run again, goes on."""
