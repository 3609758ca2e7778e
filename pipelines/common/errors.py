"""Errors that users see as one line."""

import re

from pipelines.common import texts


class InputError(ValueError):
    """Bad input. The message names the place, what was expected, and the remedy.

    It is one line, whatever text of the user it quotes. Keras makes it anew with a report of the
    layer around it, in which its own text is in bold; that alone is shown.
    """

    def __str__(self) -> str:
        found = re.match(
            r"Exception encountered .*?\x1b\[1m(.*)\x1b\[0m", super().__str__(), re.DOTALL
        )
        return texts.one_line(found[1] if found else super().__str__())


class UnfinishedError(InputError):
    """A failure after which the same command resumes: finished work is kept."""


class RetryError(RuntimeError):
    """A failure not caused by the input: the same command, run again, resumes."""
