"""Commands that are killed at random moments and then run to the end.

The output must equal that of an uninterrupted run, bit by bit, and after no kill may a partially
written file have its final name. Half of the kills come at a random time; the others follow a
change in the output folder, when files are written and renamed. With each kill less work is left,
so the moment is drawn from a shorter time.
"""

import random
import time

from benchmarks.soak import steps
from benchmarks.soak.outcomes import Case, Outcome, Workspace
from benchmarks.soak.steps import Attempt, Steps

CATEGORY = "kills"
_MAX_KILLS = 12
_MAX_DELAY = 0.003  # seconds after a change


def make(workspace: Workspace) -> Case:
    """Returns the cases."""
    available = Steps(workspace, CATEGORY)
    return lambda number: _case(workspace.rng(CATEGORY, number), available, number)


def _case(rng: random.Random, available: Steps, number: int) -> Outcome:
    attempt = available.attempt(rng, number)
    failures, kills = [], 0
    for _ in range(rng.randint(1, _MAX_KILLS)):
        if not _kill(attempt, rng, 1 / (1 + kills)):
            break
        kills += 1
        failures += attempt.partial_files("a kill")
    failures += attempt.finish()
    counts = {"runs": 1, "kills": kills, f"kills of {attempt.name}": kills}
    return attempt.outcome(counts, failures)


def _kill(attempt: Attempt, rng: random.Random, fraction: float = 1.0) -> bool:
    """Starts the command and kills it; returns whether that came before its end.

    Args:
      attempt: the step.
      rng: draws the moment.
      fraction: the part of the time of the command, from its start, that the moment lies in.
    """
    process, reference = attempt.start(), attempt.reference
    if rng.random() < 0.5:
        end = time.perf_counter() + rng.uniform(0, fraction * reference.seconds)
        return process.kill_when(lambda: time.perf_counter() > end)
    changes = rng.randint(1, max(1, round(fraction * reference.changes)))
    delay = rng.uniform(0, _MAX_DELAY)
    last = steps.state(attempt.folder)

    def changed() -> bool:
        nonlocal changes, last
        now = steps.state(attempt.folder)
        changes, last = changes - (now != last), now
        if changes <= 0:
            time.sleep(delay)
        return changes <= 0

    return process.kill_when(changed)
