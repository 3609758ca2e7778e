"""Reads arguments, runs scripts and commands for their figures, and makes rows of results."""

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import Any

import psutil

from pipelines.common import machine

_INTERVAL = 0.1  # seconds between two samples of memory


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads arguments, and those in --more_flags, quoted as for a shell: `make` passes ARGS so."""
    parser.add_argument("--more_flags", default="", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    return parser.parse_args(shlex.split(args.more_flags), args)


def place() -> str:
    """The cores and the processor of this machine, for records."""
    found = re.search(r"^model name\s*: (.+)$", machine.processor(), re.MULTILINE)
    return f"{machine.cores()} cores of {found[1] if found else platform.machine()}"


def computed(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows whose precision, the last item, the processor has instructions for.

    Processors without those for bfloat16 emulate it: PyTorch then needs over twenty minutes for
    what takes seconds in float32.
    """
    words = machine.processor().split()
    has_bfloat16 = any(name in words for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return [row for row in rows if has_bfloat16 or row[-1] != "bfloat16"]


def json_of(command: list[str], **environment: str) -> dict[str, Any]:
    """Runs a script and reads the JSON of its last line.

    Raises:
      RuntimeError: the script failed; the message has the end of its stderr.
    """
    print("$", " ".join(command), flush=True)
    environ = os.environ | environment
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if process.returncode:
        raise RuntimeError(f"{command[1]} failed:\n{process.stderr[-2000:]}")
    result = json.loads(process.stdout.strip().splitlines()[-1])
    print("  ", result, flush=True)
    return result


def row(ours: float, peer: float | None, unit: str, compared: str) -> dict[str, Any]:
    """A row of the results.

    Args:
      ours: our figure.
      peer: the figure of a peer, if there is one.
      unit: unit of both.
      compared: description of the measurement and the peer.
    """
    ratio = None if peer is None else ours / peer
    return {"ours": ours, "peer": peer, "ratio": ratio, "unit": unit, "compared": compared}


def peak_memory(command: list[str]) -> tuple[float, str]:
    """Runs a command and measures the memory of all its processes; Linux only.

    Returns:
      The peak in GiB, over samples, of the sum of the proportional set sizes (PSS), which count
      shared memory once; and the last line of the output.

    Raises:
      RuntimeError: the command failed; the message has the end of its output.
    """
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        peak, family = 0, psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, _pss(family))
            time.sleep(_INTERVAL)
        output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{output[-2000:]}")
    last = output.strip().splitlines()[-1]
    print("  ", f"{peak / 2**30:.2f} GiB,", last, flush=True)
    return peak / 2**30, last


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
