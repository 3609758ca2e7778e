"""Loops over arrays, compiled by numba."""

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """A function compiled when it is first called; a decorator.

    What was compiled is kept for the next process, beside the module or in the user's cache, where
    one of them can be written to.
    """
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # neither can be: a package of root's, and a user without a home
        return numba.njit(function)
