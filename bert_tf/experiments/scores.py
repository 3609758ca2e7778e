"""Scores over seeds: mean, spread, and whether two of them differ."""

import dataclasses
import enum
import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple


@dataclasses.dataclass(frozen=True)
class SeedScores:
    """A figure of a table.

    Attributes:
      values: one for each seed.
      note: why there are none, or a remark.
    """

    values: tuple[float, ...] = ()
    note: str = ""

    @property
    def mean(self) -> float:
        """The mean; NaN without values."""
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation (n - 1); NaN with fewer than two values."""
        return statistics.stdev(self.values) if len(self.values) > 1 else math.nan

    def text(self, percent: bool = True) -> str:
        """Mean, spread and number of seeds for a table, such as "84.4 ± 0.3 (3)"."""
        if not self.values:
            return self.note or "–"
        mean, spread = (
            f"{100 * value:.1f}" if percent else f"{value:.2f}"
            for value in (self.mean, self.spread)
        )
        around = "" if math.isnan(self.spread) else f" ± {spread}"
        return f"{mean}{around} ({len(self.values)}){f' {self.note}' if self.note else ''}"

    def to_json(self) -> dict[str, Any]:
        """The figure as in report.json."""
        numbers = {"mean": self.mean, "spread": self.spread}
        known = {k: v for k, v in numbers.items() if not math.isnan(v)}
        return {"values": list(self.values), **known, **({"note": self.note} if self.note else {})}


class Verdict(enum.StrEnum):
    """The outcome of a comparison."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "none"  # the difference is within the spread
    UNKNOWN = "unknown"  # too few values


def compare(first: SeedScores, second: SeedScores) -> Verdict:
    """Compares two means.

    The standard error of the difference of two means of n and m seeds is
    sqrt(s1^2 / n + s2^2 / m); a difference of at most twice that counts as none.
    """
    if len(first.values) < 2 or len(second.values) < 2:
        return Verdict.UNKNOWN
    difference = first.mean - second.mean
    error = math.sqrt(first.spread**2 / len(first.values) + second.spread**2 / len(second.values))
    if abs(difference) <= 2 * error:
        return Verdict.NONE
    return Verdict.HIGHER if difference > 0 else Verdict.LOWER


class Finding(NamedTuple):
    """A finding of the paper, and what is seen of it."""

    sentence: str
    verdicts: tuple[Verdict, ...] = ()  # of the comparisons behind it; HIGHER agrees


Pairs = Sequence[tuple[SeedScores, SeedScores]]


def finding(claim: str, pairs: Pairs) -> Finding:
    """Checks the claim that the first figure of each pair is higher than the second."""
    verdicts = tuple(compare(first, second) for first, second in pairs)
    return Finding(f"{claim}: {_seen(verdicts)}.", verdicts)


def no_worse(claim: str, pairs: Pairs) -> Finding:
    """Checks the claim that the two figures of each pair are equal."""
    verdicts = tuple(compare(first, second) for first, second in pairs)
    known = [verdict for verdict in verdicts if verdict is not Verdict.UNKNOWN]
    alike = known.count(Verdict.NONE)
    if not known:
        return Finding(f"{claim}: {_seen(())}.", verdicts)
    state = "seen here" if alike == len(known) else "seen in part" if alike else "not seen here"
    return Finding(f"{claim}: {state} ({alike} of {len(known)} within the spread).", verdicts)


def _seen(verdicts: Sequence[Verdict]) -> str:
    higher, lower, none = map(verdicts.count, (Verdict.HIGHER, Verdict.LOWER, Verdict.NONE))
    if not higher + lower + none:
        return "cannot be decided, as there are not enough figures or seeds"
    parts = ((higher, "as in the paper"), (none, "within the spread"), (lower, "the contrary"))
    detail = ", ".join(f"{number} {text}" for number, text in parts if number)
    if higher > lower + none:
        return f"seen here ({detail})"
    if lower > higher + none:
        return f"not seen here ({detail})"
    if higher or lower:
        return f"seen in part ({detail})"
    return f"the scale is too small to tell ({detail})"
