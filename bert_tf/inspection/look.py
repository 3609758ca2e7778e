"""What a page shows."""

from typing import Any, NamedTuple


class Look(NamedTuple):
    """The numbers of a page.

    Attributes:
      values: JSON values.
      parts: what would be long as JSON, by name.
    """

    values: dict[str, Any]
    parts: dict[str, bytes]


def rounded(value: Any, digits: int = 5) -> Any:
    """JSON values of numbers, to so many significant digits; lists of lists, arrays too."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
