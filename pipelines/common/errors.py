"""Errors that users see as one line."""

from pipelines.common import texts


class InputError(ValueError):
    """Bad input. The message names the place, what was expected, and the remedy.

    It is one line, whatever text of the user it quotes.
    """

    def __str__(self) -> str:
        return texts.one_line(super().__str__())


class UnfinishedError(InputError):
    """A failure after which the same command resumes: finished work is kept."""


class RetryError(RuntimeError):
    """A failure not caused by the input: the same command, run again, resumes."""
