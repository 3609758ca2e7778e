"""Pages of what goes on inside: of a model that reads a text, and of a run.

They ask for nothing from outside, and their browser is told to let nothing through.
"""

import enum

from bert_tf.inspection.look import Look
from pipelines.common import files, html_page
from pipelines.common.errors import InputError
from pipelines.common.html_page import PageFiles

_WRITER = "bert-tf look"
_STYLES = ("style.css",)
_MODEL_SCRIPTS = (
    *("common.js", "tokens.js", "attention.js", "reading.js", "answer.js", "guesses.js"),
    "model.js",
)
_RUN_SCRIPTS = ("common.js", "charts.js", "course.js", "words.js", "run.js")
_HEAD = 2_000  # characters of a page that have the mark


class Kind(enum.Enum):
    """The pages, by what they are made of."""

    MODEL = PageFiles(__package__, "model.html", _STYLES, _MODEL_SCRIPTS)
    RUN = PageFiles(__package__, "run.html", _STYLES, _RUN_SCRIPTS)


def render(kind: Kind, title: str, look: Look) -> str:
    """The page.

    Args:
      kind: which.
      title: of the window.
      look: what it shows.
    """
    parts = (html_page.bytes_element(name, part) for name, part in look.parts.items())
    data = [html_page.json_element("values", look.values), *parts]
    return html_page.render(kind.value, title, _WRITER, data)


def check_output(path: str) -> None:
    """Raises InputError where something else than such a page is in the place of one."""
    if not files.gfile.exists(path):
        return
    if files.gfile.isdir(path):
        raise InputError(f"{path}: is a folder; name a file to write (OUT=).")
    with files.open_binary(path) as file:
        if html_page.mark(_WRITER).encode() not in file.read(_HEAD):
            raise InputError(
                f"{path}: is there, and is no page of this command; name another file (OUT=)."
            )


def write(path: str, page: str) -> None:
    """Writes a page, in place of an older one.

    Raises:
      InputError: something else is there, or the disk is full.
    """
    check_output(path)
    files.write_text(path, page)
