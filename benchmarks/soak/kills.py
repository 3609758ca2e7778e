"""Commands that are killed at random moments and then run to the end.

The output must equal that of an uninterrupted run, bit by bit, and after no kill may a partially
written file have its final name. Half of the kills come at a random time; the others follow a
change in the output folder, when files are written and renamed. With each kill less work is left,
so the moment is drawn from a shorter time.
"""

import random
import shutil
import time
from pathlib import Path

from benchmarks.soak import small_inputs, steps, trees
from benchmarks.soak.outcomes import Case, Outcome, Workspace
from benchmarks.soak.steps import STEPS, Reference, References
from tests import commands

CATEGORY = "kills"
_MAX_KILLS = 12
_MAX_DELAY = 0.003  # seconds after a change


def make(workspace: Workspace) -> Case:
    """Returns the cases."""
    folder = workspace.folder / CATEGORY
    shutil.rmtree(folder, ignore_errors=True)
    references = References(small_inputs.make(workspace.folder), folder / "reference")
    return lambda number: _case(workspace.rng(CATEGORY, number), references, folder / str(number))


def _case(rng: random.Random, references: References, folder: Path) -> Outcome:
    name = steps.choose(rng)
    arguments = STEPS[name].begin(references.inputs, folder)
    reference = references[name]
    failures, kills = [], 0
    for _ in range(rng.randint(1, _MAX_KILLS)):
        if not _kill(commands.Running(*arguments), rng, folder, reference, 1 / (1 + kills)):
            break
        kills += 1
        partial = trees.partially_written(folder, reference.contents)
        if partial:
            failures.append(f"{name}: {partial} is partially written after a kill")
    failures += steps.finish(name, arguments, folder, reference)
    if not failures:
        shutil.rmtree(folder)
    return Outcome({"runs": 1, "kills": kills, f"kills of {name}": kills}, tuple(failures))


def _kill(
    process: commands.Running,
    rng: random.Random,
    folder: Path,
    reference: Reference,
    fraction: float = 1.0,
) -> bool:
    """Kills a command at a random moment; returns whether that came before its end.

    Args:
      process: the command, which has just begun.
      rng: draws the moment.
      folder: output folder of the command.
      reference: the uninterrupted run.
      fraction: the part of its time, from the beginning, that the moment lies in.
    """
    if rng.random() < 0.5:
        end = time.perf_counter() + rng.uniform(0, fraction * reference.seconds)
        return process.kill_when(lambda: time.perf_counter() > end)
    changes = rng.randint(1, max(1, round(fraction * reference.changes)))
    delay = rng.uniform(0, _MAX_DELAY)
    last = steps.state(folder)

    def changed() -> bool:
        nonlocal changes, last
        now = steps.state(folder)
        changes, last = changes - (now != last), now
        if changes <= 0:
            time.sleep(delay)
        return changes <= 0

    return process.kill_when(changed)
