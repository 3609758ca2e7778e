"""Outcomes of cases, and the workspace that cases run in."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Outcome of a case.

    Attributes:
      counts: numbers of attempts and of their results, by name.
      failures: descriptions of wrong results, one line each.
    """

    counts: dict[str, int]
    failures: tuple[str, ...] = ()


Case = Callable[[int], Outcome]


@dataclasses.dataclass(frozen=True)
class Workspace:
    """Folder of all files that cases write, the seed of all cases, and the time for a category."""

    folder: Path
    seed: int
    minutes: float = 0.0

    def rng(self, category: str, number: int) -> random.Random:
        """The random generator of a case, the same for the same seed, category and number."""
        return random.Random(f"{self.seed}/{category}/{number}")
