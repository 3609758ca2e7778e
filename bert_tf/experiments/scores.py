"""Scores over seeds: mean, spread, whether two of them differ, and what that says of a claim."""

import math
import re
import statistics
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from bert_tf.experiments.studies import PERPLEXITY

_COMPARISON = re.compile(" ([>=<]) ")
Verdict = Literal["higher", "lower", "alike", "unknown"]  # of the first of two figures


class SeedScores(NamedTuple):
    """A figure of a table: a value for each seed, and why there are none, or another remark."""

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
            return self.note
        factor, digits = (100, 1) if percent else (1, 2)
        around = f" ± {factor * self.spread:.{digits}f}" if len(self.values) > 1 else ""
        return f"{factor * self.mean:.{digits}f}{around} ({len(self.values)}) {self.note}".strip()

    def to_json(self) -> dict[str, Any]:
        """For report.json."""
        return {**self._asdict(), "mean": self.mean, "spread": self.spread}


ScoreTable = Mapping[str, Mapping[str, SeedScores]]  # by the label of the row, then by column


class Finding(NamedTuple):
    """What is seen of a claim, and the comparisons behind it."""

    sentence: str
    verdicts: tuple[Verdict, ...] = ()


def compare(first: SeedScores, second: SeedScores) -> Verdict:
    """Compares two means.

    The standard error of the difference of two means of n and m seeds is
    sqrt(s1^2 / n + s2^2 / m); with a difference of at most twice that, they count as alike.
    """
    if len(first.values) < 2 or len(second.values) < 2:
        return "unknown"
    difference = first.mean - second.mean
    error = math.sqrt(first.spread**2 / len(first.values) + second.spread**2 / len(second.values))
    if abs(difference) <= 2 * error:
        return "alike"
    return "higher" if difference > 0 else "lower"


def check(claim: str, comparisons: str, scores: ScoreTable) -> Finding:
    """Checks a claim of the paper (`Study.claims`) against the figures of its study."""
    suffix, _, listed = comparisons.rpartition(": ")
    pairs = [_COMPARISON.split(each) for each in listed.split("; ")]
    if pairs[0][1] == "<":  # perplexities, of which there is one run each, so no spread
        figures = [(scores[a][PERPLEXITY], scores[b][PERPLEXITY]) for a, _, b in pairs]
        if not all(first.values and second.values for first, second in figures):
            return Finding(f"{claim}: cannot be decided (not all models are trained).")
        falls = [first.mean < second.mean for first, second in figures]
        state = "seen here" if all(falls) else "seen in part" if any(falls) else "not seen here"
        shown = ", ".join(f"{a.mean:.1f} and {b.mean:.1f}" for a, b in figures)
        return Finding(f"{claim}: {state} ({shown}; one run each).")
    verdicts = tuple(
        compare(scores[first][column], scores[second][column])
        for first, _, second in pairs
        for column in scores[first]
        if column != PERPLEXITY and column.endswith(suffix)
    )
    higher, lower, alike = map(verdicts.count, ("higher", "lower", "alike"))
    known = higher + lower + alike
    parts = ((higher, "as in the paper"), (alike, "within the spread"), (lower, "the contrary"))
    detail = ", ".join(f"{number} {text}" for number, text in parts if number)
    if not known:
        state, detail = "cannot be decided", "there are not enough figures or seeds"
    elif pairs[0][1] == "=":
        state = "seen here" if alike == known else "seen in part" if alike else "not seen here"
        detail = f"{alike} of {known} within the spread"
    elif higher > known - higher:
        state = "seen here"
    elif lower > known - lower:
        state = "not seen here"
    else:
        state = "seen in part" if higher or lower else "the scale is too small to tell"
    return Finding(f"{claim}: {state} ({detail}).", verdicts)
