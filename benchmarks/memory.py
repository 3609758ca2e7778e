"""Runs a command and measures the memory of all its processes.

The figure is the peak, over samples, of the proportional set sizes (PSS) of the command and all
its descendants added up: memory that processes share is counted once. Linux only.
"""

import subprocess
import time
from typing import NamedTuple

import psutil

_INTERVAL = 0.1


class Usage(NamedTuple):
    """What a command used."""

    seconds: float
    peak_bytes: int
    output: str


def measure(command: list[str]) -> Usage:
    """Runs a command to its end.

    Raises:
      RuntimeError: it failed; the message has the end of what it printed.
    """
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        peak = 0
        family = psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, _pss(family))
            time.sleep(_INTERVAL)
        output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{output[-2000:]}")
    return Usage(time.perf_counter() - start, peak, output)


def _pss(root: psutil.Process) -> int:
    total = 0
    try:
        members = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for member in members:
        try:
            total += member.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
