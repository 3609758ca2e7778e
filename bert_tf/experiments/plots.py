"""Pictures of the studies."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bert_tf.experiments.scores import SeedScores
from bert_tf.experiments.studies.base import PlotAxes, ScoreTable
from bert_tf.training import figures

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_WIDTH, _HEIGHT = 5.0, 3.2  # of a panel, in inches


def draw(
    path: str, title: str, scores: ScoreTable, axes: PlotAxes | None, plain: frozenset[str]
) -> None:
    """Draws the figures of a study as a PNG, with a panel for each column that has figures.

    Args:
      path: the file.
      title: the title.
      scores: the figures.
      axes: the x axis; None: a dot for each row.
      plain: columns that are not fractions of 1.
    """
    columns = {name: _known(scores, name) for name in columns_of(scores)}
    columns = {name: known for name, known in columns.items() if known}

    def paint(figure: "matplotlib.figure.Figure") -> None:
        panels = figure.subplots(1, len(columns), squeeze=False)[0]
        for panel, (name, known) in zip(panels, columns.items(), strict=True):
            factor = 1.0 if name in plain else 100.0
            if axes is None:
                _dots(panel, known, factor)
            else:
                _lines(panel, known, axes, factor)
            panel.set_title(name if name in plain else f"{name} (%)")
        figure.suptitle(title)

    if columns:
        height = _HEIGHT if axes else max(_HEIGHT, 0.35 * len(scores) + 1)
        figures.draw(path, (_WIDTH * len(columns), height), paint)


def columns_of(scores: ScoreTable) -> list[str]:
    """The columns of all rows, in their order."""
    return list(dict.fromkeys(name for row in scores.values() for name in row))


def _known(scores: ScoreTable, name: str) -> dict[str, SeedScores]:
    """The figures of a column that have values, by row."""
    return {label: row[name] for label, row in scores.items() if name in row and row[name].values}


def _spread(score: SeedScores, factor: float) -> float:
    return 0.0 if math.isnan(score.spread) else factor * score.spread


def _dots(panel: "matplotlib.axes.Axes", known: Mapping[str, SeedScores], factor: float) -> None:
    """A dot for each row; bars would mislead, as the axis does not begin at 0."""
    labels, scores = list(known)[::-1], list(known.values())[::-1]
    means = [factor * score.mean for score in scores]
    spreads = [_spread(score, factor) for score in scores]
    panel.errorbar(means, range(len(labels)), xerr=spreads, fmt="o", capsize=3)
    panel.set_yticks(range(len(labels)), labels)
    panel.set_ylim(-0.5, len(labels) - 0.5)
    panel.grid(axis="both", alpha=0.3)


def _lines(
    panel: "matplotlib.axes.Axes", known: Mapping[str, SeedScores], axes: PlotAxes, factor: float
) -> None:
    from matplotlib import ticker

    for line, points in axes.points.items():
        xs = [x for x, row in points if row in known]
        scores = [known[row] for _, row in points if row in known]
        means = [factor * score.mean for score in scores]
        spreads = [_spread(score, factor) for score in scores]
        panel.errorbar(xs, means, yerr=spreads, marker="o", capsize=3, label=line)
    panel.set_xlabel(axes.label)
    if axes.logarithmic:
        panel.set_xscale("log")
        # Ticks at the values only, as others would overlap.
        panel.set_xticks(sorted({x for points in axes.points.values() for x, _ in points}))
        panel.xaxis.set_major_formatter(ticker.EngFormatter(places=0, sep=""))
        panel.xaxis.set_minor_locator(ticker.NullLocator())
    if len(axes.points) > 1:
        panel.legend()
