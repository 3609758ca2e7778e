"""What the scripts of peers share: timing a training step, and the line of JSON that reports it."""

import json
import statistics
import sys
import time
from collections.abc import Callable


def report_steps(
    step: Callable[[], float], warmup: int, steps: int, batch: int, **described: str
) -> None:
    """Times a training step and prints one JSON object as the last line of stdout.

    Args:
      step: makes one step and returns its loss.
      warmup: steps before the timed ones.
      steps: timed steps; their seconds go to stderr.
      batch: sequences of a step.
      **described: what was timed, for the report.
    """
    seconds = []
    for _ in range(warmup + steps):
        start = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - start)
    seconds = seconds[warmup:]
    print("step seconds:", *(f"{value:.3f}" for value in seconds), file=sys.stderr)
    print("last loss:", float(loss), file=sys.stderr)
    median = statistics.median(seconds)
    result = {
        **described,
        "step_seconds": round(median, 4),
        "sequences_per_second": round(batch / median, 2),
    }
    print(json.dumps(result))
