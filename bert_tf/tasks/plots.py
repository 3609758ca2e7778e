"""Pictures of labels, in fonts that have the characters of the labels."""

import atexit
import functools
import importlib.util
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from pipelines.common import optional, texts

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

    from bert_tf.tasks.base import LabelScores

_ALL_COUNTS = 20  # labels up to which all cells show counts; of more, only those that are not 0
_UPRIGHT = 4  # labels up to which names stand upright
_ALONE = 30  # labels up to which the matrix is enough
_MAX_LABELS = 100  # in a matrix that can still be read
_MAX_PAIRS = 20
_MAX_NAME = 39  # characters
_CELL, _CHARACTER, _MARGIN = 0.22, 0.09, 1.2  # inches
_BOXES = "Last Resort"  # a font that has a box, and not a glyph, for every character


def draw_confusion(
    figure: "matplotlib.figure.Figure", matrix: np.ndarray, labels: Sequence[str]
) -> None:
    """Draws a confusion matrix; of many labels also the pairs that are confused most.

    The figure grows with the labels. If they are too many for a matrix, it shows those that are
    confused most. Labels with characters that no font has are shown by their numbers, and a
    warning explains these.

    Args:
      figure: to draw on.
      matrix: counts, int [labels, labels]: true by row, predicted by column.
      labels: names of the labels.
    """
    names, style = _shown(labels)
    errors = matrix - np.diag(np.diag(matrix))
    chosen = np.arange(len(labels))
    if len(labels) > _MAX_LABELS:
        most = np.argsort(-(errors.sum(0) + errors.sum(1)), kind="stable")[:_MAX_LABELS]
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


def draw_label_scores(
    figure: "matplotlib.figure.Figure", scores: Mapping[str, "LabelScores"]
) -> None:
    """Draws a bar with the F1 of each label and its number of examples, the lowest F1 on top.

    Args:
      figure: to draw on; it grows with the labels.
      scores: scores by label; of very many, the lowest are shown.
    """
    lowest = sorted(scores, key=lambda label: scores[label]["f1"])[:_MAX_LABELS]
    names, style = _shown(lowest)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, max(height, _CELL * len(names) + _MARGIN))
    axes, ticks = figure.subplots(), range(len(names))
    bars = axes.barh(ticks, [scores[label]["f1"] for label in lowest])
    axes.bar_label(
        bars, [f"{scores[n]['f1']:.2f} ({scores[n]['count']:,})" for n in lowest], padding=2
    )
    axes.set_yticks(ticks, names, **style)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15)
    axes.set_xlabel("F1 (number of examples)")


def _shown(labels: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Names to draw for labels, and the style that has fonts for them."""
    names = [texts.shorten(texts.one_line(label), _MAX_NAME) for label in labels]
    families = fonts_for("".join(names))
    if not families:
        unknown = [number for number, name in enumerate(names) if not fonts_for(name)]
        legend = ", ".join(f"{number}: {names[number]}" for number in unknown)
        logging.warning(
            "no font has all characters of some labels; the picture has %s. "
            "pip install 'bert-tf[fonts]' brings fonts of more scripts",
            legend,
        )
        for number in unknown:
            names[number] = str(number)
        families = fonts_for("".join(names))
    return names, {"fontfamily": families, "parse_math": False}


def _confused_most(errors: np.ndarray) -> list[tuple[int, int]]:
    """The pairs (true, predicted) with the most errors, in descending order."""
    order = np.argsort(-errors, axis=None, kind="stable")[:_MAX_PAIRS]
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
    counts, fraction = matrix[part], (matrix / np.maximum(matrix.sum(1, keepdims=True), 1))[part]
    axes.imshow(fraction, cmap="Blues", vmin=0, vmax=1)
    ticks, named = range(len(chosen)), [names[number] for number in chosen]
    axes.set_xticks(ticks, named, rotation=90 if len(named) > _UPRIGHT else 0, **style)
    axes.set_yticks(ticks, named, **style)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    few = len(named) <= _ALL_COUNTS
    style = {"ha": "center", "va": "center", "fontsize": 8 if few else 6, "in_layout": False}
    for (row, column), value in np.ndenumerate(counts):
        if few or value:
            color = "white" if fraction[row, column] > 0.5 else "black"
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


def fonts_for(text: str) -> list[str] | None:
    """Font families that together have all characters of a text, the usual one first.

    Fonts of this machine come first, then those of the extra `fonts`, if installed: `mpl-font`
    (Chinese, Japanese, Korean) and `pymupdf-fonts` (Devanagari, Thai, Georgian, emoji and others).

    Returns:
      Names for matplotlib's `fontfamily`, or None if a character is in no font.
    """
    import matplotlib
    from matplotlib import font_manager

    default = font_manager.findfont(font_manager.FontProperties())
    missing = {ord(character) for character in text if character.isprintable()} - _has(default)
    families = list(matplotlib.rcParams["font.family"])
    for font in font_manager.fontManager.ttflist if missing else ():
        found = missing & _has(font.fname)
        if found and not font.name.startswith(_BOXES):
            families.append(font.name)
            missing -= found
    for path in _of_packages() if missing else ():
        found = missing & _has(path)
        if found:
            font_manager.fontManager.addfont(path)
            families.append(font_manager.FontProperties(fname=path).get_name())
            missing -= found
    return None if missing else families


@functools.cache
def _has(path: str) -> frozenset[int]:
    """The code points that a font file has glyphs for; none if it cannot be read."""
    from matplotlib import font_manager

    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _of_packages() -> Iterator[str]:
    """Paths of the fonts in Python packages."""
    package = importlib.util.find_spec("mpl_font")  # importing it would change the settings
    for folder in (package and package.submodule_search_locations) or ():
        path = f"{folder}/fonts/noto/NotoSansCJKsc-Regular.otf"
        if os.path.exists(path):
            yield path
    if optional.is_there("pymupdf_fonts"):
        yield from map(_written, ("figo", "symbol2"))  # FiraGO, Noto Sans Symbols 2


@functools.cache
def _written(name: str) -> str:
    """The path of a font that its package has in memory only; matplotlib reads files."""
    import pymupdf_fonts

    with tempfile.NamedTemporaryFile(suffix=".ttf", delete=False) as file:
        file.write(pymupdf_fonts.myfont(name))
    atexit.register(os.unlink, file.name)
    return file.name
