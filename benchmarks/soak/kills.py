"""Commands that are killed at random moments, and run again to the end.

The end must be, bit by bit, that of a run which was never stopped; and after no kill may there be
half of a file under a final name. Half of the moments are drawn from the time that the command
takes, the others follow a change in its folder, which is when files are written and renamed. With
each kill less is left to do, so they are drawn from a smaller part of it.
"""

import random
import shutil
import time
from pathlib import Path

from benchmarks.soak import small, trees
from benchmarks.soak.outcomes import Case, Outcome, Place
from benchmarks.soak.steps import STEPS, Runs, Whole, drawn, finish, state
from tests import commands

ROOM = "kills"
_MOST = 12  # kills of a run
_JUST_AFTER = 0.003  # seconds after a change


def make(place: Place) -> Case:
    """Gives the cases; runs that are never stopped are made as they are needed."""
    folder = place.folder / ROOM
    shutil.rmtree(folder, ignore_errors=True)
    runs = Runs(small.make(place.folder), folder / "whole")
    return lambda number: _case(place.rng(ROOM, number), runs, folder / str(number))


def _case(rng: random.Random, runs: Runs, folder: Path) -> Outcome:
    name = drawn(rng)
    words, whole = STEPS[name].begin(runs.small, folder), runs[name]
    failures, kills = [], 0
    for _ in range(rng.randint(1, _MOST)):
        if not _killed(commands.Running(*words), rng, folder, whole, 1 / (1 + kills)):
            break
        kills += 1
        half = trees.half_written(folder, whole.contents)
        if half:
            failures.append(f"{name}: half of {half} after a kill")
    failures += finish(name, words, folder, whole)
    if not failures:
        shutil.rmtree(folder)
    return Outcome({"runs": 1, "kills": kills, f"kills of {name}": kills}, tuple(failures))


def _killed(
    process: commands.Running, rng: random.Random, folder: Path, whole: Whole, share: float = 1.0
) -> bool:
    """Kills a command at a moment that is drawn; says whether that came before its end.

    Args:
      process: the command, which has just begun.
      rng: draws the moment.
      folder: of its output.
      whole: what a run takes that is never stopped.
      share: of that, within which the moment is.
    """
    if rng.random() < 0.5:
        end = time.perf_counter() + rng.uniform(0, share * whole.seconds)
        return process.kill_when(lambda: time.perf_counter() > end)
    changes = rng.randint(1, max(1, round(share * whole.changes)))
    after = rng.uniform(0, _JUST_AFTER)
    last = state(folder)

    def changed() -> bool:
        nonlocal changes, last
        now = state(folder)
        changes, last = changes - (now != last), now
        if changes <= 0:
            time.sleep(after)
        return changes <= 0

    return process.kill_when(changed)
