"""Pages as single HTML files that load nothing from elsewhere, and whose browser must not."""

import enum
from typing import Any, NamedTuple

from pipelines.common import files, html_page
from pipelines.common.errors import InputError
from pipelines.common.html_page import PageFiles

_WRITER = "bert-tf inspect"
_STYLES = ("style.css",)
_MODEL_SCRIPTS = (
    *("common.js", "tokens.js", "attention.js", "reading.js", "answer.js", "guesses.js"),
    "model.js",
)
_RUN_SCRIPTS = ("common.js", "charts.js", "course.js", "words.js", "run.js")
_HEAD = 2_000  # characters at the beginning of a page that contain the mark


class PageKind(enum.Enum):
    """The kinds of pages, and their files."""

    MODEL = PageFiles(__package__, "model.html", _STYLES, _MODEL_SCRIPTS)
    RUN = PageFiles(__package__, "run.html", _STYLES, _RUN_SCRIPTS)


class PageData(NamedTuple):
    """The data of a page.

    Attributes:
      values: JSON values.
      parts: data that would be long as JSON, by name.
    """

    values: dict[str, Any]
    parts: dict[str, bytes]


def rounded(value: Any, digits: int = 5) -> Any:
    """JSON values with numbers of so many significant digits; of numbers, lists and arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def render(kind: PageKind, title: str, data: PageData) -> str:
    """The HTML of a page with a window title."""
    parts = (html_page.bytes_element(name, part) for name, part in data.parts.items())
    elements = [html_page.json_element("values", data.values), *parts]
    return html_page.render(kind.value, title, _WRITER, elements)


def check_output(path: str) -> None:
    """Raises InputError if there is a file that is not such a page."""
    if not files.gfile.exists(path):
        return
    if files.gfile.isdir(path):
        raise InputError(f"{path}: is a folder; name a file to write (--output, OUT=).")
    with files.open_binary(path) as file:
        if html_page.mark(_WRITER).encode() not in file.read(_HEAD):
            raise InputError(
                f"{path}: exists, and is not a page of this command; name another file "
                "(--output, OUT=)."
            )


def write(path: str, page: str) -> None:
    """Writes a page, which may replace an older page.

    Raises:
      InputError: there is a file that is not a page, or the disk is full.
    """
    check_output(path)
    files.write_text(path, page)
