"""The one exception for everything that the user can put right."""


class InputError(ValueError):
    """Bad input: the message names the place, what was expected, and the remedy."""
