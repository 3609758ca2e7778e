"""Loops over arrays, compiled by Numba."""

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """Decorator of a function that is compiled when it is first called.

    The machine code is cached for the next process, next to the module or in the user's cache.
    """
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # neither is writable: a package of root, and a user without a home
        return numba.njit(function)
