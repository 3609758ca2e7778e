"""Text that comes from outside."""


def has_halves(text: str) -> bool:
    """Whether a text has halves of surrogate pairs, so that UTF-8 cannot write it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
