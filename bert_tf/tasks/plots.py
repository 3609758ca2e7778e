"""What pictures of several shapes of tasks share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from bert_tf.tasks import fonts
from pipelines.common import texts

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_COUNTED = 20  # labels up to which all cells show counts; of more, those that are not 0 do
_UPRIGHT = 4  # labels up to which names stand upright
_ALONE = 30  # labels up to which the matrix says all there is to see
_MOST_LABELS = 100  # of a matrix that can still be read
_MOST_PAIRS = 20
_LONGEST_NAME = 40  # characters
_CELL, _CHARACTER, _MARGIN = 0.22, 0.09, 1.2  # inches


def draw_confusion(
    figure: "matplotlib.figure.Figure", matrix: np.ndarray, labels: Sequence[str]
) -> None:
    """Draws a confusion matrix; of many labels also the pairs that are confused most.

    The figure grows with the labels. Where they are too many for a matrix, it shows those that are
    confused most. Labels with characters that no font has are shown by their numbers, which a
    warning explains.

    Args:
      figure: to draw on.
      matrix: counts, int [labels, labels]: true by row, predicted by column.
      labels: their names.
    """
    names, style = _shown(labels)
    errors = matrix - np.diag(np.diag(matrix))
    chosen = np.arange(len(labels))
    if len(labels) > _MOST_LABELS:
        most = np.argsort(-(errors.sum(0) + errors.sum(1)), kind="stable")[:_MOST_LABELS]
        chosen = np.sort(most)
    pairs = _confused_most(errors) if len(labels) > _ALONE else []
    side = _CELL * len(chosen) + _CHARACTER * max(map(len, names)) + _MARGIN
    width, height = np.maximum(figure.get_size_inches(), side)
    if not pairs:
        figure.set_size_inches(width, height)
        axes = figure.subplots()
    else:
        above = _CELL * len(pairs) + _MARGIN
        figure.set_size_inches(width, above + height)
        panel, axes = figure.subplots(2, 1, height_ratios=(above, height))
        _draw_pairs(panel, matrix, pairs, names, style)
    _draw_matrix(axes, matrix, chosen, names, style)
    if len(chosen) < len(labels):
        axes.set_title(f"the {len(chosen)} of {len(labels)} labels that are confused most")


def _shown(labels: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Names to draw for labels, and the style that has fonts for them."""
    names = [texts.one_line(label) for label in labels]
    names = [n if len(n) <= _LONGEST_NAME else f"{n[: _LONGEST_NAME - 1]}…" for n in names]
    families = fonts.covering("".join(names))
    if not families:
        unknown = [number for number, name in enumerate(names) if not fonts.covering(name)]
        legend = ", ".join(f"{number}: {names[number]}" for number in unknown)
        logging.warning("no font has all characters of some labels; the picture has %s", legend)
        for number in unknown:
            names[number] = str(number)
        families = fonts.covering("".join(names))
    return names, {"fontfamily": families, "parse_math": False}


def _confused_most(errors: np.ndarray) -> list[tuple[int, int]]:
    """The pairs (true, predicted) of most errors, those of most first."""
    order = np.argsort(-errors, axis=None, kind="stable")[:_MOST_PAIRS]
    pairs = zip(*np.unravel_index(order, errors.shape), strict=True)
    return [(int(row), int(column)) for row, column in pairs if errors[row, column]]


def _draw_matrix(
    axes: "matplotlib.axes.Axes",
    matrix: np.ndarray,
    chosen: np.ndarray,
    names: Sequence[str],
    style: dict[str, Any],
) -> None:
    part = np.ix_(chosen, chosen)
    counts, share = matrix[part], (matrix / np.maximum(matrix.sum(1, keepdims=True), 1))[part]
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    ticks, named = range(len(chosen)), [names[number] for number in chosen]
    axes.set_xticks(ticks, named, rotation=90 if len(named) > _UPRIGHT else 0, **style)
    axes.set_yticks(ticks, named, **style)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    few = len(named) <= _COUNTED
    style = {"ha": "center", "va": "center", "fontsize": 8 if few else 6, "in_layout": False}
    for (row, column), value in np.ndenumerate(counts):
        if few or value:
            color = "white" if share[row, column] > 0.5 else "black"
            axes.text(column, row, str(value), color=color, **style)


def _draw_pairs(
    axes: "matplotlib.axes.Axes",
    matrix: np.ndarray,
    pairs: Sequence[tuple[int, int]],
    names: Sequence[str],
    style: dict[str, Any],
) -> None:
    ticks = range(len(pairs))
    bars = axes.barh(ticks, [matrix[pair] for pair in pairs])
    axes.bar_label(bars, [f"{matrix[pair]:,} of {matrix[pair[0]].sum():,}" for pair in pairs])
    axes.set_yticks(ticks, [f"{names[row]} → {names[column]}" for row, column in pairs], **style)
    axes.invert_yaxis()
    axes.set_xticks([])
    axes.set_xlabel("confused most: true → predicted, how many of the true ones")
    axes.margins(x=0.1)
