"""Runs what is measured, and the rows of results."""

import json
import os
import subprocess
from typing import Any


def json_of(command: list[str], **environment: str) -> dict[str, Any]:
    """Runs a script and reads the JSON of its last line."""
    print("$", " ".join(command), flush=True)
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    if process.returncode:
        raise RuntimeError(f"{command[1]} failed:\n{process.stderr[-2000:]}")
    result = json.loads(process.stdout.strip().splitlines()[-1])
    print("  ", result, flush=True)
    return result


def row(ours: float, peer: float | None, unit: str, compared: str) -> dict[str, Any]:
    """A row of the results.

    Args:
      ours: the figure.
      peer: the same of a peer; None: there is none.
      unit: of both.
      compared: what was measured, and with whom.
    """
    ratio = None if peer is None else ours / peer
    return {"ours": ours, "peer": peer, "ratio": ratio, "unit": unit, "compared": compared}
