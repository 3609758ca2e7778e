"""Scores over seeds: mean, spread, and whether two differ."""

import dataclasses
import enum
import math
import statistics
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Score:
    """A figure of a table.

    Attributes:
      values: by seed, in their order.
      note: why there is none, or what is to be known of it.
    """

    values: tuple[float, ...] = ()
    note: str = ""

    @property
    def mean(self) -> float:
        """Of the seeds; NaN where there is none."""
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation of a seed's value (n - 1); NaN of fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else math.nan

    def text(self, percent: bool = True) -> str:
        """For a table, such as "84.4 ± 0.3 (3)": mean, spread, seeds."""
        if not self.values:
            return self.note or "–"
        mean, spread = self._shown(self.mean, percent), self._shown(self.spread, percent)
        around = "" if math.isnan(self.spread) else f" ± {spread}"
        return f"{mean}{around} ({len(self.values)}){f' {self.note}' if self.note else ''}"

    def _shown(self, value: float, percent: bool) -> str:
        return f"{100 * value:.1f}" if percent else f"{value:.2f}"

    def to_json(self) -> dict[str, Any]:
        """For report.json."""
        numbers = {"mean": self.mean, "spread": self.spread}
        known = {k: v for k, v in numbers.items() if not math.isnan(v)}
        return {"values": list(self.values), **known, **({"note": self.note} if self.note else {})}


class Verdict(enum.StrEnum):
    """What a comparison says."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "none"  # the difference is within the spread
    UNKNOWN = "unknown"  # there is no figure, or no spread to compare with


def compare(first: Score, second: Score) -> Verdict:
    """Whether the first one is higher than the second one.

    The spread of the difference of two means of n and m seeds is
    sqrt(s1^2 / n + s2^2 / m); a difference within twice that counts as none.
    """
    if len(first.values) < 2 or len(second.values) < 2:
        return Verdict.UNKNOWN
    difference = first.mean - second.mean
    around = math.sqrt(first.spread**2 / len(first.values) + second.spread**2 / len(second.values))
    if abs(difference) <= 2 * around:
        return Verdict.NONE
    return Verdict.HIGHER if difference > 0 else Verdict.LOWER


@dataclasses.dataclass(frozen=True)
class Finding:
    """What is seen here of something that the paper found.

    Attributes:
      sentence: what it is, and what is seen of it.
      verdicts: of each comparison that bears on it, HIGHER where it agrees.
    """

    sentence: str
    verdicts: tuple[Verdict, ...] = ()


def finding(claim: str, pairs: Sequence[tuple[Score, Score]]) -> Finding:
    """What is seen of a claim: that the first figure of each pair is higher than the second."""
    verdicts = tuple(compare(first, second) for first, second in pairs)
    return Finding(f"{claim}: {_seen(verdicts)}.", verdicts)


def no_worse(claim: str, pairs: Sequence[tuple[Score, Score]]) -> Finding:
    """What is seen of a claim that the figures of each pair are alike."""
    verdicts = tuple(compare(first, second) for first, second in pairs)
    known = [verdict for verdict in verdicts if verdict is not Verdict.UNKNOWN]
    alike = known.count(Verdict.NONE)
    if not known:
        return Finding(f"{claim}: {_seen(())}.", verdicts)
    state = "seen here" if alike == len(known) else "seen in part" if alike else "not seen here"
    return Finding(f"{claim}: {state} ({alike} of {len(known)} within the spread).", verdicts)


def _seen(verdicts: Sequence[Verdict]) -> str:
    count = {verdict: verdicts.count(verdict) for verdict in Verdict}
    higher, lower, none = (count[v] for v in (Verdict.HIGHER, Verdict.LOWER, Verdict.NONE))
    if not higher + lower + none:
        return "cannot be told, as there are not enough figures or seeds"
    parts = ((higher, "as in the paper"), (none, "within the spread"), (lower, "the contrary"))
    detail = ", ".join(f"{number} {text}" for number, text in parts if number)
    if higher > lower + none:
        return f"seen here ({detail})"
    if lower > higher + none:
        return f"not seen here ({detail})"
    if higher or lower:
        return f"seen in part ({detail})"
    return f"the scale is too small to tell ({detail})"
