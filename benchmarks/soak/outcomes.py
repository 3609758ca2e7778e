"""What comes of a case, and how cases are named and drawn."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Attributes:
      counts: of what was tried and what came of it, by name.
      failures: what should not have come, a line each.
    """

    counts: dict[str, int]
    failures: tuple[str, ...] = ()


Case = Callable[[int], Outcome]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where cases are tried, and what they are drawn with.

    Attributes:
      folder: for all that is made.
      seed: of all cases.
    """

    folder: Path
    seed: int

    def rng(self, room: str, number: int) -> random.Random:
        """The source of chance of a case: the same for the same seed, room and number."""
        return random.Random(f"{self.seed}/{room}/{number}")
