"""Fonts for pictures, in any script that an installed one has."""

import functools

_BOXES = "Last Resort"  # has a box, not a glyph, for every character


def covering(text: str) -> list[str] | None:
    """Font families that have all characters of a text between them, the usual one first.

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
    return None if missing else families


@functools.cache
def _has(path: str) -> frozenset[int]:
    """The code points that a font file has glyphs for; none if it cannot be read any more."""
    from matplotlib import font_manager

    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
