"""Pages of one file: a body with its style, its scripts and its data put in.

They ask for nothing from outside, and their browser is told to run and to let through nothing but
what they were made of.
"""

import base64
import functools
import hashlib
import html
import json
import string
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

from pipelines.common import texts

_FOLDER = "html"  # of a page's files, in its package; of what all pages have, in this one


class PageFiles(NamedTuple):
    """What a page is made of, besides what all pages have.

    Attributes:
      package: whose folder `html` has the files.
      body: the name of the HTML between the tags of the body.
      styles: names, in the order in which they count.
      scripts: names, in the order in which they run; PACKAGE:NAME for a file of another package.
      asks_its_server: whether it may send requests to where it came from.
    """

    package: str
    body: str
    styles: Sequence[str]
    scripts: Sequence[str]
    asks_its_server: bool = False


def render(made_of: PageFiles, title: str, writer: str, data: Sequence[str]) -> str:
    """The page.

    Args:
      made_of: its files.
      title: of the window; shortened, and without control characters.
      writer: who writes it.
      data: elements of `json_element` and `bytes_element`.
    """
    style, script = (
        _joined(made_of.package, f"base.{kind}", names)
        for kind, names in (("css", made_of.styles), ("js", made_of.scripts))
    )
    return string.Template(_read(__package__, "page.html")).substitute(
        mark=mark(writer),
        policy=_policy(style, script, made_of.asks_its_server),
        title=html.escape(texts.label(title)),
        style=style,
        body=_read(made_of.package, made_of.body),
        data="\n".join(data),
        script=script,
    )


def mark(writer: str) -> str:
    """The element near the beginning of a page that says who wrote it."""
    return f'<meta name="generator" content="{html.escape(writer)}">'


def json_element(name: str, value: Any) -> str:
    """JSON as an element that no browser runs, of a name that scripts find it by."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # So that no text can end the element that it is in.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>'


def bytes_element(name: str, value: bytes) -> str:
    """Bytes as such an element, in base64."""
    return f'<script type="text/plain" id="{name}">{base64.b64encode(value).decode()}</script>'


def _policy(style: str, script: str, asks_its_server: bool) -> str:
    """What a browser may do: run this script and style, and ask nobody else."""
    rules = {
        "default-src": "'none'",
        "script-src": _checksum(script),
        "style-src": _checksum(style),
        "img-src": "data:",
        **({"connect-src": "'self'"} if asks_its_server else {}),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _checksum(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _joined(package: str, shared: str, names: Sequence[str]) -> str:
    own = (_read(package, name) for name in names)
    return "\n".join([_read(__package__, shared), *own])


@functools.cache
def _read(package: str, name: str) -> str:
    other, colon, file = name.rpartition(":")
    place = resources.files(other) if colon else resources.files(package).joinpath(_FOLDER)
    return place.joinpath(file).read_text("utf-8")
