"""HTML pages of one file, which contains its style, scripts and data.

A page loads nothing from outside. Its content security policy allows only its own style and
scripts.
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

_FOLDER = "html"  # in the package of a page; in this package with the files of all pages


class PageFiles(NamedTuple):
    """The files of a page, in addition to those of all pages.

    Attributes:
      package: Name of the package with the folder `html` of the files.
      body: Name of the file with the content of the body.
      styles: Names of style sheets; later ones take precedence.
      scripts: Names of scripts in the order in which they run; PACKAGE:NAME for a file of another
        package.
      asks_its_server: Whether the page may send requests to its server.
    """

    package: str
    body: str
    styles: Sequence[str]
    scripts: Sequence[str]
    asks_its_server: bool = False


def render(made_of: PageFiles, title: str, writer: str, data: Sequence[str]) -> str:
    """The HTML of a page.

    Args:
      made_of: The files of the page.
      title: Title of the window; it is shortened, and control characters are removed.
      writer: Name of the program that writes the page.
      data: Elements made by `json_element` and `bytes_element`.
    """
    style, script = (
        "\n".join([_read(__package__, f"base.{kind}"), *(_read(made_of.package, n) for n in names)])
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
    """The element near the beginning of a page that names its writer."""
    return f'<meta name="generator" content="{html.escape(writer)}">'


def json_element(name: str, value: Any) -> str:
    """A value as JSON in an element that is not executed; scripts find it by its name."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # So that no text can end the element that it is in.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>'


def bytes_element(name: str, value: bytes) -> str:
    """Bytes in base64 in an element that is not executed; scripts find it by its name."""
    return f'<script type="text/plain" id="{name}">{base64.b64encode(value).decode()}</script>'


def _policy(style: str, script: str, asks_its_server: bool) -> str:
    """The content security policy: only this script and style, and no other servers."""
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


@functools.cache
def _read(package: str, name: str) -> str:
    other, colon, file = name.rpartition(":")
    place = resources.files(other) if colon else resources.files(package).joinpath(_FOLDER)
    return place.joinpath(file).read_text("utf-8")
