"""Plots, if matplotlib is installed."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import logging

from pipelines.common import files, optional

if TYPE_CHECKING:
    import matplotlib.figure

_DPI = 110


def draw(
    path: str, size: tuple[float, float], paint: "Callable[[matplotlib.figure.Figure], None]"
) -> None:
    """Draws a PNG; without matplotlib, logs how to install it.

    Args:
      path: path of the PNG.
      size: width and height, in inches.
      paint: draws on the figure.
    """
    if not optional.is_there("matplotlib"):
        logging.info("%s is not drawn: pip install 'bert-tf[plots]'", path)
        return
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
    paint(figure)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=_DPI)
    files.write_bytes(path, data.getvalue())
