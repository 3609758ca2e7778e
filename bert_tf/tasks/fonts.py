"""Fonts for pictures, in any script that an installed one has."""

import atexit
import functools
import importlib.util
import os
import tempfile
from collections.abc import Iterator

from pipelines.common import optional

_BOXES = "Last Resort"  # has a box, not a glyph, for every character


def covering(text: str) -> list[str] | None:
    """Font families that have all characters of a text between them, the usual one first.

    Fonts of this machine come first, then those of Python packages that are there: `mpl-font`
    (Chinese, Japanese, Korean) and `pymupdf-fonts` (Devanagari, Thai, Georgian and others; emoji).

    Returns:
      Names for matplotlib's `fontfamily`, or None if some character is in no font.
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
    """The code points that a font file has glyphs for; none if it cannot be read any more."""
    from matplotlib import font_manager

    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _of_packages() -> Iterator[str]:
    """Paths of the fonts of Python packages."""
    package = importlib.util.find_spec("mpl_font")  # importing it would change the settings
    for folder in (package and package.submodule_search_locations) or ():
        path = f"{folder}/fonts/noto/NotoSansCJKsc-Regular.otf"
        if os.path.exists(path):
            yield path
    if optional.is_there("pymupdf_fonts"):
        yield from map(_written, ("figo", "symbol2"))  # FiraGO, Noto Sans Symbols 2


@functools.cache
def _written(name: str) -> str:
    """The path of a font that its package holds in memory; matplotlib reads files alone."""
    import pymupdf_fonts

    with tempfile.NamedTemporaryFile(suffix=".ttf", delete=False) as file:
        file.write(pymupdf_fonts.myfont(name))
    atexit.register(os.unlink, file.name)
    return file.name
