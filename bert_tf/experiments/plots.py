"""Pictures of studies."""

import math
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from bert_tf.experiments.scores import Score
from bert_tf.experiments.studies.base import Axes, Scores
from bert_tf.training import figures

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_WIDTH, _PANEL = 5.0, 3.2  # inches


def draw(path: str, title: str, scores: Scores, axes: Axes | None, plain: frozenset[str]) -> None:
    """Draws the figures of a study, a panel for each column that has any.

    Args:
      path: of the PNG.
      title: over all.
      scores: of the study.
      axes: how they are drawn; None: a dot for each row.
      plain: columns that are no shares of 1.
    """
    columns = [name for name in columns_of(scores) if _known(scores, name)]

    def paint(figure: "matplotlib.figure.Figure") -> None:
        panels = figure.subplots(1, len(columns), squeeze=False)[0]
        for panel, name in zip(panels, columns, strict=True):
            factor = 1.0 if name in plain else 100.0
            if axes is None:
                _dots(panel, _known(scores, name), factor)
            else:
                _lines(panel, _known(scores, name), axes, factor)
            panel.set_title(name if name in plain else f"{name} (%)")
        figure.suptitle(title)

    if columns:
        height = _PANEL if axes else max(_PANEL, 0.35 * len(scores) + 1)
        figures.draw(path, (_WIDTH * len(columns), height), paint)


def columns_of(scores: Scores) -> list[str]:
    """The columns that any row has, in their order."""
    return list(dict.fromkeys(name for row in scores.values() for name in row))


def _known(scores: Scores, name: str) -> dict[str, Score]:
    """The figures of a column, by row."""
    found = {label: row[name] for label, row in scores.items() if name in row}
    return {label: score for label, score in found.items() if score.values}


def _spread(score: Score, factor: float) -> float:
    return 0.0 if math.isnan(score.spread) else factor * score.spread


def _dots(panel: "matplotlib.axes.Axes", known: Mapping[str, Score], factor: float) -> None:
    """A dot for each row; no bars, whose lengths would say nothing where the axis begins late."""
    labels = list(known)[::-1]
    rows = range(len(labels))
    panel.errorbar(
        [factor * known[label].mean for label in labels],
        rows,
        xerr=[_spread(known[label], factor) for label in labels],
        fmt="o",
        capsize=3,
    )
    panel.set_yticks(rows, labels)
    panel.set_ylim(-0.5, len(labels) - 0.5)
    panel.grid(axis="both", alpha=0.3)


def _lines(
    panel: "matplotlib.axes.Axes", known: Mapping[str, Score], axes: Axes, factor: float
) -> None:
    for line, points in axes.points.items():
        here = [(x, known[row]) for x, row in points if row in known]
        panel.errorbar(
            [x for x, _ in here],
            [factor * score.mean for _, score in here],
            yerr=[_spread(score, factor) for _, score in here],
            marker="o",
            capsize=3,
            label=line,
        )
    panel.set_xlabel(axes.label)
    if axes.logarithmic:
        _scale_logarithmically(panel, {x for points in axes.points.values() for x, _ in points})
    if len(axes.points) > 1:
        panel.legend()


def _scale_logarithmically(panel: "matplotlib.axes.Axes", values: Set[float]) -> None:
    """Makes the x axis logarithmic, with a tick at each value; those in between would overlap."""
    from matplotlib import ticker

    panel.set_xscale("log")
    panel.set_xticks(sorted(values))
    panel.xaxis.set_major_formatter(ticker.EngFormatter(places=0, sep=""))
    panel.xaxis.set_minor_locator(ticker.NullLocator())
