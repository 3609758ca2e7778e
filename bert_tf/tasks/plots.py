"""What pictures of several shapes of tasks share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from bert_tf.tasks import fonts

if TYPE_CHECKING:
    import matplotlib.axes

_COUNTED = 20  # labels up to which cells show counts
_UPRIGHT = 4  # labels up to which names stand upright


def draw_matrix(axes: "matplotlib.axes.Axes", matrix: np.ndarray, labels: Sequence[str]) -> None:
    """Draws a confusion matrix.

    Labels in a script that no font has are shown by their numbers, which a warning tells.

    Args:
      axes: to draw on.
      matrix: counts, int [labels, labels]: true by row, predicted by column.
      labels: their names.
    """
    share = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    families = fonts.covering("".join(labels))
    names = list(labels)
    if not families:
        names = [str(number) for number in range(len(labels))]
        legend = ", ".join(f"{number}: {label}" for number, label in enumerate(labels))
        logging.warning("no font has all characters of the labels; the picture has %s", legend)
    style: dict[str, Any] = {"fontfamily": families} if families else {}
    axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > _UPRIGHT else 0, **style)
    axes.set_yticks(range(len(names)), names, **style)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if len(labels) <= _COUNTED:
        for (row, column), value in np.ndenumerate(matrix):
            color = "white" if share[row, column] > 0.5 else "black"
            axes.text(column, row, str(value), ha="center", va="center", color=color, fontsize=8)
