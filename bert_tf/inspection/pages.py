"""Pages of one file: a template with its style, its scripts and its numbers put in.

They ask for nothing from outside, and their browser is told to let nothing through.
"""

import base64
import enum
import html
import json
import string
from collections.abc import Sequence
from importlib import resources

from bert_tf.inspection.look import Look
from pipelines.common import files
from pipelines.common.errors import InputError

MARK = '<meta name="generator" content="bert-tf look">'  # says whose a page is
_FOLDER = "page"  # of the templates, in this package
_MODEL_SCRIPTS = (
    *("common.js", "tokens.js", "attention.js", "reading.js", "answer.js", "guesses.js"),
    "model.js",
)
_RUN_SCRIPTS = ("common.js", "charts.js", "course.js", "words.js", "run.js")
_HEAD = 2_000  # characters of a page that have the mark


class Kind(enum.Enum):
    """The pages, by the name of the template; and their scripts, in this order."""

    MODEL = ("model.html", _MODEL_SCRIPTS)
    RUN = ("run.html", _RUN_SCRIPTS)


def render(kind: Kind, title: str, look: Look) -> str:
    """The page.

    Args:
      kind: which.
      title: of the window.
      look: what it shows.
    """
    template, scripts = kind.value
    return string.Template(_read(template)).substitute(
        title=html.escape(title),
        mark=MARK,
        style=_read("style.css"),
        script="\n".join(map(_read, scripts)),
        data="\n".join(_data(look)),
    )


def _data(look: Look) -> Sequence[str]:
    """The numbers as elements that no browser runs."""
    text = json.dumps(look.values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # So that no text can end the element that it is in.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    parts = ((name, base64.b64encode(part).decode()) for name, part in look.parts.items())
    return [
        f'<script type="application/json" id="values">{text}</script>',
        *(f'<script type="text/plain" id="{name}">{part}</script>' for name, part in parts),
    ]


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(_FOLDER, name).read_text("utf-8")


def check_output(path: str) -> None:
    """Raises InputError where something else than such a page is in the place of one."""
    if not files.gfile.exists(path):
        return
    if files.gfile.isdir(path):
        raise InputError(f"{path}: is a folder; name a file to write (OUT=).")
    with files.open_binary(path) as file:
        if MARK.encode() not in file.read(_HEAD):
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
