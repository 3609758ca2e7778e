"""What is told to users in one line: what they can put right, and what passes by itself."""


class InputError(ValueError):
    """Bad input: the message names the place, what was expected, and the remedy."""


class RetryError(RuntimeError):
    """What failed is no fault of the input: the same command, run again, goes on."""
