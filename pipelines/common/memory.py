"""Refuses what no memory of this machine holds, before it is begun."""

import os

from pipelines.common.errors import InputError

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def of_machine() -> int:
    """Bytes of memory that this machine, or the container that this is, has."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        if os.path.exists(path):
            with open(path) as file:
                text = file.read().strip()
            found += [int(text)] if text.isdecimal() else []
    return min(found)


def check(needed: float, what: str) -> None:
    """Checks that something has room.

    Args:
      needed: bytes that it takes at the least.
      what: takes them, for the error.

    Raises:
      InputError: the machine has fewer.
    """
    available = of_machine()
    if needed > available:
        raise InputError(
            f"{what} would take {needed / 1e9:,.0f} GB of memory at the least; this machine has "
            f"{available / 1e9:,.0f} GB. Choose something smaller."
        )
