"""The processor and the memory of this machine, or of the container that this process runs in."""

import contextlib
import ctypes
import math
import os
import platform
import re

from pipelines.common.errors import InputError

_CPU_LIMIT = "/sys/fs/cgroup/cpu.max"  # a quota and its period, in microseconds
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

# Options of glibc's `mallopt`, of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8

_OOM_KILLS = ("/sys/fs/cgroup/memory.events", "/proc/vmstat")
_PROCESSOR = ("model name", "flags", "CPU part", "Features")  # lines of /proc/cpuinfo


class OutOfMemoryError(InputError):
    """Something would not fit into the memory of this machine."""


def processor() -> str:
    """The processor's name and instruction sets."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return "\n".join(sorted({line for line in lines if line.startswith(_PROCESSOR)}))


def cores() -> int:
    """Number of cores that this process may use."""
    affine = hasattr(os, "sched_getaffinity")
    found = len(os.sched_getaffinity(0)) if affine else os.cpu_count() or 1
    if os.path.exists(_CPU_LIMIT):
        with open(_CPU_LIMIT) as file:
            quota, period = file.read().split()
        found = min(found, math.ceil(int(quota) / int(period))) if quota.isdecimal() else found
    return found


def memory() -> int:
    """Size of the memory, in bytes."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _MEMORY_LIMITS:
        if os.path.exists(path):
            with open(path) as file:
                text = file.read().strip()
            found += [int(text)] if text.isdecimal() else []
    return min(found)


def keep_freed_memory() -> None:
    """Lets this process keep the memory that it frees, for what it allocates next.

    By default, glibc asks the kernel for each large block and gives it back. A training step
    allocates the same blocks as the one before, so the kernel clears all their pages at each step.
    On a virtual machine without large pages that was a fifth of a step of two layers. Peak memory
    grew by up to 4 %. All threads share one arena then, because glibc gives back the empty parts of
    further arenas whatever is set; that was a tenth of a step of six layers on 2 cores. Where the
    environment says something about these options, and with other C libraries, nothing is done.
    """
    said = " ".join([*os.environ, os.environ.get("GLIBC_TUNABLES", "")]).lower()
    if re.search(r"\bmalloc[._](arena|mmap|trim|top_pad)", said):
        return
    with contextlib.suppress(AttributeError):
        options = ctypes.CDLL(None).mallopt
        options(_M_MMAP_MAX, 0)
        options(_M_TRIM_THRESHOLD, -1)  # never
        options(_M_ARENA_MAX, 1)


def oom_kills() -> int:
    """Number of processes that the kernel has killed because memory ran out; 0 if unknown."""
    for path in filter(os.path.exists, _OOM_KILLS):
        with open(path) as file:
            counts = dict(line.split() for line in file)
        if "oom_kill" in counts:
            return int(counts["oom_kill"])
    return 0


def check_memory(needed: float, what: str) -> None:
    """Checks, before something is computed, that it fits into the memory.

    Args:
      needed: Bytes that it takes at least.
      what: What takes them, for the error.

    Raises:
      OutOfMemoryError: The machine has less memory.
    """
    available = memory()
    if needed > available:
        raise OutOfMemoryError(
            f"{what} would take at least {needed / 1e9:,.0f} GB of memory; this machine has "
            f"{available / 1e9:,.0f} GB. Choose smaller settings."
        )
