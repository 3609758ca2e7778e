"""A small writer of SVG, whose pictures follow the light or dark theme of the reader.

Colours are classes, each with a value for both themes, and the background is opaque, so that a
picture can be read on any page. The same calls give the same bytes.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

WIDTH = 720
SANS = "system-ui,-apple-system,'Segoe UI','Noto Sans','Noto Sans CJK KR',sans-serif"
MONO = "ui-monospace,'SF Mono',Consolas,'DejaVu Sans Mono','Noto Sans CJK KR',monospace"
# Fill and stroke of boxes, and the fill of bars and cells, in light and dark themes.
BOXES = {
    "blue": (("#ddf4ff", "#218bff", "#0969da"), ("#0b2f5c", "#4493f8", "#58a6ff")),
    "orange": (("#fff1e5", "#e16f24", "#d1570c"), ("#4a2208", "#db6d28", "#f0883e")),
    "green": (("#dafbe1", "#2da44e", "#1a7f37"), ("#0c3a1b", "#2ea043", "#3fb950")),
    "violet": (("#fbefff", "#a475f9", "#8250df"), ("#34185f", "#a371f7", "#bc8cff")),
    "grey": (("#f6f8fa", "#afb8c1", "#6e7781"), ("#21262d", "#6e7681", "#8b949e")),
}
TEXTS = {"ink": ("#1f2328", "#e6edf3"), "muted": ("#59636e", "#9da7b3")}
CARD = (("#ffffff", "#d0d7de"), ("#0d1117", "#30363d"))


def _rules(theme: int) -> str:
    """The rules of a theme: 0 is light, 1 is dark."""
    fill, stroke = CARD[theme]
    rules = [f".card{{fill:{fill};stroke:{stroke}}}"]
    for name, shades in TEXTS.items():
        rules.append(
            f".{name},.b-{name}{{fill:{shades[theme]}}}.l-{name}{{stroke:{shades[theme]}}}"
        )
    for name, themes in BOXES.items():
        fill, stroke, bar = themes[theme]
        rules.append(f".{name}{{fill:{fill};stroke:{stroke}}}.b-{name}{{fill:{bar}}}")
        rules.append(f".t-{name}{{fill:{bar}}}.l-{name}{{stroke:{stroke}}}")
    return "".join(rules)


STYLE = (
    f"text{{font:14px {SANS}}}.m{{font-family:{MONO};font-size:13px}}.s{{font-size:12px}}"
    ".e{text-anchor:end}.c{text-anchor:middle}.h{font-weight:600}.line{fill:none;stroke-width:1.5}"
    ".thick{stroke-width:2.5}.thin{stroke-width:1;stroke-opacity:.45}"
    + _rules(0)
    + f"@media (prefers-color-scheme:dark){{{_rules(1)}}}"
)


def number(value: float) -> str:
    """A coordinate, with at most one decimal."""
    text = f"{value:.1f}"
    return (
        text.removesuffix(".0").replace("-0", "0")
        if text in ("-0.0", "0.0")
        else (text.removesuffix(".0"))
    )


def width_of(text: str, size: float = 14, mono: bool = False) -> float:
    """About the width of a text; East Asian characters are as wide as high."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return size * (0.95 * wide + (0.61 if mono else 0.55) * (len(text) - wide))


class Picture:
    """An SVG of WIDTH, to which shapes are added from top to bottom.

    Args:
      height: its height.
      title: what it shows, for readers who do not see it.
    """

    def __init__(self, height: float, title: str):
        self.height = height
        self._parts = [
            f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{number(height - 1)}" '
            'rx="8"/>'
        ]
        self._title = title

    def text(self, x: float, y: float, text: str, style: str = "ink") -> None:
        """Adds a line of text; `style` has classes: e and c end or centre it at x, m is mono."""
        if text:
            place = f'x="{number(x)}" y="{number(y)}"'
            self._parts.append(f'<text class="{style}" {place}>{escape(text)}</text>')

    def lines(self, x: float, y: float, texts: Iterable[str], style: str = "ink") -> None:
        """Adds lines of text below each other."""
        for index, text in enumerate(texts):
            self.text(x, y + 18 * index, text, style)

    def box(
        self, x: float, y: float, width: float, height: float, style: str, opacity: float = 1
    ) -> None:
        """Adds a box; a `b-` style has no border, and may be translucent."""
        faint = "" if opacity >= 1 else f' fill-opacity="{opacity:.2f}"'
        corner = "" if style.startswith("b-") else ' rx="4"'
        self._parts.append(
            f'<rect class="{style}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}"{corner}{faint}/>'
        )

    def label(
        self, x: float, y: float, width: float, height: float, text: str, style: str, more: str = ""
    ) -> None:
        """Adds a box with a text in its middle; `more` are further classes of the text."""
        self.box(x, y, width, height, style)
        self.text(x + width / 2, y + height / 2 + 5, text, f"ink c {more}".strip())

    def turned_text(self, x: float, y: float, text: str, style: str = "ink") -> None:
        """Adds a text that runs upwards."""
        turn = f"translate({number(x)} {number(y)}) rotate(-90)"
        self._parts.append(f'<text class="{style}" transform="{turn}">{escape(text)}</text>')

    def frame(self, x: float, y: float, width: float, height: float, style: str) -> None:
        """Adds the outline of a box."""
        self._parts.append(
            f'<rect class="line {style}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}" rx="4"/>'
        )

    def arrow(self, x: float, y: float, to_x: float, to_y: float, style: str = "l-muted") -> None:
        """Adds a straight arrow."""
        self.path(f"M{number(x)} {number(y)}L{number(to_x)} {number(to_y)}", style, head=True)

    def path(self, data: str, style: str = "l-muted", head: bool = False) -> None:
        """Adds a line, by SVG's path data; with a head it is an arrow."""
        marker = ' marker-end="url(#head)"' if head else ""
        self._parts.append(f'<path class="line {style}" d="{data}"{marker}/>')

    def cells(
        self, squares: Sequence[tuple[float, float]], size: float, style: str, opacity: float
    ) -> None:
        """Adds squares of one colour, by their top left corners, as one shape."""
        side = number(size)
        data = "".join(f"M{number(x)} {number(y)}h{side}v{side}h-{side}z" for x, y in squares)
        if data:
            self._parts.append(f'<path class="{style}" fill-opacity="{opacity:.2f}" d="{data}"/>')

    def render(self) -> str:
        """The SVG."""
        size = f"{WIDTH} {number(self.height)}"
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="muted" d="M0 0L8 4L0 8z"/></marker>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
            f'width="{WIDTH}" height="{number(self.height)}" role="img">'
            f"<title>{escape(self._title)}</title><style>{STYLE}</style><defs>{head}</defs>\n"
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )
